"""How a story about replication is told: a cluster with one topic, values written and found, replicas compared.

Called by test_stories.py and test_cuts.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.cluster.replicas import check_equal_replicas
from tests.support.namespaces import network_or_skip
from tests.support.processes import ClusterProcesses, node_ids
from tests.support.survey import QUIET, TIMEOUT_S, read_to_end

TOPIC = "story"


@contextmanager
def story(
    directory: Path,
    *,
    brokers: int = 3,
    controllers: int = 0,
    settings: dict[str, str] | None = None,
    namespaces: bool = False,
    **configs: str,
) -> Iterator[ClusterProcesses]:
    """A cluster with a topic of one partition on every broker; at the end its replicas are in sync and equal."""
    network = network_or_skip(node_ids(brokers, controllers)) if namespaces else None
    cluster = ClusterProcesses(directory, brokers=brokers, controllers=controllers, settings=settings, network=network)
    with network or nullcontext(), cluster:
        cluster.create_topic(
            TOPIC, 1, replicas=brokers, configs={name.replace("_", "."): value for name, value in configs.items()}
        )
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "every replica in sync")
        yield cluster
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "every replica in sync again")
        cluster.wait_for_voters()
        assigned = cluster.assignments()
        cluster.stop()
    check_equal_replicas(cluster, assigned, whole={TOPIC: 1}, factor=brokers)
    assert cluster.errors() == []


def send(
    cluster: ClusterProcesses, word: str, count: int = 20, *, acks: str = "all", without: int | None = None
) -> list[str]:
    """Write so many values, all of which are acknowledged; returns them.

    `without` is a node that the producer is not told of: one that is cut off from the others says that it still leads,
    and a client that has asked nobody else believes it.
    """
    producer = Producer({
        "bootstrap.servers": ",".join(node.address for node in cluster.brokers if node.node_id != without),
        "acks": acks,
        "linger.ms": 0,
        "batch.num.messages": 3,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 500,
        **QUIET,
    })  # fmt: skip
    failures: list[str] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    values = [f"{word} {number}" for number in range(count)]
    for value in values:
        producer.produce(TOPIC, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(TIMEOUT_S) == 0, f"{word}: not acknowledged"
    assert failures == []
    return values


def found(cluster: ClusterProcesses) -> list[str]:
    """The values of the topic, in order."""
    rows = read_to_end(cluster.addresses, [TopicPartition(TOPIC, 0)], "read_uncommitted")
    return [base64.b64decode(row[4]).decode() for row in rows[TOPIC, 0]]


def leader(cluster: ClusterProcesses) -> int:
    """Who leads; waits for an election."""
    cluster.wait(lambda: 0 in cluster.leaders(TOPIC), "a leader")
    return cluster.leaders(TOPIC)[0]

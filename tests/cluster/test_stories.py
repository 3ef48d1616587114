"""The stories that are told about replication, each with real processes, from its beginning to its end.

What is acknowledged with acks=all outlives every one of them; what acks=1 and an unclean election may lose is lost, and
nothing besides. After each, the replicas' log files are equal.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.cluster.replicas import check_equal_replicas, log_bytes
from tests.support.processes import METADATA_TOPIC, ClusterProcesses
from tests.support.survey import QUIET, TIMEOUT_S, read_to_end

TOPIC = "story"
pytestmark = pytest.mark.timeout(180)


@contextmanager
def story(
    directory: Path, *, brokers: int = 3, controllers: int = 0, settings: dict[str, str] | None = None, **configs: str
) -> Iterator[ClusterProcesses]:
    """A cluster with a topic of one partition on every broker; at the end its replicas are in sync and equal."""
    cluster = ClusterProcesses(directory, brokers=brokers, controllers=controllers, settings=settings)
    with cluster:
        cluster.create_topic(
            TOPIC, 1, replicas=brokers, configs={name.replace("_", "."): value for name, value in configs.items()}
        )
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "every replica in sync")
        yield cluster
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "every replica in sync again")
        cluster.stop()
    assert check_equal_replicas(cluster, whole=(TOPIC,)) > 0
    assert cluster.errors() == []


def send(cluster: ClusterProcesses, word: str, count: int = 20, *, acks: str = "all") -> list[str]:
    """Write so many values, all of which are acknowledged; returns them."""
    producer = Producer({
        "bootstrap.servers": cluster.addresses,
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


def test_the_leader_dies_with_a_lagging_follower(tmp_path: Path) -> None:
    """The one that stood still is not elected before it has what the other one has."""
    with story(tmp_path) as cluster:
        values = send(cluster, "all three")
        first = leader(cluster)
        lagging, other = (node.node_id for node in cluster.brokers if node.node_id != first)
        cluster[lagging].pause()
        cluster.wait(lambda: cluster.isr(TOPIC)[0] == sorted([first, other]), "the ISR without the lagging follower")
        values += send(cluster, "two of three")
        cluster[first].kill()
        cluster[lagging].resume()
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == other, "the election of the replica that has it all")
        cluster.wait(lambda: cluster.isr(TOPIC)[0] == sorted([lagging, other]), "the return of the lagging follower")
        values += send(cluster, "another two of three")
        cluster.start(first)
        assert found(cluster) == values


@pytest.mark.parametrize("returns_first", ["the last in sync", "the one behind"])
def test_all_replicas_die_and_return(returns_first: str, tmp_path: Path) -> None:
    """The replica that was in sync to the end leads again; one that was behind waits for it, however early it is."""
    with story(tmp_path, brokers=2, controllers=1, min_insync_replicas="1") as cluster:
        values = send(cluster, "both")
        last = leader(cluster)
        (behind,) = (node.node_id for node in cluster.brokers if node.node_id != last)
        cluster[behind].kill()
        values += send(cluster, "the last one alone")
        cluster[last].kill()
        if returns_first == "the last in sync":
            cluster.start(last)
            assert leader(cluster) == last
            assert found(cluster) == values
            cluster.start(behind)
        else:
            cluster.start(behind)
            # It may not lead, because it has not got everything: when the last one's session is over, nobody does.
            cluster.wait(lambda: cluster.leaders(TOPIC) == {}, "a partition without a leader")
            cluster.start(last)
            assert leader(cluster) == last
        values += send(cluster, "both again")
        assert found(cluster) == values


def test_the_controller_is_isolated_and_returns(tmp_path: Path) -> None:
    """Another takes over meanwhile; the old one finds out, follows, and has the same metadata log in the end."""
    with story(tmp_path, brokers=2, controllers=3, min_insync_replicas="1") as cluster:
        old = cluster.active_controller()
        cluster[old].pause()
        cluster.wait(lambda: cluster.active_controller() != old, "another controller")
        cluster.create_topic("meanwhile", 3, replicas=2)
        values = send(cluster, "meanwhile")
        new = cluster.active_controller()
        cluster[old].resume()
        cluster.create_topic("afterwards", 3, replicas=2)
        assert cluster.active_controller() == new
        assert found(cluster) == values
    logs = {node.node_id: log_bytes(node.data / f"{METADATA_TOPIC}-0") for node in cluster.controllers}
    shortest = min(map(len, logs.values()))
    assert len({data[:shortest] for data in logs.values()}) == 1
    assert all(b"afterwards" in data for data in logs.values())


SLOW_TO_FENCE = {"broker.session.timeout.ms": "5000", "replica.lag.time.max.ms": "20000"}
"""Followers that stand still stay in the ISR until their leader is dead."""


def test_acks_1_loses_what_no_follower_had_yet_and_nothing_besides(tmp_path: Path) -> None:
    """acks=1 is the leader's word alone (producer setting `acks`): what it acknowledged and nobody had fetched is gone
    with it, also from its own log when it returns. What was replicated, or acknowledged with acks=all, stays."""
    with story(tmp_path, brokers=2, controllers=1, settings=SLOW_TO_FENCE, min_insync_replicas="1") as cluster:
        kept = send(cluster, "acks=all") + send(cluster, "acks=1, replicated", acks="1")
        first = leader(cluster)
        (follower,) = (node.node_id for node in cluster.brokers if node.node_id != first)
        kept += send(cluster, "acks=all again")  # its acknowledgement says that the follower has all of the above
        cluster[follower].pause()
        answered = send(cluster, "acks=1, answers the fetch that waits", 1, acks="1")
        send(cluster, "acks=1, fetched by nobody", acks="1")
        cluster[first].kill()
        cluster[follower].resume()
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == follower, "the election of the follower")
        survived = found(cluster)
        assert survived in (kept, kept + answered)
        kept = survived
        kept += send(cluster, "after the election")
        cluster.start(first)
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        assert found(cluster) == kept


def test_an_unclean_election_loses_what_the_elected_replica_had_not_and_nothing_besides(tmp_path: Path) -> None:
    """With `unclean.leader.election.enable` a replica out of sync leads rather than none: the topic is available again
    without what was acknowledged while that replica was away."""
    with story(
        tmp_path, brokers=2, controllers=1, min_insync_replicas="1", unclean_leader_election_enable="true"
    ) as cluster:
        kept = send(cluster, "both")
        last = leader(cluster)
        (behind,) = (node.node_id for node in cluster.brokers if node.node_id != last)
        cluster[behind].kill()
        lost = send(cluster, "the last one alone")
        assert found(cluster) == kept + lost
        cluster[last].kill()
        cluster.start(behind)
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == behind, "the unclean election")
        assert found(cluster) == kept
        kept += send(cluster, "after the election")
        cluster.start(last)
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        assert found(cluster) == kept

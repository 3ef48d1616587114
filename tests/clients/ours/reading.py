"""What a topic holds, as a stock client reads it: the judge of what our own producer wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.client.admin import Admin, TransactionState
from tests.support.clients import PATIENCE_S, eventually
from tests.support.nodes import KIND, NODE_COUNT, REPLICAS, Nodes, running
from tests.support.server import Server

BEING_COMPLETED = [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
TIMESTAMP_TYPES = {ck.TIMESTAMP_CREATE_TIME: "create", ck.TIMESTAMP_LOG_APPEND_TIME: "append"}


@dataclass(frozen=True, slots=True)
class Read:
    """A record as it was read."""

    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def create_topic(address: str, name: str, partition_count: int = 1, **configs: str) -> str:
    """Make the topic and wait until it can be used."""
    admin = AdminClient({"bootstrap.servers": address})
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    for made in admin.create_topics([NewTopic(name, partition_count, REPLICAS, config=settings)]).values():
        made.result(PATIENCE_S)
    return name


def read_all(address: str, topic: str, *, isolation: str = "read_committed") -> list[Read]:
    """Everything that the topic holds now, partition by partition."""
    consumer = ck.Consumer({
        "bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False,
        "isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 20,
    })  # fmt: skip
    try:
        partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
        consumer.assign([ck.TopicPartition(topic, index, 0) for index in partitions])
        left = set(partitions)
        found = []
        deadline = time.monotonic() + PATIENCE_S
        while left and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
                continue
            kind, timestamp = message.timestamp()
            found.append(
                Read(
                    message.partition() or 0,
                    message.offset() or 0,
                    timestamp,
                    TIMESTAMP_TYPES[kind],
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),  # type: ignore[arg-type]  # always a list of pairs
                )
            )
        assert not left, f"partitions {left} of {topic} were not read to their end"
        return sorted(found, key=lambda one: (one.partition, one.offset))
    finally:
        consumer.close()


def values(address: str, topic: str, *, isolation: str = "read_committed") -> list[bytes | None]:
    if NODE_COUNT > 1 and isolation == "read_committed":
        await_markers(address)
    return [one.value for one in read_all(address, topic, isolation=isolation)]


def await_markers(address: str) -> None:
    """Wait until no transaction is between its end and its markers: a commit is answered before other brokers have
    written theirs, in Kafka too."""
    with Admin(bootstrap_servers=address) as admin:
        eventually(lambda: not admin.list_transactions(states=BEING_COMPLETED), "all markers are written")


@contextmanager
def restartable(directory: Path, **more: str) -> Iterator[Server | Nodes]:
    """A broker that can be killed and started again on its port, or several."""
    with running(KIND, directory, {name.replace("_", "."): value for name, value in more.items()}) as started:
        yield started

"""`ottla server start` on the directory that a real Kafka wrote: stock clients see what they saw of Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.coordinator.transaction import STATE_BY_NAME
from ottla.records import batches
from ottla.wire.coordinator import TRANSACTION
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.support.golden import golden_data_dir, golden_expected
from tests.support.raw import RawClient
from tests.support.server import Server, Settings
from tests.support.survey import ISOLATION_LEVELS, partition_counts, survey, topic_configs

SETTINGS = {
    "log.index.interval.bytes": "1024",
    "log.index.size.max.bytes": "65536",
    "log.cleaner.backoff.ms": "2000",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    # Nothing may change while it is read: what Kafka left to be cleaned is cleaned in another test.
    "log.cleaner.enable": "false",
}
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

FOREVER = {"retention.ms": "-1"}
TOPIC_CONFIGS = {
    "append-time": {"message.timestamp.type": "LogAppendTime", **FOREVER},
    "broker-zstd": {"compression.type": "zstd", **FOREVER},
    "compacted": {
        "cleanup.policy": "compact",
        "delete.retention.ms": "0",
        "internal.segment.bytes": "16384",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "1000",
        **FOREVER,
    },
    "gzip": {"internal.segment.bytes": "65536", **FOREVER},
    "idempotent": FOREVER,
    "lz4": {"internal.segment.bytes": "65536", **FOREVER},
    "plain": {"internal.segment.bytes": "16384", **FOREVER},
    "snappy": {"internal.segment.bytes": "65536", **FOREVER},
    "transactions": FOREVER,
    "zstd": {"internal.segment.bytes": "65536", **FOREVER},
}
"""The ConfigRecords of the directory's metadata log. A client is shown internal ones too where they are set."""

EXPECTED = golden_expected()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("golden")
    data = golden_data_dir(directory / "data")
    settings = Settings(data)
    settings.update(SETTINGS)
    with Server.ottla(settings.write(directory / "server.properties")) as running:
        yield running
        running.stop()
        assert (data / CLEAN_SHUTDOWN).exists(), "the next start need not look at the logs"
    assert running.errors() == []


def test_the_topics_and_partitions_are_kafkas(server: Server) -> None:
    counts = {topic: len(partitions) for topic, partitions in EXPECTED["topics"].items()}
    assert partition_counts(server.address) == counts


def test_every_reader_sees_what_it_saw_of_kafka(server: Server) -> None:
    """Records at both isolation levels, low and high watermark and offsets for times, through librdkafka."""
    topics: dict[str, Any] = EXPECTED["topics"]
    times = [when for when, _ in topics["plain"]["0"]["offset_for_time"]]
    found = survey(server.address, {topic: len(partitions) for topic, partitions in topics.items()}, times)
    for topic, partitions in topics.items():
        for number, expected in partitions.items():
            for what in ISOLATION_LEVELS:
                assert found[topic][number][what] == expected[what], f"{topic}-{number} {what}"
            for what in ("low", "high", "offset_for_time"):
                assert found[topic][number][what] == expected[what], f"{topic}-{number} {what}"


def test_the_topics_have_the_settings_that_they_had(server: Server) -> None:
    assert topic_configs(server.address, sorted(EXPECTED["topics"])) == TOPIC_CONFIGS


def test_the_transactions_are_as_kafka_left_them(server: Server) -> None:
    """What the coordinators tell is the last record of each transactional id in the directory."""
    last: dict[str, Any] = {}
    for file in sorted((server.log_path.parent / "data").rglob("__transaction_state-*/*.log")):
        for batch in batches(file.read_bytes()):
            for record in batch.records():
                key: Any = TRANSACTION.read_key(record.key or b"")
                last[key.transactional_id] = TRANSACTION.read_value(key, record.value or b"")[0]
    assert list(last) == ["tx-a"]
    with RawClient(server.port) as client:
        listed = client.send(ListTransactionsRequest(), 2, ListTransactionsResponse).transaction_states
        described = client.send(DescribeTransactionsRequest(sorted(last)), 0, DescribeTransactionsResponse)
    assert {one.transactional_id: one.producer_id for one in listed} == {
        name: value.producer_id for name, value in last.items()
    }
    for one in described.transaction_states:
        value = last[one.transactional_id]
        assert one.error_code == 0
        assert STATE_BY_NAME[one.transaction_state].number == value.transaction_status
        assert (one.producer_id, one.producer_epoch) == (value.producer_id, value.producer_epoch)
        assert one.transaction_start_time_ms == value.transaction_start_timestamp_ms


def test_a_stopped_node_starts_again_without_repairs_and_serves_the_same(server: Server) -> None:
    server.stop()
    server.start()
    topics = {topic: len(partitions) for topic, partitions in EXPECTED["topics"].items()}
    found = survey(server.address, topics, isolation=["read_committed"])
    for topic, partitions in EXPECTED["topics"].items():
        for number, expected in partitions.items():
            assert found[topic][number]["read_committed"] == expected["read_committed"], f"{topic}-{number}"
    recovered = [line for line in server.log().splitlines() if "Recovering unflushed segment" in line]
    # The metadata log is read through at every start, as Kafka does it.
    assert [line for line in recovered if "[Log __cluster_metadata-0]" not in line] == []

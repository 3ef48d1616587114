"""Records of a real Kafka, of its metadata log and its coordinators: read, and written back the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.records import batches
from ottla.wire import Message
from ottla.wire.coordinator import GROUP, TRANSACTION, CoordinatorRecords
from ottla.wire.metadata import read_record, write_record
from tests.support.golden import golden_data_dir


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_data_dir(tmp_path_factory.mktemp("golden"))


def records(data_dir: Path, topic: str) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Keys and values of all data records of a topic."""
    for file in sorted(data_dir.rglob(f"{topic}-*/*.log")):
        for batch in batches(file.read_bytes()):
            if not batch.is_control:
                for _, _, key, value, _ in batch.rows():
                    yield key, value


def test_the_metadata_log(data_dir: Path) -> None:
    seen: Counter[str] = Counter()
    for _, value in records(data_dir, "__cluster_metadata"):
        assert value is not None
        record, version = read_record(value)
        assert write_record(record, version) == value
        seen[record.schema.name] += 1
    assert seen["TopicRecord"] == 12
    assert {"RegisterBrokerRecord", "PartitionRecord", "ConfigRecord", "FeatureLevelRecord", "NoOpRecord"} <= set(seen)


@pytest.mark.parametrize("family", [GROUP, TRANSACTION], ids=lambda family: family.topic)
def test_a_coordinators_topic(family: CoordinatorRecords, data_dir: Path) -> None:
    seen: Counter[str] = Counter()
    for key, value in records(data_dir, family.topic):
        assert key is not None
        read = family.read_key(key)
        assert isinstance(read, Message)
        assert family.write_key(read) == key
        seen[read.schema.name] += 1
        if value is not None:
            message, version = family.read_value(read, value)
            assert family.write_value(message, version) == value
            seen[message.schema.name] += 1
    assert sum(seen.values()) > 10
    expected = {"OffsetCommitValue", "GroupMetadataValue"} if family is GROUP else {"TransactionLogValue"}
    assert expected <= set(seen)

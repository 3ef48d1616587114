"""`ottla/coordinator/group/*/records.py`, of classic groups and offsets: bytes that a real Kafka wrote, made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.coordinator import CoordinatorRecord
from ottla.coordinator.group.classic.group import PREPARING_REBALANCE, STABLE, ClassicGroup
from ottla.coordinator.group.classic.records import creation_record, generation_record, group_of
from ottla.coordinator.group.offsets.records import NONE, modern, offset_record, offset_tombstone, offset_value
from ottla.records import batches
from ottla.types import ZERO_UUID
from ottla.wire.coordinator import GROUP
from ottla.wire.coordinator.classic_group import GroupMetadataValue, MemberMetadata
from ottla.wire.coordinator.offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from tests.support.golden import golden_data_dir

READERS = "__consumer_offsets-3"
"""The partition with the golden directory's classic group: created, one generation, three offsets, empty."""

Row = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_data_dir(tmp_path_factory.mktemp("golden") / "data")


def rows(directory: Path) -> Iterator[Row]:
    for path in sorted(directory.glob("*.log")):
        for batch in batches(path.read_bytes()):
            for _, _, key, value, _ in batch.rows():
                assert key is not None
                assert value is not None, f"a tombstone in {directory}"
                yield bytes(key), bytes(value)


def written(record: CoordinatorRecord) -> Row:
    assert record.value is not None, record
    return GROUP.write_key(record.key), GROUP.write_value(record.value, record.version)


def group_metadata(row: Row) -> GroupMetadataValue:
    value, _ = GROUP.read_value(GROUP.read_key(row[0]), row[1])
    assert isinstance(value, GroupMetadataValue), value
    return value


def test_a_group_is_written_as_kafka_writes_it(golden: Path) -> None:
    created, generation, *_, emptied = rows(golden / READERS)
    when_ms = group_metadata(created).current_state_timestamp
    assert written(creation_record(ClassicGroup("readers", now_ms=when_ms))) == created
    group = group_of("readers", group_metadata(generation))
    assert group.state is STABLE
    assert written(generation_record(group, {one: m.assignment for one, m in group.members.items()})) == generation
    for member_id in list(group.members):
        group.remove(member_id)
    group.enter(PREPARING_REBALANCE, 0)
    group.begin_generation(group_metadata(emptied).current_state_timestamp)
    assert written(generation_record(group, {})) == emptied


def test_offsets_are_written_as_kafka_writes_them(golden: Path) -> None:
    found = 0
    for directory in sorted(golden.glob("__consumer_offsets-*")):
        for path in sorted(directory.glob("*.log")):
            for batch in batches(path.read_bytes()):
                for _, _, raw_key, raw_value, _ in batch.rows():
                    key = GROUP.read_key(raw_key or b"")
                    if not isinstance(key, OffsetCommitKey) or raw_value is None:
                        continue
                    value, version = GROUP.read_value(key, raw_value)
                    assert isinstance(value, OffsetCommitValue), value
                    made = offset_value(
                        value.offset,
                        value.leader_epoch,
                        value.metadata or None,
                        value.commit_timestamp,
                        value.expire_timestamp,
                        value.topic_id,
                    )
                    record = offset_record(key.group, key.topic, key.partition, made)
                    assert record.version == version
                    assert written(record) == (bytes(raw_key or b""), bytes(raw_value))
                    found += 1
    assert found == 46


def test_an_offset_with_a_retention_of_its_own_is_written_in_the_version_that_has_one() -> None:
    record = offset_record("g", "t", 1, offset_value(5, 3, "m", 1000, 2000, ZERO_UUID))
    assert record.version == 1
    key, raw = written(record)
    value, _ = GROUP.read_value(GROUP.read_key(key), raw)
    assert value == OffsetCommitValue(offset=5, metadata="m", commit_timestamp=1000, expire_timestamp=2000)


def test_a_tombstone_has_no_value() -> None:
    record = offset_tombstone("g", "t", 1)
    assert record.value is None
    assert GROUP.read_key(GROUP.write_key(record.key)) == OffsetCommitKey("g", "t", 1)


def test_an_offset_in_the_first_form_ever_written_never_expires_by_itself() -> None:
    assert modern(LegacyOffsetCommitValue(7, "m", 99)) == OffsetCommitValue(7, NONE, "m", 99, NONE, ZERO_UUID)


def test_a_member_of_an_old_record_has_its_sessions_timeout_for_rebalances() -> None:
    old = MemberMetadata("m", None, "c", "/h", -1, 6000, b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", b"a")
    value = GroupMetadataValue("consumer", 4, "range", "m", -1, [old])
    group = group_of("g", value)
    assert group.rebalance_timeout_ms == 6000
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("u")

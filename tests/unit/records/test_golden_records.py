"""A real broker's log directory: every batch reads, its records are what a consumer saw, and writing gives it back."""

from __future__ import annotations

import base64
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import pytest

from ottla.records import (
    Batch,
    Codec,
    ControlType,
    EndTransactionMarker,
    TimestampType,
    batches,
    build_batch,
    filter_batch,
    stamp_append_time,
)
from tests.support.golden import GOLDEN, golden_expected
from tests.unit.records.samples import only

# librdkafka's numbers, in the expected file
KAFKA_TIMESTAMP_TYPES = {1: TimestampType.CREATE_TIME, 2: TimestampType.LOG_APPEND_TIME}


@cache
def segments() -> dict[str, bytes]:
    """Path -> content, of every file that is a sequence of batches."""
    with tarfile.open(GOLDEN / "data-dir.tar.xz") as archive:
        found = {}
        for member in archive.getmembers():
            if member.isfile() and member.name.endswith((".log", ".checkpoint")):
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.removeprefix("./")] = file.read()
    return dict(sorted(found.items()))


def every_batch() -> Iterator[tuple[str, Batch]]:
    for path, data in segments().items():
        for batch in batches(data):
            yield path, batch


def partition_batches(partition: str) -> Iterator[Batch]:
    for path, batch in every_batch():
        if PurePosixPath(path).parent.name == partition:
            yield batch


def partitions() -> list[tuple[str, str]]:
    return [(topic, number) for topic, found in golden_expected()["topics"].items() for number in found]


def text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def test_every_byte_of_every_segment_belongs_to_a_batch_whose_checksum_holds() -> None:
    counts = {}
    for path, data in segments().items():
        found = list(batches(data))
        assert sum(batch.size for batch in found) == len(data)
        assert [batch.position for batch in found] == [sum(b.size for b in found[:n]) for n in range(len(found))]
        for batch in found:
            batch.ensure_valid()
        counts[path] = len(found)
    assert sum(count for path, count in counts.items() if path.endswith(".log")) == 594
    assert {batch.codec for _, batch in every_batch()} == set(Codec)


@pytest.mark.parametrize(("topic", "number"), partitions())
def test_the_records_are_what_a_stock_consumer_read(topic: str, number: str) -> None:
    rows: list[list[Any]] = []
    for batch in partition_batches(f"{topic}-{number}"):
        if not batch.is_control:
            rows += (
                [record.offset, batch.timestamp_type, record.timestamp, text(record.key), text(record.value),
                 [[name, text(value)] for name, value in record.headers]]
                for record in batch.records()
            )  # fmt: skip
    expected = golden_expected()["topics"][topic][number]["read_uncommitted"]
    assert expected
    for row in expected:
        row[1] = KAFKA_TIMESTAMP_TYPES[row[1]]
    assert rows == expected


def test_a_scan_of_every_batch_agrees_with_its_records() -> None:
    for _, batch in every_batch():
        scan, rows = batch.scan(), batch.rows()
        assert scan.offsets == [row[0] for row in rows]
        assert scan.timestamps == [row[1] for row in rows]
        assert scan.keys == [row[2] for row in rows]
        assert scan.has_values == [row[3] is not None for row in rows]
        assert len(rows) == batch.record_count


def rebuilt(batch: Batch) -> bytes:
    """The batch, made anew from its records and its header. The append time is stamped on, as a leader does."""
    create_time = bytearray(batch.data)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_append_time:
        create_time[22] &= ~0x08
    made = bytearray(
        build_batch(
            only(create_time).rows(),
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            codec=batch.codec,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            leader_epoch=batch.leader_epoch,
            delete_horizon_ms=batch.delete_horizon_ms,
        )
    )
    if is_append_time:
        stamp_append_time(made, 0, len(made), batch.max_timestamp)
    return bytes(made)


def test_every_uncompressed_batch_is_written_again_byte_for_byte() -> None:
    """With the ones that compaction thinned out or gave a delete horizon, control batches and metadata."""
    kinds = set()
    for path, batch in every_batch():
        if batch.codec is Codec.NONE:
            assert rebuilt(batch) == bytes(batch.data), (path, batch)
            kinds.add((batch.timestamp_type, batch.is_control, batch.delete_horizon_ms is not None))
    assert len(kinds) == 4


def test_every_compressed_batch_is_written_again_with_the_same_records_and_fields() -> None:
    for _, batch in every_batch():
        if batch.codec is not Codec.NONE:
            again = only(rebuilt(batch))
            assert again.rows() == batch.rows()
            assert again.payload() == batch.payload()
            for field in ("base_offset", "last_offset", "base_timestamp", "max_timestamp", "attributes", "producer_id"):
                assert getattr(again, field) == getattr(batch, field)


def test_filtering_gives_the_batches_that_kafkas_cleaner_left() -> None:
    """The cleaner's output, filtered to all of its records by way of each one more, is itself again."""
    thinned = [batch for batch in partition_batches("compacted-0") if batch.record_count <= batch.last_offset_delta]
    assert thinned
    for batch in thinned:
        rows = batch.rows()
        extra = [(batch.last_offset, rows[-1][1], b"gone", b"gone", ())] if rows[-1][0] < batch.last_offset else []
        before = only(
            build_batch(
                [*rows, *extra],
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                leader_epoch=batch.leader_epoch,
                delete_horizon_ms=batch.delete_horizon_ms,
            )
        )
        assert filter_batch(before, before.scan(), range(len(rows))) == bytes(batch.data)


def test_the_control_records_are_transaction_ends_and_the_marks_of_the_raft_log() -> None:
    ends: dict[ControlType, int] = {}
    marks: set[ControlType] = set()
    for path, batch in every_batch():
        if not batch.is_control:
            continue
        for record in batch.records():
            kind = ControlType.of_key(record.key)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                marker = EndTransactionMarker.decode(record.key, record.value)
                assert marker.encode() == record.value
                assert marker.type.key == record.key
                assert batch.is_transactional
                ends[kind] = ends.get(kind, 0) + 1
            else:
                assert "__cluster_metadata" in path or path.endswith(".checkpoint")
                marks.add(kind)
    assert ends == {ControlType.COMMIT: 14, ControlType.ABORT: 6}
    assert {ControlType.LEADER_CHANGE, ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER} <= marks

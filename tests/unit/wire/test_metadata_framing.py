"""The framing of metadata records, and what a newer or damaged one says."""

from __future__ import annotations

import json

import pytest

from ottla.types import Uuid
from ottla.wire import DecodeError, UnknownRecord, encode, message_class
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.metadata import RECORD_TYPES, NoOpRecord, PartitionRecord, TopicRecord, read_record, write_record
from tests.support.golden import GOLDEN


def test_every_record_type_is_written_and_read_in_every_version() -> None:
    facts = json.loads((GOLDEN / "kafka-facts" / "metadata-records.json").read_text())
    assert {row["apiKey"]: row["name"] for row in facts} == RECORD_TYPES
    for name in RECORD_TYPES.values():
        cls = message_class(name)
        for version in range(cls.schema.versions.first, cls.schema.versions.last + 1):
            assert read_record(write_record(cls(), version)) == (cls(), version)


def test_three_varints_come_before_the_record() -> None:
    record = TopicRecord("orders", Uuid(bytes(range(16))))
    assert write_record(record, 0) == b"\x01\x02\x00" + encode(record, 0)
    assert write_record(PartitionRecord(), 2)[:3] == b"\x01\x03\x02"


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        ("00 02 00", "MetadataRecord.frame_version", "0 is not known, only 1"),
        ("02 02 00", "MetadataRecord.frame_version", "2 is not known, only 1"),
        ("01 06 00", "MetadataRecord.type", "6 is not known"),
        ("01 c801 00", "MetadataRecord.type", "200 is not known"),
        ("01 02 07", "TopicRecord.version", "7 is not known, only 0"),
    ],
)
def test_a_record_of_a_newer_kafka_is_told_apart(data: str, path: str, reason: str) -> None:
    with pytest.raises(UnknownRecord) as caught:
        read_record(bytes.fromhex(data.replace(" ", "")))
    assert (caught.value.path, caught.value.reason) == (path, reason)


@pytest.mark.parametrize("data", ["", "01", "0102", "ffffffffff", "0180", "01140000ff"])
def test_a_damaged_record_is_a_decode_error(data: str) -> None:
    with pytest.raises(DecodeError):
        read_record(bytes.fromhex(data))


def test_positions_count_from_the_start_of_the_frame() -> None:
    with pytest.raises(DecodeError) as caught:
        read_record(write_record(TopicRecord("orders"), 0)[:-1])
    assert caught.value.path == "TopicRecord.tags"
    assert caught.value.position == len(write_record(TopicRecord("orders"), 0)) - 1


def test_bytes_after_a_record_are_refused_as_kafka_does() -> None:
    with pytest.raises(DecodeError, match="NoOpRecord at byte 4: 2 bytes follow the end"):
        read_record(write_record(NoOpRecord(), 0) + b"xx")


def test_only_metadata_records_are_written() -> None:
    with pytest.raises(AssertionError, match="FetchRequest is no metadata record"):
        write_record(FetchRequest(), 4)

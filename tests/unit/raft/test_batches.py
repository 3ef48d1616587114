"""Batches of the metadata log: what Kafka wrote is read, and written again with the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import CorruptMessage, RecordListTooLarge
from ottla.raft.batches import (
    BATCH_BYTES_MAX,
    decode_control,
    decode_records,
    encode_batch,
    encode_control_batch,
    versioned,
)
from ottla.records import Batch, RecordBatchBuilder, batches
from ottla.wire.data.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from ottla.wire.metadata import ConfigRecord, NoOpRecord, RegisterBrokerRecord, VersionedRecord
from tests.support.golden import golden_data_dir
from tests.unit.raft.kafka_bytes import CHECKPOINT, FIRST_BATCH, FORMAT_CHECKPOINT


def encode_again(batch: Batch) -> bytes:
    place = {"base_offset": batch.base_offset, "epoch": batch.leader_epoch, "timestamp": batch.base_timestamp}
    if batch.is_control:
        return encode_control_batch([message for _, message in decode_control(batch)], **place)
    return encode_batch(decode_records(batch), **place)


def test_every_batch_of_the_golden_metadata_log_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    directory = golden_data_dir(tmp_path)
    log = (directory / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    again = [encode_again(batch) for batch in batches(log)]
    assert sum(len(decode_records(batch)) for batch in batches(log)) == 481, "and one leader change"
    assert b"".join(again) == log
    bootstrap = (directory / "bootstrap.checkpoint").read_bytes()
    assert b"".join(encode_again(batch) for batch in batches(bootstrap)) == bootstrap


@pytest.mark.parametrize(
    "data", [FORMAT_CHECKPOINT, FIRST_BATCH, CHECKPOINT], ids=["format", "first-batch", "snapshot"]
)
def test_batches_of_kraft_version_1_are_written_again_byte_for_byte(data: bytes) -> None:
    assert b"".join(encode_again(batch) for batch in batches(data)) == data


def test_the_first_batch_of_an_epoch_holds_the_leader_and_with_version_1_the_voters() -> None:
    control = decode_control(next(batches(FIRST_BATCH)))
    assert [(offset, type(message)) for offset, message in control] == [
        (0, LeaderChangeMessage),
        (1, KRaftVersionRecord),
        (2, VotersRecord),
    ]


def test_a_plain_message_is_written_in_its_newest_version() -> None:
    assert versioned(RegisterBrokerRecord()) == VersionedRecord(RegisterBrokerRecord(), 4)
    older = VersionedRecord(RegisterBrokerRecord(), 1)
    assert versioned(older) is older


def test_a_batch_that_is_too_large_is_refused() -> None:
    record = versioned(ConfigRecord(resource_type=2, resource_name="t", name="k", value="v" * 1024))
    with pytest.raises(RecordListTooLarge, match=str(BATCH_BYTES_MAX)):
        encode_batch([record] * (BATCH_BYTES_MAX // 1024), base_offset=0, epoch=1, timestamp=0)


@pytest.mark.parametrize("is_control", [False, True])
def test_a_record_without_a_value_is_refused(is_control: bool) -> None:
    builder = RecordBatchBuilder(is_control=is_control)
    builder.append(0, b"\0\0\0\2" if is_control else None, None)
    batch = next(batches(builder.build()))
    with pytest.raises(CorruptMessage, match="offset 0 has no value"):
        decode_control(batch) if is_control else decode_records(batch)


def test_control_records_of_a_newer_kafka_are_stepped_over() -> None:
    builder = RecordBatchBuilder(is_control=True)
    builder.append(0, b"\0\0\0\x63", b"?")
    assert decode_control(next(batches(builder.build()))) == []
    data = encode_batch([versioned(NoOpRecord())], base_offset=0, epoch=0, timestamp=0)
    assert decode_control(next(batches(data))) == []

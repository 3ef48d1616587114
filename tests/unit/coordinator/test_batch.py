"""The batches that coordinators write: the builder's bytes, made in one pass."""

from __future__ import annotations

import pytest

from ottla.coordinator.batch import KEYS_MAX, BatchWriter
from ottla.coordinator.record import CoordinatorRecord, Producer
from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Codec, RecordBatchBuilder
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.coordinator import GROUP, TRANSACTION, CoordinatorRecords
from ottla.wire.coordinator.classic_group import GroupMetadataKey
from ottla.wire.coordinator.consumer_group import ConsumerGroupMetadataKey
from ottla.wire.coordinator.offsets import OffsetCommitKey, OffsetCommitValue
from ottla.wire.coordinator.transaction import TransactionLogKey, TransactionLogValue

NOW_MS = 1_700_000_000_123


def offset_records(count: int, *, metadata: str = "") -> list[CoordinatorRecord]:
    """Offsets with and without a topic id, and a tombstone."""
    records = []
    for index in range(count):
        key = OffsetCommitKey("orders", "a-topic-with-a-name-of-some-length" * (index % 3), index)
        value = OffsetCommitValue(index * 1000, index, metadata, NOW_MS, -1, Uuid(bytes([index % 2] * 16)))
        records.append(CoordinatorRecord(key, None if index % 5 == 4 else value, 4))
    return records


def built(
    framing: CoordinatorRecords,
    records: list[CoordinatorRecord],
    *,
    codec: Codec = Codec.NONE,
    producer: Producer | None = None,
    base_sequence: int,
) -> bytes:
    """What the builder makes of the same records."""
    builder = RecordBatchBuilder(
        codec=codec,
        producer_id=NO_PRODUCER_ID if producer is None else producer.id,
        producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
        base_sequence=base_sequence,
        is_transactional=producer is not None,
    )
    for key, value, version in records:
        builder.append(NOW_MS, framing.write_key(key), None if value is None else framing.write_value(value, version))
    return builder.build()


@pytest.mark.parametrize("count", [1, 2, 5, 70, 300])
@pytest.mark.parametrize("metadata", ["", "x" * 200], ids=["short", "long"])
@pytest.mark.parametrize("producer", [None, Producer(4000, 3)], ids=["no producer", "producer"])
def test_a_batch_has_the_bytes_that_the_builder_makes(count: int, metadata: str, producer: Producer | None) -> None:
    records = offset_records(count, metadata=metadata)
    written = BatchWriter(GROUP, Codec.NONE, 0).write(records, NOW_MS, producer)
    assert bytes(written) == built(GROUP, records, producer=producer, base_sequence=0)


def test_a_batch_of_transactions_has_no_sequence() -> None:
    records = [CoordinatorRecord(TransactionLogKey("payments"), TransactionLogValue(7, -1, 2), 1)]
    written = BatchWriter(TRANSACTION, Codec.NONE, -1).write(records, NOW_MS, None)
    assert bytes(written) == built(TRANSACTION, records, base_sequence=-1)


@pytest.mark.parametrize("producer", [None, Producer(4000, 3)], ids=["no producer", "producer"])
def test_a_compressed_batch_is_the_builders(producer: Producer | None) -> None:
    records = offset_records(20)
    written = BatchWriter(GROUP, Codec.GZIP, 0).write(records, NOW_MS, producer)
    assert bytes(written) == built(GROUP, records, codec=Codec.GZIP, producer=producer, base_sequence=0)


def test_a_key_of_another_topic_is_refused_however_often_it_is_tried() -> None:
    writer = BatchWriter(GROUP, Codec.NONE, 0)
    stray: Message = TransactionLogKey("payments")
    for _ in range(2):
        with pytest.raises(AssertionError, match="no key of __consumer_offsets"):
            writer.write([CoordinatorRecord(stray)], NOW_MS, None)


def test_keys_that_say_the_same_of_different_things_are_not_mixed_up() -> None:
    writer = BatchWriter(GROUP, Codec.NONE, 0)
    records = [
        CoordinatorRecord(GroupMetadataKey("g")),
        CoordinatorRecord(ConsumerGroupMetadataKey("g")),
        CoordinatorRecord(OffsetCommitKey("g", "t", 1)),
        CoordinatorRecord(OffsetCommitKey("g", "t", 2)),
    ]
    for _ in range(2):  # the second time all keys are known
        assert bytes(writer.write(records, NOW_MS, None)) == built(GROUP, records, base_sequence=0)


def test_what_is_remembered_of_keys_is_bounded() -> None:
    writer = BatchWriter(GROUP, Codec.NONE, 0)
    for number in range(KEYS_MAX + 10):
        writer.write([CoordinatorRecord(GroupMetadataKey(f"group-{number}"))], NOW_MS, None)
    long = [CoordinatorRecord(GroupMetadataKey("g" * 1000))]
    assert bytes(writer.write(long, NOW_MS, None)) == built(GROUP, long, base_sequence=0)
    (keys,) = writer._keys.values()
    assert len(keys.known) == 10
    assert max(map(len, keys.known.values())) < 100

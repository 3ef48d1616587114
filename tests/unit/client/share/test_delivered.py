"""What a share fetch brought, as records: only what was acquired, with its count; gaps and damage are acknowledged."""

from __future__ import annotations

import pytest

from ottla.client.errors import IllegalState
from ottla.client.share.acknowledgements import GAP, AcknowledgeType
from ottla.client.share.delivered import Acquired, Delivered
from ottla.client.share.session import IdPartition
from ottla.records import Codec, RecordBatchBuilder
from ottla.types import TopicPartition, Uuid
from ottla.wire.messages.share_fetch import AcquiredRecords

PLACE = TopicPartition("t", 0)
KEY = IdPartition(Uuid(16), 0)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def batch(base_offset: int, count: int, codec: Codec = Codec.NONE) -> bytearray:
    builder = RecordBatchBuilder(base_offset=base_offset, codec=codec)
    for index in range(count):
        builder.append(1, None, str(base_offset + index).encode())
    return bytearray(builder.build())


def acquired(data: bytes | bytearray, *ranges: tuple[int, int, int]) -> tuple[Acquired, Delivered]:
    found = Acquired(PLACE, KEY, 1, data, [AcquiredRecords(*one) for one in ranges], check_crcs=True)
    return found, Delivered(PLACE, KEY, 1)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_only_what_was_acquired_is_delivered_with_its_count(codec: Codec) -> None:
    found, into = acquired(batch(0, 10, codec) + batch(10, 5, codec), (2, 4, 1), (6, 6, 3), (12, 20, 2))
    records = found.take(100, into)
    assert [(record.offset, record.delivery_count) for record in records] == [
        (2, 1), (3, 1), (4, 1), (6, 3), (12, 2), (13, 2), (14, 2),
    ]  # fmt: skip
    assert [record.value for record in records] == [str(record.offset).encode() for record in records]
    assert into.acks == dict.fromkeys(range(15, 21), GAP)
    assert found.is_drained


def test_whole_batches_are_given_until_there_are_enough() -> None:
    found, into = acquired(batch(0, 4) + batch(4, 4) + batch(8, 4), (0, 11, 1))
    assert [record.offset for record in found.take(5, into)] == [*range(8)]
    assert [record.offset for record in found.take(5, into)] == [*range(8, 12)]
    assert found.take(5, into) == []
    assert found.is_drained
    assert into.acks == {}


def test_offsets_without_a_record_are_gaps() -> None:
    """Compaction has left holes, and there is nothing at all behind the last batch."""
    found, into = acquired(batch(5, 2) + batch(20, 1), (3, 25, 1))
    assert [record.offset for record in found.take(100, into)] == [5, 6, 20]
    assert sorted(into.acks) == [3, 4, *range(7, 20), *range(21, 26)]
    assert set(into.acks.values()) == {GAP}


def test_a_batch_that_is_damaged_is_rejected_and_what_is_around_it_is_delivered() -> None:
    damaged = batch(4, 4)
    damaged[-1] ^= 1
    found, into = acquired(batch(0, 4) + damaged + batch(8, 4), (0, 11, 1))
    assert [record.offset for record in found.take(100, into)] == [*range(4)]
    assert found.error is not None
    assert found.error.offset == 4
    assert into.acks == dict.fromkeys(range(4, 8), REJECT)
    found.error = None
    assert [record.offset for record in found.take(100, into)] == [*range(8, 12)]


def test_nothing_acquired_is_nothing_delivered() -> None:
    found, into = acquired(batch(0, 4))
    assert found.is_drained
    assert found.take(10, into) == []
    assert into.is_empty


def test_what_was_not_delivered_cannot_be_acknowledged() -> None:
    found, into = acquired(batch(0, 4), (0, 1, 1))
    found.take(10, into)
    with pytest.raises(IllegalState):
        into.acknowledge(2, ACCEPT)


def test_a_renewed_record_comes_back_once_the_broker_has_agreed() -> None:
    found, into = acquired(batch(0, 3), (0, 2, 1))
    found.take(10, into)
    into.acknowledge(0, ACCEPT)
    into.acknowledge(1, RENEW)
    into.acknowledge(2, RENEW)
    acks = into.take_acks()
    assert acks.has_renewals
    assert into.records == {}
    assert into.take_renewed() == []
    into.on_told(acks, None)
    assert [record.offset for record in into.take_renewed()] == [1, 2]
    assert not into.is_acknowledged
    into.acknowledge_all(ACCEPT)
    assert into.take_acks().types == {1: ACCEPT, 2: ACCEPT}
    assert into.is_empty


def test_a_renewal_that_was_refused_is_over() -> None:
    found, into = acquired(batch(0, 1), (0, 0, 1))
    found.take(10, into)
    into.acknowledge(0, RENEW)
    into.on_told(into.take_acks(), IllegalState("too late"))
    assert into.is_empty

"""`ottla/client/consumer/arrow.py` without a broker: what is made of the batches that were taken."""

from __future__ import annotations

import pytest

from ottla.client.consumer.arrow import ArrowMaker, Made
from ottla.client.consumer.fetch_buffer import RawBatch
from ottla.client.consumer.partition_state import PartitionState, Position
from ottla.client.errors import CorruptRecord
from ottla.records import Codec, Record, build_batch
from ottla.types import TopicPartition
from tests.unit.records.samples import only, sealed

STATE = PartitionState(TopicPartition("t", 0))


def batch(offset: int, codec: Codec = Codec.NONE, count: int = 3) -> bytes:
    return build_batch([Record(offset + index, 5, None, b"%d" % index * 50) for index in range(count)], codec=codec)


def made(*found: bytes) -> Made:
    return ArrowMaker().make([(STATE, [RawBatch(only(one), 0) for one in found])])


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
@pytest.mark.parametrize("count", [-1, -(2**31), 2**31 - 1])
def test_a_count_of_records_that_cannot_be_is_told_and_what_was_before_it_given(codec: Codec, count: int) -> None:
    """A count is believed for no more than the bytes that are there."""
    damaged = sealed(batch(3, codec), record_count=count)
    found = made(batch(0, codec), damaged)
    assert found.batch is not None
    assert found.batch["offset"].to_pylist() == [0, 1, 2]
    assert (found.rest, found.error) == ([(STATE, Position(0, -1))], None)
    alone = made(damaged)
    assert alone.batch is None
    assert isinstance(alone.error, CorruptRecord)


def test_a_maker_learns_how_large_things_become_and_makes_the_same_of_them() -> None:
    maker = ArrowMaker()
    taken = [(STATE, [RawBatch(only(batch(0, Codec.ZSTD, 500)), 0)])]
    first = maker.make(taken).batch
    assert maker._ratio > 5
    again = maker.make(taken).batch
    assert first is not None
    assert again is not None
    assert again.equals(first)
    again.validate(full=True)

"""Sequence numbers of a partition: without a gap, in order, and after 2^31 - 1 comes 0."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.sequences import PartitionSequences, ProducerIdAndEpoch
from ottla.types import TopicPartition

A0 = TopicPartition("a", 0)
LAST = 2**31 - 1


def batch_of(count: int) -> ProducerBatch:
    owner: Any = None
    batch = ProducerBatch(owner, A0, size_max=0, charged_bytes=0, base_timestamp=0, created_ms=0)
    batch.count = count
    return batch


def numbered(first: int, *counts: int) -> tuple[PartitionSequences, list[ProducerBatch]]:
    """Batches under way, of so many records each, from the sequence `first` on."""
    known = PartitionSequences()
    known.begin_again(ProducerIdAndEpoch(7, 0))
    known.next_sequence, known.last_acked_sequence = first, first - 1
    batches = [batch_of(count) for count in counts]
    for batch in batches:
        known.number(batch, is_transactional=False)
    return known, batches


def bases(batches: list[ProducerBatch]) -> list[int]:
    return [batch.base_sequence for batch in batches]


def test_batches_under_way_stay_in_the_order_they_were_numbered_over_the_wrap() -> None:
    known, batches = numbered(LAST - 3, 2, 4, 3)
    assert bases(batches) == [LAST - 3, LAST - 1, 2]
    assert known.in_flight == batches
    assert known.next_sequence == 5


def test_the_last_acknowledged_sequence_goes_on_over_the_wrap_and_never_back() -> None:
    known, batches = numbered(LAST - 3, 2, 4, 3)
    for batch in batches:
        assert known.is_next(batch.base_sequence)
        known.acknowledge(batch, -1)
    assert known.last_acked_sequence == 4
    known.acknowledge(batches[0], -1)  # an answer that comes late
    assert known.last_acked_sequence == 4
    assert known.is_next(known.next_sequence)


@pytest.mark.parametrize("failed", range(3))
def test_a_gap_is_closed_over_the_wrap(failed: int) -> None:
    known, batches = numbered(LAST - 3, 2, 4, 3)
    gone = batches.pop(failed)
    known.remove(gone)
    known.close_gap(gone)
    follow = LAST - 3
    for batch in batches:
        assert batch.base_sequence == follow
        follow = (follow + batch.count) % 2**31
    assert known.next_sequence == follow
    assert known.in_flight == batches


def test_the_parts_of_a_batch_stand_where_it_stood() -> None:
    known, (first, large, last) = numbered(LAST - 3, 2, 4, 3)
    parts = [batch_of(1), batch_of(3)]
    parts[0].set_producer(7, 0, LAST - 1, is_transactional=False)
    parts[1].set_producer(7, 0, LAST, is_transactional=False)
    known.replace(large, parts)
    again = [batch_of(1), batch_of(2)]
    again[0].set_producer(7, 0, LAST, is_transactional=False)
    again[1].set_producer(7, 0, 0, is_transactional=False)
    known.replace(parts[1], again)
    assert known.in_flight == [first, parts[0], *again, last]
    assert bases(known.in_flight) == [LAST - 3, LAST - 1, LAST, 0, 2]

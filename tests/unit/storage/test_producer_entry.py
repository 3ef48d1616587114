"""What is remembered of one producer."""

from __future__ import annotations

from ottla.records import Batch, Record, batches, build_batch
from ottla.storage.producer_entry import BATCHES_MAX, BatchMetadata, ProducerStateEntry

INT32_MAX = 2**31 - 1


def sent(sequence: int, count: int = 1, *, epoch: int = 0) -> Batch:
    records = [Record(delta, 0, None, b"value") for delta in range(count)]
    return next(batches(build_batch(records, producer_id=1, producer_epoch=epoch, base_sequence=sequence)))


def test_a_new_entry_knows_nothing() -> None:
    entry = ProducerStateEntry(1)
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (-1, -1, -1)
    assert (entry.last_sequence, entry.last_data_offset, entry.last_offset_delta) == (-1, -1, 0)
    assert entry.txn_first_offset is None
    assert entry.find_duplicate(sent(0)) is None


def test_a_batch_tells_where_it_begins_also_across_the_largest_sequence() -> None:
    assert BatchMetadata(4, 104, 4, 0).first_sequence == 0
    assert BatchMetadata(4, 104, 4, 0).first_offset == 100
    assert BatchMetadata(2, 104, 4, 0).first_sequence == INT32_MAX - 1


def test_the_newest_batches_are_kept() -> None:
    entry = ProducerStateEntry(1)
    for number in range(8):
        entry.add_batch(0, BatchMetadata(number, 100 + number, 0, 1_000 + number))
    assert [batch.last_sequence for batch in entry.batches] == [3, 4, 5, 6, 7]
    assert len(entry.batches) == BATCHES_MAX
    assert (entry.last_sequence, entry.last_data_offset, entry.last_timestamp) == (7, 107, 1_007)


def test_a_duplicate_has_the_same_epoch_and_both_sequences() -> None:
    entry = ProducerStateEntry(1)
    entry.add_batch(0, BatchMetadata(1, 101, 1, 0))
    entry.add_batch(0, BatchMetadata(3, 103, 1, 0))
    assert entry.find_duplicate(sent(0, 2)) == BatchMetadata(1, 101, 1, 0)
    assert entry.find_duplicate(sent(2, 2)) == BatchMetadata(3, 103, 1, 0)
    assert entry.find_duplicate(sent(2, 2, epoch=1)) is None
    assert entry.find_duplicate(sent(3, 1)) is None
    assert entry.find_duplicate(sent(1, 3)) is None


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    entry = ProducerStateEntry(1)
    entry.add_batch(0, BatchMetadata(0, 100, 0, 0))
    entry.end_transaction(0, 2, 5)
    assert len(entry.batches) == 1, "a marker of the same epoch leaves them"
    entry.end_transaction(1, 3, 6)
    assert (entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp) == (1, 3, 6)
    assert not entry.batches


def test_what_was_tried_on_a_copy_is_taken_over_with_the_batches_behind_the_old_ones() -> None:
    entry = ProducerStateEntry(1)
    for number in range(4):
        entry.add_batch(0, BatchMetadata(number, 100 + number, 0, 1_000))
    tried = entry.without_batches()
    assert not tried.batches
    tried.add_batch(0, BatchMetadata(4, 104, 0, 2_000))
    tried.add_batch(0, BatchMetadata(5, 105, 0, 3_000))
    tried.txn_first_offset = 104
    assert entry.last_sequence == 3
    entry.take(tried)
    assert [batch.last_sequence for batch in entry.batches] == [1, 2, 3, 4, 5]
    assert (entry.txn_first_offset, entry.last_timestamp) == (104, 3_000)


def test_an_entry_prints_what_it_knows() -> None:
    entry = ProducerStateEntry(1, txn_first_offset=5)
    assert repr(entry) == (
        "ProducerStateEntry(producer_id=1, producer_epoch=-1, txn_first_offset=5, coordinator_epoch=-1, "
        "last_timestamp=-1, batches=[])"
    )

"""Compaction of one log: what stays and what goes, what the new segments look like, and what ends a run."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.errors import CorruptMessage, KafkaStorageError
from ottla.records import Batch, Codec, Record, batches, build_batch
from ottla.storage import Isolation, Log
from ottla.storage.cleanable import measure
from ottla.storage.cleaner import Cleaning, CleaningAborted, group_segments
from ottla.storage.offset_map import ENTRY_BYTES, OffsetMap
from ottla.storage.segment import Segment
from tests.support.logs import TestLog, new_world, read_batches, read_records

DAY_MS = 86_400_000
BIG = 1 << 20


def compacted(**settings: Any) -> TestLog:
    return TestLog(new_world(), **{"cleanup_policy": "compact", **settings})


def begin(
    test: TestLog, checkpoint: int | None = None, *, entries: int = 1000, step_bytes: int = BIG, end: int | None = None
) -> Cleaning:
    """A run over what is dirty now, up to the segment that begins at `end`."""
    found = measure(test.log, checkpoint, test.world.clock.now_ms())
    return Cleaning(
        test.world,
        test.log,
        OffsetMap(entries * ENTRY_BYTES),
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset if end is None else end,
        step_bytes=step_bytes,
    )


def finish(cleaning: Cleaning) -> int:
    while not cleaning.is_done:
        plan = cleaning.step()
        if plan is not None:
            plan.run()
    return cleaning.end_offset


def clean(test: TestLog, checkpoint: int | None = None, *, entries: int = 1000, step_bytes: int = BIG) -> int:
    """A whole run; returns where the next one begins."""
    return finish(begin(test, checkpoint, entries=entries, step_bytes=step_bytes))


def put(test: TestLog, *pairs: tuple[str, str | None], **batch: Any) -> None:
    """Append one batch of keys and values; a value of None is a tombstone."""
    test.append(
        *(None if value is None else value.encode() for _, value in pairs),
        keys=[key.encode() for key, _ in pairs],
        timestamp=test.world.clock.now_ms(),
        **batch,
    )


def rows(log: Log, isolation: Isolation = Isolation.LOG_END) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of all records there are."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in read_records(log, isolation=isolation)
    ]


def stored(log: Log) -> list[Batch]:
    return [batch for segment in log.segments for _, batch in segment.batches()]


def leftovers(test: TestLog) -> list[str]:
    return [name for name in test.world.disk.names(test.path) if name.endswith((".cleaned", ".swap"))]


def advance(test: TestLog, ms: int) -> None:
    test.world.clock.set_now_ms(test.world.clock.now_ms() + ms)  # type: ignore[attr-defined]


# What stays


def test_the_latest_record_of_every_key_stays_where_it_is() -> None:
    test = compacted()
    put(test, ("a", "1"), ("b", "1"), ("a", "2"))
    put(test, ("c", "1"))
    put(test, ("b", "2"))
    test.log.roll()
    assert clean(test) == 5
    assert rows(test.log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert test.log.log_end_offset == 5


def test_the_active_segment_is_left_alone_and_does_not_count() -> None:
    test = compacted()
    put(test, ("a", "1"), ("b", "1"))
    test.log.roll()
    put(test, ("a", "2"), ("a", "3"))
    assert clean(test) == 2
    assert rows(test.log) == [(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "a", "3")]


def test_a_later_run_drops_what_an_earlier_one_kept() -> None:
    test = compacted()
    put(test, ("a", "1"), ("b", "1"))
    test.log.roll()
    checkpoint = clean(test)
    put(test, ("a", "2"))
    test.log.roll()
    assert clean(test, checkpoint) == 3
    assert rows(test.log) == [(1, "b", "1"), (2, "a", "2")]


def test_a_batch_that_loses_nothing_keeps_its_bytes() -> None:
    test = compacted()
    put(test, ("a", "1"), ("b", "1"), codec=Codec.LZ4)
    put(test, ("c", "1"))
    before = bytes(test.file(".log"))
    test.log.roll()
    clean(test)
    assert test.file(".log") == before


def test_records_without_a_key_go_and_are_counted() -> None:
    test = compacted(cleanup_policy="delete")
    test.append(b"1", b"2", b"3", keys=[b"a", None, b"b"])
    test.log.roll()
    test.log.update_config(test.log.config.with_topic({"cleanup.policy": "compact"}))
    cleaning = begin(test)
    finish(cleaning)
    assert rows(test.log) == [(0, "a", "1"), (2, "b", "3")]
    assert cleaning.stats.invalid_messages_read == 1


def test_the_last_batch_of_a_run_keeps_its_place_when_its_records_go() -> None:
    """Otherwise a restart would find a log end below offsets that were given out."""
    test = compacted()
    put(test, ("a", "1"))
    test.log.append_as_leader(bytearray(build_batch([Record(0, 0, b"a", b"2", ())])), leader_epoch=0)
    put(test, ("a", None))
    test.log.roll()
    checkpoint = clean(test)
    advance(test, 2 * DAY_MS)
    put(test, ("b", "1"))
    test.log.roll()
    clean(test, checkpoint)
    assert [(batch.base_offset, batch.record_count) for batch in stored(test.log)] == [(3, 1)]
    advance(test, 2 * DAY_MS)
    put(test, ("b", "2"))
    test.log.roll()
    clean(test, 4)
    assert test.reopen().log_end_offset == 5


# Tombstones


def test_a_tombstone_stays_until_its_horizon_and_goes_after_it() -> None:
    test = compacted(delete_retention_ms=1000)
    put(test, ("a", "1"), ("b", "1"))
    put(test, ("a", None))
    test.log.roll()
    start = test.world.clock.now_ms()
    checkpoint = clean(test)
    assert rows(test.log) == [(1, "b", "1"), (2, "a", None)]
    assert [batch.delete_horizon_ms for batch in stored(test.log)] == [None, start + 1000]
    put(test, ("c", "1"))
    test.log.roll()
    advance(test, 999)
    checkpoint = clean(test, checkpoint)
    assert rows(test.log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    assert [batch.delete_horizon_ms for batch in stored(test.log)] == [None, start + 1000, None]
    put(test, ("d", "1"))
    test.log.roll()
    advance(test, 1)
    clean(test, checkpoint)
    assert rows(test.log) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_a_batch_with_a_horizon_keeps_its_records_timestamps() -> None:
    test = compacted()
    test.append(b"1", None, keys=[b"a", b"b"], timestamps=[1_700_000_000_000, 1_700_000_000_005])
    test.log.roll()
    clean(test)
    (batch,) = stored(test.log)
    assert batch.delete_horizon_ms == test.world.clock.now_ms() + DAY_MS
    assert [record.timestamp for record in batch.records()] == [1_700_000_000_000, 1_700_000_000_005]
    assert batch.max_timestamp == 1_700_000_000_005


def test_tombstones_that_are_to_be_kept_for_ever_get_no_horizon() -> None:
    test = compacted(delete_retention_ms=2**63 - 1)
    put(test, ("a", None))
    test.log.roll()
    checkpoint = clean(test)
    advance(test, 1000 * DAY_MS)
    put(test, ("b", "1"))
    test.log.roll()
    clean(test, checkpoint)
    assert rows(test.log) == [(0, "a", None), (1, "b", "1")]
    assert stored(test.log)[0].delete_horizon_ms is None


def test_a_tombstone_above_the_end_of_the_map_gets_its_horizon_too() -> None:
    test = compacted()
    put(test, ("a", "1"))
    put(test, ("b", "1"), ("c", None))
    test.log.roll()
    assert clean(test, entries=1) == 1
    assert rows(test.log) == [(0, "a", "1"), (1, "b", "1"), (2, "c", None)]
    assert stored(test.log)[1].delete_horizon_ms is not None


# Producers and transactions


def test_a_producers_last_batch_stays_without_records_so_that_its_sequence_survives() -> None:
    test = compacted()
    put(test, ("a", "1"), producer_id=7, sequence=0)
    put(test, ("a", "2"), ("a", "3"), producer_id=7, sequence=1)
    put(test, ("a", "4"))
    test.log.roll()
    clean(test)
    assert [(batch.base_offset, batch.last_offset, batch.record_count) for batch in stored(test.log)] == [
        (1, 2, 0),
        (3, 3, 1),
    ]
    assert stored(test.log)[0].last_sequence == 2
    for name in test.world.disk.names(test.path):
        if name.endswith(".snapshot"):
            test.world.disk.remove(f"{test.path}/{name}")
    test.reopen(clean=False)
    again = test.append(b"2", b"3", keys=[b"a", b"a"], producer_id=7, sequence=1)
    assert again.is_duplicate
    assert again.last_offset == 2
    put(test, ("a", "5"), producer_id=7, sequence=3)


def test_a_producer_that_is_forgotten_keeps_no_empty_batch() -> None:
    test = compacted()
    put(test, ("a", "1"), producer_id=7, sequence=0)
    put(test, ("a", "2"))
    test.log.roll()
    advance(test, 2 * DAY_MS)
    test.log.remove_expired_producers()
    clean(test)
    assert [batch.base_offset for batch in stored(test.log)] == [1]


def test_records_of_an_aborted_transaction_go_and_do_not_hide_older_ones() -> None:
    test = compacted()
    put(test, ("a", "1"))
    put(test, ("a", "2"), producer_id=7, sequence=0, is_transactional=True)
    put(test, ("b", "1"), producer_id=7, sequence=1, is_transactional=True)
    test.end_transaction(7, commit=False)
    test.log.roll()
    assert clean(test) == 4
    assert rows(test.log) == [(0, "a", "1")]


def test_an_abort_marker_stays_while_a_batch_of_its_transaction_does_and_then_for_its_horizon() -> None:
    test = compacted(delete_retention_ms=1000)
    put(test, ("a", "1"), producer_id=7, sequence=0, is_transactional=True)
    test.end_transaction(7, commit=False)
    put(test, ("b", "1"))
    test.log.roll()
    checkpoint = clean(test)
    # The aborted batch is the producer's last, so its header stays, and with it the marker and the abort.
    assert [(batch.base_offset, batch.record_count, batch.is_control) for batch in stored(test.log)] == [
        (0, 0, False),
        (1, 1, True),
        (2, 1, False),
    ]
    assert [entry.first_offset for entry in test.log.aborted_transactions(0, 3)] == [0]
    put(test, ("c", "1"), producer_id=7, sequence=1)
    test.log.roll()
    checkpoint = clean(test, checkpoint)  # drops the header, which this run has still seen
    assert [(batch.base_offset, batch.delete_horizon_ms) for batch in stored(test.log)] == [
        (1, None),
        (2, None),
        (3, None),
    ]
    put(test, ("d", "1"))
    test.log.roll()
    checkpoint = clean(test, checkpoint)
    assert stored(test.log)[0].delete_horizon_ms == test.world.clock.now_ms() + 1000
    assert test.log.aborted_transactions(0, 5) == []
    advance(test, 1000)
    put(test, ("e", "1"))
    test.log.roll()
    clean(test, checkpoint)
    assert [batch.base_offset for batch in stored(test.log)] == [2, 3, 4, 5]


def test_a_commit_marker_stays_while_a_record_of_its_transaction_does() -> None:
    test = compacted(delete_retention_ms=0)
    put(test, ("a", "1"), producer_id=7, sequence=0, is_transactional=True)
    test.end_transaction(7, commit=True)
    put(test, ("b", "1"), producer_id=7, sequence=1)
    test.log.roll()
    checkpoint = clean(test)
    assert [batch.base_offset for batch in stored(test.log)] == [0, 1, 2]
    put(test, ("a", "2"))
    test.log.roll()
    checkpoint = clean(test, checkpoint)  # drops the record, which this run has still seen
    assert [batch.base_offset for batch in stored(test.log)] == [1, 2, 3]
    put(test, ("c", "1"))
    test.log.roll()
    checkpoint = clean(test, checkpoint)
    assert stored(test.log)[0].delete_horizon_ms == test.world.clock.now_ms()
    put(test, ("d", "1"))
    test.log.roll()
    clean(test, checkpoint)
    assert [batch.base_offset for batch in stored(test.log)] == [2, 3, 4, 5]


def test_an_open_transaction_keeps_its_segment_and_all_later_ones_from_being_cleaned() -> None:
    test = compacted()
    put(test, ("a", "1"), ("a", "2"))
    test.log.roll()
    put(test, ("a", "3"), producer_id=7, sequence=0, is_transactional=True)
    test.log.roll()
    put(test, ("a", "4"))
    test.log.roll()
    assert clean(test) == 2
    assert rows(test.log) == [(1, "a", "2"), (2, "a", "3"), (3, "a", "4")]
    test.end_transaction(7, commit=True)
    test.log.roll()
    assert clean(test, 2) == 5
    assert rows(test.log) == [(3, "a", "4")]


def test_the_aborts_of_a_transaction_over_two_segments_are_in_the_cleaned_index_once() -> None:
    test = compacted()
    put(test, ("a", "1"), producer_id=7, sequence=0, is_transactional=True)
    test.log.roll()
    put(test, ("b", "1"), producer_id=7, sequence=1, is_transactional=True)
    test.end_transaction(7, commit=False)
    test.log.roll()
    before = test.log.aborted_transactions(0, 3)
    clean(test)
    assert len(test.log.segments) == 2
    assert test.log.aborted_transactions(0, 3) == before
    assert [entry.first_offset for entry in before] == [0]


def test_a_key_that_a_transaction_deletes_stays_deleted_when_the_run_begins_behind_an_abort_of_its_producer() -> None:
    """Seed 10034 of the model. Kafka 4.3.1 takes the abort to go on, does not map the tombstone, and when the tombstone
    has gone the old value is there again. (The index entries let the run begin behind the abort's marker.)"""
    test = compacted(delete_retention_ms=0, index_interval_bytes=0)
    put(test, ("a", "1"))
    put(test, ("b", "1"), producer_id=7, sequence=0, is_transactional=True)
    test.end_transaction(7, commit=False)
    put(test, ("b", "2"))
    put(test, ("a", None), producer_id=7, sequence=1, is_transactional=True)
    test.end_transaction(7, commit=True)
    test.log.roll()
    checkpoint = clean(test, 3)
    assert rows(test.log) == [(3, "b", "2"), (4, "a", None)]
    put(test, ("c", "1"))
    test.log.roll()
    clean(test, checkpoint)
    assert rows(test.log) == [(3, "b", "2"), (6, "c", "1")]


# The dedupe buffer


def test_a_full_map_ends_the_run_and_the_next_one_goes_on_there() -> None:
    test = compacted()
    for value in "123":
        for key in "abcd":
            put(test, (key, value))
    test.log.roll()
    checkpoint = 0
    ends = []
    while checkpoint < 12:
        checkpoint = clean(test, checkpoint, entries=3)
        ends.append(checkpoint)
    assert ends == [3, 6, 9, 12]
    assert rows(test.log) == [(8, "a", "3"), (9, "b", "3"), (10, "c", "3"), (11, "d", "3")]


def test_a_map_that_fills_inside_a_batch_leaves_the_rest_of_the_batch_alone() -> None:
    test = compacted()
    put(test, ("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"))
    test.log.roll()
    assert clean(test, entries=2) == 2
    assert [offset for offset, _, _ in rows(test.log)] == [0, 1, 2, 3, 4]
    assert clean(test, 2, entries=2) == 4
    assert [offset for offset, _, _ in rows(test.log)] == [1, 2, 3, 4]


# The new segments


def test_small_segments_become_one_with_the_time_of_the_last() -> None:
    test = compacted()
    for key in "abc":
        put(test, (key, "1"))
        advance(test, 5000)
        test.log.roll()
    modified_ms = [segment.modified_ms for segment in test.log.segments][2]
    advance(test, 60_000)
    clean(test)
    cleaned, active = test.log.segments
    assert (cleaned.base_offset, active.base_offset) == (0, 3)
    assert cleaned.modified_ms == modified_ms
    assert [timed.offset for timed in [test.log.offset_for_timestamp(stored(test.log)[1].max_timestamp)] if timed] == [
        1
    ]


def test_segments_of_full_size_stay_apart() -> None:
    test = compacted(internal_segment_bytes=200)
    for key in "abcdef":
        put(test, (key, "x" * 60))
    test.log.roll()
    bases = test.log.segments.base_offsets
    clean(test)
    assert test.log.segments.base_offsets == bases
    assert len(bases) > 3


def test_a_preallocated_segment_gives_back_what_it_does_not_need() -> None:
    test = compacted(preallocate=True, internal_segment_bytes=4096)
    put(test, ("a", "1"), ("a", "2"))
    test.log.roll()
    clean(test)
    assert len(test.file(".log")) == test.log.segments.first.size < 100
    assert rows(test.log) == [(1, "a", "2")]


def test_old_files_are_marked_and_go_after_the_delay() -> None:
    test = compacted(file_delete_delay_ms=1000)
    put(test, ("a", "1"))
    test.log.roll()
    put(test, ("a", "2"))
    test.log.roll()
    clean(test)
    marked = {name for name in test.world.disk.names(test.path) if name.endswith(".deleted")}
    assert {f"{0:020d}.log.deleted", f"{1:020d}.log.deleted", f"{1:020d}.snapshot.deleted"} <= marked
    advance(test, 1000)
    test.chores.run_due()
    assert not [name for name in test.world.disk.names(test.path) if name.endswith(".deleted")]
    assert rows(test.log) == [(1, "a", "2")]


def test_a_segment_may_come_out_empty_and_reads_go_on_behind_it() -> None:
    test = compacted(internal_segment_bytes=160)
    put(test, ("a", "x" * 80))
    put(test, ("a", "y" * 80))
    put(test, ("a", "z" * 80))
    test.log.roll()
    clean(test)
    assert [segment.size for segment in test.log.segments][:2] == [0, 0]
    assert [offset for offset, _, _ in rows(test.log)] == [2]
    put(test, ("b", "1"))
    assert test.reopen().log_end_offset == 4
    assert [offset for offset, _, _ in rows(test.log)] == [2, 3]


def fake_segments(sizes: Sequence[tuple[int, int, int, int]]) -> list[Segment]:
    """Segments of these base offsets, sizes, and counts of entries in their two indexes."""
    test = compacted()
    return [
        Segment(
            test.world,
            test.path,
            base,
            test.config,
            size=size,
            offset_index_size=8 * offsets,
            time_index_size=12 * times,
        )
        for base, size, offsets, times in sizes
    ]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([], []),
        ([(0, 50, 0, 0), (5, 50, 0, 0), (9, 1, 0, 0)], [[0, 5], [9]]),
        ([(0, 200, 0, 0), (5, 50, 0, 0), (9, 50, 0, 0)], [[0], [5, 9]]),
        ([(0, 10, 60, 0), (5, 10, 66, 0), (9, 10, 59, 0)], [[0], [5, 9]]),
        ([(0, 10, 0, 40), (5, 10, 0, 40), (9, 10, 0, 3)], [[0, 5, 9]]),
        ([(0, 10, 0, 40), (5, 10, 0, 44), (9, 10, 0, 39)], [[0], [5, 9]]),
        ([(0, 10, 0, 0), (2**31 - 1, 10, 0, 0), (2**31, 10, 0, 0)], [[0, 2**31 - 1], [2**31]]),
        ([(0, 10, 0, 0), (2**31, 0, 0, 0), (2**32, 10, 0, 0)], [[0, 2**31], [2**32]]),
    ],
)
def test_segments_are_grouped_by_what_one_can_hold(
    sizes: list[tuple[int, int, int, int]], groups: list[list[int]]
) -> None:
    end_offset = sizes[-1][0] + 10 if sizes else 0
    found = group_segments(fake_segments(sizes), size_max=100, index_size_max=1000, end_offset=end_offset)
    assert [[segment.base_offset for segment in group] for group in found] == groups


def test_the_last_segment_of_a_group_is_taken_to_end_where_the_run_does() -> None:
    segments = fake_segments([(0, 10, 0, 0), (10, 10, 0, 0)])
    limits = {"size_max": 100, "index_size_max": 1000}
    assert len(group_segments(segments, **limits, end_offset=2**31)) == 1
    assert len(group_segments(segments, **limits, end_offset=2**31 + 1)) == 2


# Steps


def filled(**settings: Any) -> TestLog:
    """Several segments with transactions, tombstones and much to drop."""
    test = compacted(internal_segment_bytes=600, index_interval_bytes=100, **settings)
    for round_ in range(12):
        put(test, ("a", f"{round_}"), ("b", f"{round_}" * 10), (f"k{round_}", "1"))
        put(test, (f"k{round_}", None), producer_id=1, sequence=round_)
        put(test, ("t", f"{round_}"), producer_id=7, sequence=round_, is_transactional=True)
        test.end_transaction(7, commit=round_ % 3 != 0)
    test.log.roll()
    return test


def test_a_step_reads_no_more_than_it_may_and_a_batch() -> None:
    test = filled()
    largest = max(batch.size for batch in stored(test.log))
    cleaning = begin(test, step_bytes=300)
    reads = []
    while not cleaning.is_done:
        before = cleaning.stats.map_bytes_read + cleaning.stats.bytes_read
        plan = cleaning.step()
        if plan is not None:
            plan.run()
        reads.append(cleaning.stats.map_bytes_read + cleaning.stats.bytes_read - before)
    assert max(reads) < 300 + largest
    assert len(reads) > sum(reads) / (300 + largest)


def test_the_size_of_the_steps_does_not_change_the_outcome() -> None:
    outcomes = set()
    for step_bytes in (1, 100, 1000, BIG):
        test = filled()
        clean(test, step_bytes=step_bytes)
        files = [name for name in test.world.disk.names(test.path) if name.endswith((".log", "index"))]
        outcomes.add(tuple((name, test.world.disk.read(f"{test.path}/{name}")) for name in files))
    assert len(outcomes) == 1


def test_appends_and_reads_between_the_steps_see_a_whole_log() -> None:
    test = filled()
    still = filled()
    cleaning = begin(test, step_bytes=200)
    latest = {key: value for _, key, value in rows(test.log, Isolation.TXN_COMMITTED)}
    count = 0
    while not cleaning.is_done:
        plan = cleaning.step()
        if plan is not None:
            plan.run()
        put(test, (f"new{count}", "1"))
        put(still, (f"new{count}", "1"))
        latest[f"new{count}"] = "1"
        count += 1
        assert {key: value for _, key, value in rows(test.log, Isolation.TXN_COMMITTED)} == latest
        offsets = [batch.base_offset for batch in read_batches(test.log, bytes_max=200)]
        assert offsets == sorted(set(offsets))
    clean(still, step_bytes=200)
    assert rows(test.log) == rows(still.log)
    assert count > 20


def goes_on(cleaning: Cleaning, steps: int) -> bool:
    """Take so many steps; False when the run was over before."""
    for _ in range(steps):
        if cleaning.is_done:
            return False
        plan = cleaning.step()
        if plan is not None:
            plan.run()
    return not cleaning.is_done


def truncate(test: TestLog) -> None:
    test.log.truncate_to(test.log.log_end_offset - 1)


def close(test: TestLog) -> None:
    test.log.close()


def rename(test: TestLog) -> None:
    test.log.rename_directory("topic-0.0123456789abcdef-delete")
    test.path = test.log.directory


def remove(test: TestLog) -> None:
    rename(test)
    test.log.delete()
    test.world.disk.make_dirs(test.path)


def stop_compacting(test: TestLog) -> None:
    test.log.update_config(test.log.config.with_topic({"cleanup.policy": "delete"}))


def delete_oldest(test: TestLog) -> None:
    test.log.delete_segments([test.log.segments.first], "a test")


@pytest.mark.parametrize("change", [truncate, close, rename, remove, stop_compacting])
def test_a_run_whose_log_changes_ends_without_a_trace(change: Callable[[TestLog], None]) -> None:
    """Whatever step it has reached."""
    steps = 0
    while True:
        test = filled()
        cleaning = begin(test, step_bytes=400)
        if not goes_on(cleaning, steps):
            break
        change(test)
        with pytest.raises(CleaningAborted):
            cleaning.step()
        assert cleaning.is_done
        assert leftovers(test) == []
        steps += 1
    assert steps > 10


def test_a_run_ends_when_a_segment_that_it_still_has_to_read_is_deleted() -> None:
    aborts = 0
    for steps in range(1, 100):
        test = filled()
        cleaning = begin(test, step_bytes=400)
        if not goes_on(cleaning, steps):
            break
        oldest = test.log.segments.first.base_offset
        is_cleaned = cleaning.stats.bytes_read > 0 and oldest == 0 and test.log.segments.first.size == 0
        delete_oldest(test)
        try:
            finish(cleaning)
        except CleaningAborted:
            aborts += 1
            assert not is_cleaned
        assert leftovers(test) == []
        assert test.log.log_start_offset > oldest
        assert [offset for offset, _, _ in rows(test.log)] == sorted({offset for offset, _, _ in rows(test.log)})
    assert aborts > 5


def test_an_aborted_run_leaves_what_it_had_swapped_in_and_a_new_one_completes_it() -> None:
    whole = filled()
    clean(whole)
    for steps in range(0, 30, 3):
        test = filled()
        cleaning = begin(test, step_bytes=400)
        goes_on(cleaning, steps)
        cleaning.abort()
        assert cleaning.is_done
        assert leftovers(test) == []
        clean(test)
        assert rows(test.log) == rows(whole.log)


def test_a_run_does_not_go_on_without_the_sync_it_asked_for() -> None:
    test = filled()
    cleaning = begin(test)
    plan = None
    while plan is None:
        plan = cleaning.step()
    with pytest.raises(AssertionError, match="not synced"):
        cleaning.step()
    assert leftovers(test) == []


# Damage


def spoil(test: TestLog, position: int) -> None:
    """Flip a byte of the first segment's file."""
    file = test.world.disk.open(f"{test.path}/{0:020d}.log")
    file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 0xFF]))
    file.close()


@pytest.mark.parametrize("position", [64, 8, 100], ids=["record", "length", "later"])
@pytest.mark.parametrize("checkpoint", [None, 6], ids=["in the dirty part", "in the clean part"])
def test_a_damaged_batch_ends_the_run_and_is_not_copied(position: int, checkpoint: int | None) -> None:
    test = filled()
    spoil(test, position)
    before = {name: test.world.disk.read(f"{test.path}/{name}") for name in test.world.disk.names(test.path)}
    with pytest.raises(CorruptMessage):
        clean(test, checkpoint)
    assert leftovers(test) == []
    assert {name: test.world.disk.read(f"{test.path}/{name}") for name in before} == before


def test_a_file_that_ends_inside_a_batch_is_damage() -> None:
    test = filled()
    last = list(test.log.segments)[-2]
    last.size -= 1
    with pytest.raises(CorruptMessage, match="no whole batch"):
        clean(test)
    assert leftovers(test) == []


def test_a_device_that_fails_takes_its_directory_offline() -> None:
    test = filled()
    test.world.disk.fail_at(3, errno.EIO, kinds=("write",))  # type: ignore[attr-defined]
    cleaning = begin(test)
    with pytest.raises(KafkaStorageError, match="cleaning topic-0"):
        finish(cleaning)
    assert cleaning.is_done
    assert test.directory.is_offline


def test_offsets_too_far_apart_for_one_segment_are_split_and_then_cleaned() -> None:
    """Kafka before 2.0 could leave such a segment; it is made here by writing the file."""
    test = compacted()
    far = 2**31 + 5
    test.log.close()
    data = b"".join(
        build_batch([Record(offset, 1, key, b"1", ())], leader_epoch=0)
        for offset, key in ((0, b"a"), (far, b"b"), (far + 1, b"a"))
    )
    file = test.world.disk.open(f"{test.path}/{0:020d}.log")
    file.write_at(0, data)
    file.close()
    later = test.world.disk.open(f"{test.path}/{far + 2:020d}.log", create=True)
    later.close()
    test.open(clean=True)
    test.log.update_high_watermark(far + 2)
    assert test.log.segments.base_offsets == [0, far + 2]
    with pytest.raises(CleaningAborted, match=str(far + 1)):
        clean(test)
    assert test.log.segments.base_offsets == [0, far, far + 2]
    assert leftovers(test) == []
    assert clean(test) == far + 2
    assert [(batch.base_offset, batch.record_count) for batch in stored(test.log)] == [(far, 1), (far + 1, 1)]


def test_statistics_say_what_was_read_and_kept() -> None:
    test = compacted()
    put(test, ("a", "1"), ("a", "2"))
    put(test, ("b", "1"))
    test.log.roll()
    size = test.log.size
    cleaning = begin(test)
    finish(cleaning)
    stats = cleaning.stats
    assert (stats.map_messages_read, stats.messages_read, stats.messages_written) == (3, 3, 2)
    assert (stats.map_bytes_read, stats.bytes_read) == (size, size)
    assert stats.bytes_written == sum(batch.size for batch in batches(test.file(".log")))
    assert stats.io_bytes == 2 * size + stats.bytes_written
    assert stats.buffer_utilization == 2 / 1000
    assert "33.3% fewer messages" in str(stats)

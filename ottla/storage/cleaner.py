"""Compaction of one log: keep the latest record of every key, in small steps that other work can go between.

A run has two passes. The first reads the dirty part, from `first_dirty_offset` up to `first_uncleanable_offset` or
until the dedupe buffer is full, and notes the latest offset of every key. The second reads every segment from the log's
start to where the first one got, and copies what stays into new segments, which then take the place of the old.

Promises:
- The log is not changed but by `Log.replace_segments`, with segments that are whole and synced; a crash at any point
  leaves the old records or the new ones. A run that does not get to its end leaves no file behind.
- A step reads at most about `step_bytes` of log, or one larger batch. Between two steps anything may happen to the log:
  appends and reads go on; a truncation, a deletion, another policy ends the run with `CleaningAborted`.
- A damaged batch is never copied: its checksum is checked before anything is decided by it.

Called by `cleaner_manager`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import cast

from ottla.errors import CorruptMessage
from ottla.records import Batch, batches
from ottla.storage import names
from ottla.storage.batch_filter import BatchFilter, LastRecord, last_records
from ottla.storage.chores import SyncPlan
from ottla.storage.cleaned_transactions import CleanedTransactions
from ottla.storage.cleaner_stats import CleanerStats
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.log import Log
from ottla.storage.offset_map import OffsetMap
from ottla.storage.segment import Segment, SegmentOverflow
from ottla.storage.transaction_index import AbortedTxn
from ottla.types import Buffer
from ottla.world import World

STEP_BYTES = 256 * 1024
"""Half of the default `log.cleaner.io.buffer.size`: some milliseconds of work."""

RECORD_BYTES = 100
"""What a record counts for at least: compression makes little of many, and each takes its two microseconds."""


class CleaningAborted(Exception):
    """The log has changed under the run, or somebody asked for the run to end. Nothing is wrong with the log."""


class Cleaning:
    """One run over one log. `step` until `is_done`; `end_offset` is then the first offset that was not cleaned."""

    def __init__(
        self,
        world: World,
        log: Log,
        offset_map: OffsetMap,
        *,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        step_bytes: int = STEP_BYTES,
    ) -> None:
        """`offset_map` is empty; `first_uncleanable_offset` is the start of a segment."""
        assert offset_map.end_offset == 0, "the keys of another run are still in the map"
        self._world = world
        self.log = log
        self.first_dirty_offset = first_dirty_offset
        self.first_uncleanable_offset = first_uncleanable_offset
        self.end_offset = first_dirty_offset
        self.is_done = False
        self.stats = CleanerStats(world.clock.monotonic_ms())
        self._map = offset_map
        self._step_bytes = step_bytes
        self._bytes_left = 0  # in this step
        self._now_ms = world.clock.now_ms()
        self._directory = log.directory
        self._truncation_count = log.truncation_count
        self._sources: Sequence[Segment] = ()  # what is being read, and has to stay where it is
        self._cleaned: Segment | None = None  # what is being written
        self._last_records: Mapping[int, LastRecord] = {}  # by producer, as they were when the log was flushed
        self._steps = self._run()

    def step(self) -> SyncPlan | None:
        """Do the next piece. A plan that it returns has to be carried out before the next step: its `sync`, in whatever
        thread, and then its `on_done`.

        Raises `CleaningAborted`; `KafkaStorageError` when the device fails, which takes the directory offline; and
        `CorruptMessage`, `InvalidRecord` or `CorruptIndex` when the log is damaged. The run is over after each of them.
        """
        assert not self.is_done, "the run is over"
        self._bytes_left = self._step_bytes
        try:
            self._check_log()
            return next(self._steps)
        except StopIteration:
            self.is_done = True
            return None
        except OSError as error:
            self.abort()
            self.log.log_dir.fail(f"cleaning {self.log.partition}", error)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """End the run where it is and remove what it has written so far. Swaps that are done stay done."""
        self.is_done = True
        self._steps.close()
        self._discard()

    def _check_log(self) -> None:
        log = self.log
        if log.is_closed or log.log_dir.is_offline:
            raise CleaningAborted(f"The log of {log.partition} was closed")
        if log.directory != self._directory:
            raise CleaningAborted(f"The directory of {log.partition} is now {log.directory}")
        if log.truncation_count != self._truncation_count:
            raise CleaningAborted(f"The log of {log.partition} was truncated")
        if not log.config.is_compacted:
            raise CleaningAborted(f"The log of {log.partition} is no longer to be compacted")
        for segment in self._sources:
            if segment.base_offset not in log.segments or log.segments[segment.base_offset] is not segment:
                raise CleaningAborted(f"{segment} is no longer part of the log of {log.partition}")

    def _run(self) -> Generator[SyncPlan | None, None, None]:
        stats = self.stats
        yield from self._build_map()
        stats.map_done_ms = self._world.clock.monotonic_ms()
        self.end_offset = max(self.end_offset, self._map.end_offset)
        # Later records and markers decide which ones go, and a producer's last batch makes the ones before it
        # superfluous. They must be durable first: a power cut that takes them would otherwise leave neither the new
        # value of a key nor the old.
        self._last_records = last_records(self.log.producers)
        yield from self._carry_out(self.log.plan_flush())
        transactions = CleanedTransactions()
        groups = group_segments(
            self._segments(0, self.end_offset),
            size_max=self.log.config.segment_size_max,
            index_size_max=self.log.config.segment_index_bytes,
            end_offset=self.first_uncleanable_offset,
        )
        for place, group in enumerate(groups):
            self._sources = [segment for waiting in groups[place:] for segment in waiting]
            if place:
                yield None
            try:
                yield from self._clean_group(group, transactions)
            except SegmentOverflow as overflow:
                # Offsets span more than an index can hold, as Kafka before 2.0 could leave them (KAFKA-6264).
                self._discard()
                self._split(group)
                raise CleaningAborted(str(overflow)) from overflow
        stats.buffer_utilization = self._map.utilization
        stats.end_ms = self._world.clock.monotonic_ms()

    def _carry_out(self, plan: SyncPlan | None) -> Iterator[SyncPlan | None]:
        """Give the plan to the driver, and go on only if it was carried out."""
        is_done = plan is None
        if plan is not None:
            on_done = plan.on_done

            def note() -> None:
                nonlocal is_done
                is_done = True
                on_done()

            plan.on_done = note
        yield plan
        assert is_done, "what is not synced must not take the place of what is"

    def _segments(self, start_offset: int, end_offset: int) -> list[Segment]:
        return self.log.segments.covering(start_offset, end_offset) if start_offset < end_offset else []

    def _aborted(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """Every abort that may matter to batches of this range, known from the range's first segment on."""
        first = self.log.segments.floor(start_offset)
        return self.log.aborted_transactions(self.log.log_start_offset, upper_bound_offset, from_segment=first)

    # The first pass

    def _build_map(self) -> Iterator[None]:
        start, end = self.first_dirty_offset, self.first_uncleanable_offset
        segments = self._sources = self._segments(start, end)
        transactions = CleanedTransactions()
        # Only those that end in what is read. Kafka also takes those that ended before `start` in its segment, never
        # meets their markers, and so leaves out the producer's next transaction: what that one deletes comes back.
        transactions.add_aborted(self.log.aborted_transactions(start, end))
        end_offsets = [*(segment.base_offset for segment in segments), end][1:]
        for segment, end_offset in zip(segments, end_offsets, strict=True):
            position = segment.offset_index.floor(start).position
            for batch in self._batches(segment, position):
                if batch is None:
                    yield
                    continue
                self.stats.map_bytes_read += batch.size
                if not self._map_batch(batch, transactions):
                    return
            # The last offsets of the segment may have been compacted away before.
            self._map.end_offset = end_offset

    def _map_batch(self, batch: Batch, transactions: CleanedTransactions) -> bool:
        """Note a batch's keys; False when the map is full."""
        start = self.first_dirty_offset
        self.stats.map_messages_read += batch.record_count
        if batch.is_control:
            transactions.pass_control_batch(batch)
        elif not transactions.pass_batch(batch):
            scan = batch.scan()
            keys, offsets = scan.keys, scan.offsets
            if None in keys or batch.base_offset < start:
                taken = [(k, o) for k, o in zip(keys, offsets, strict=True) if k is not None and o >= start]
                keys, offsets = [key for key, _ in taken], [offset for _, offset in taken]
            if not self._map.put_all(cast(list[bytes], keys), offsets):
                return False
        if batch.last_offset >= start:
            self._map.end_offset = batch.next_offset
        return True

    # The second pass

    def _clean_group(self, group: Sequence[Segment], transactions: CleanedTransactions) -> Iterator[SyncPlan | None]:
        """Copy what stays of these segments into one, and put that in their place."""
        log = self.log
        cleaned = self._cleaned = Segment.create(
            self._world, self._directory, group[0].base_offset, log.config, suffix=names.CLEANED
        )
        transactions.cleaned_index = cleaned.txn_index
        batch_filter = BatchFilter(
            self._map,
            transactions,
            self._last_records,
            self.stats,
            end_offset=self.first_uncleanable_offset,
            now_ms=self._now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        for segment, following in zip(group, [*group[1:], None], strict=True):
            end_offset = segment.read_next_offset() if following is None else following.base_offset
            transactions.add_aborted(self._aborted(segment.base_offset, end_offset))
            yield from self._clean_segment(segment, cleaned, batch_filter)
        cleaned.on_become_inactive()
        yield from self._carry_out(SyncPlan(self._world.disk, cleaned.files_to_sync()))
        # Retention by time and the age of a segment without timestamps go by this.
        cleaned.modified_ms = group[-1].modified_ms
        log.replace_segments([cleaned], group)
        self._cleaned = None

    def _clean_segment(self, source: Segment, cleaned: Segment, batch_filter: BatchFilter) -> Iterator[None]:
        kept: list[Buffer] = []
        for batch in self._batches(source):
            if batch is None:
                self._copy(kept, cleaned)
                kept.clear()
                yield
                continue
            self.stats.bytes_read += batch.size
            data = batch_filter.filter(batch)
            if data is not None:
                kept.append(data)
        self._copy(kept, cleaned)

    def _copy(self, kept: Sequence[Buffer], cleaned: Segment) -> None:
        if kept:
            data = b"".join(kept)
            headers = list(batches(data))
            cleaned.append(data, headers, headers[-1].last_offset)
            self.stats.bytes_written += len(data)

    def _split(self, group: Sequence[Segment]) -> None:
        """Split what would not fit; the next run groups the parts anew."""
        for segment in group:
            if segment.has_overflow:
                self.log.split_segment(segment)

    def _discard(self) -> None:
        """Remove an unfinished segment, wherever the log's directory is by now."""
        cleaned, self._cleaned = self._cleaned, None
        if cleaned is None or cleaned.suffix != names.CLEANED:
            return  # one that is half swapped in is put right by the next start
        cleaned.move_to(self.log.directory)
        if self.log.log_dir.is_offline:
            cleaned.abandon()  # the directory is left alone, and the next start removes the files
            return
        with suppress(OSError):
            cleaned.delete_files()

    def _batches(self, segment: Segment, position: int = 0) -> Iterator[Batch | None]:
        """The batches of a segment from a position on, checked, and None whenever a step is full."""
        following = self.log.segments.higher(segment.base_offset)
        assert following is not None, f"{segment} is the active one"
        expected_offset = segment.base_offset
        for place, batch in segment.batches(position, segment.size):
            batch.ensure_valid()
            # The base offset is not under the checksum.
            if not expected_offset <= batch.base_offset <= batch.last_offset < following.base_offset:
                raise CorruptMessage(
                    f"{segment} has a batch of offsets {batch.base_offset} to {batch.last_offset} at position {place}, "
                    f"where {expected_offset} is the least and {following.base_offset - 1} the largest"
                )
            yield batch
            expected_offset = batch.next_offset
            position = place + batch.size
            self._bytes_left -= max(batch.size, batch.record_count * RECORD_BYTES)
            if self._bytes_left <= 0:
                yield None
        if position < segment.size:
            raise CorruptMessage(f"{segment} holds no whole batch at position {position}, and it does not end there")


def group_segments(
    segments: Sequence[Segment], *, size_max: int, index_size_max: int, end_offset: int
) -> list[list[Segment]]:
    """Segments that fit into one when nothing is dropped, by their size, their indexes' sizes and their offsets.

    `end_offset` is where the last of them ends. So segments that compaction has made small become one again.
    """
    groups: list[list[Segment]] = []
    size = index_size = time_index_size = 0
    end_offsets = [*(segment.base_offset for segment in segments), end_offset][1:]
    for segment, segment_end_offset in zip(segments, end_offsets, strict=True):
        size += segment.size
        index_size += segment.offset_index.size
        time_index_size += segment.time_index.size
        if (
            groups
            and size <= size_max
            and index_size <= index_size_max
            and time_index_size <= index_size_max
            # An empty one adds no offset: otherwise one would be left behind every 2^31 offsets.
            and (segment.size == 0 or segment_end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, index_size, time_index_size = segment.size, segment.offset_index.size, segment.time_index.size
    return groups

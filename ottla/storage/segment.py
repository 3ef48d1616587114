"""One segment of a log: a file of record batches, its two sparse indexes and its index of aborted transactions.

Promises: `append` is one write; the files hold the bytes Kafka would have written for the same batches; after
`recover` the file ends with its last valid batch and the indexes match it. A segment knows nothing of leaders, high
watermarks or retention: `log` does. Files are opened when first needed, so a start with many segments costs little.
Called by `log`, `loader` and `cleaner`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.config import LogConfig
from ottla.errors import CorruptMessage, InvalidRecord
from ottla.records import HEADER_SIZE, MAGIC, NO_TIMESTAMP, Batch
from ottla.storage import names
from ottla.storage.append_rules import AppendRules
from ottla.storage.batch_file import BatchPlace, FileSlice, file_batches, find_batch
from ottla.storage.chores import SyncPlan
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.offset_index import OffsetIndex, OffsetPosition
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.storage.transaction_index import TransactionIndex
from ottla.types import Buffer
from ottla.world import File, World

log = logging.getLogger(__name__)

FILE_SIZE_MAX = 2**31 - 1
# What a named tuple's constructor does, at half its price.
_new_tuple = tuple.__new__


class SegmentOverflow(Exception):
    """A batch's offset is too far from the segment's base for the indexes to hold; the segment must be split."""

    def __init__(self, segment: Segment, offset: int) -> None:
        super().__init__(f"Offset {offset} does not fit in segment {segment.base_offset} of {segment.directory}")
        self.segment = segment


class SegmentRead(NamedTuple):
    """Where a read begins, what it found, and whether the limit cut even the first batch."""

    offset: int
    position: int
    slice: FileSlice | None
    first_batch_incomplete: bool


class TimedOffset(NamedTuple):
    """The answer to a question about time: a record's timestamp, its offset and its leader epoch."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class Segment:
    __slots__ = (
        "_bytes_since_entry",
        "_file",
        "_index_interval_bytes",
        "_is_preallocated",
        "_max_timestamp",
        "_rolling_timestamp",
        "_world",
        "base_offset",
        "created_ms",
        "directory",
        "is_repaired",
        "offset_index",
        "roll_jitter_ms",
        "size",
        "suffix",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        world: World,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size: int = 0,
        offset_index_size: int = 0,
        time_index_size: int = 0,
        txn_index_size: int = 0,
        suffix: str = "",
    ) -> None:
        """A segment over existing files of these sizes; `create` makes the files of a new one."""
        self._world = world
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self._file: File | None = None
        stem = f"{directory}/{names.offset_name(base_offset)}"
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(
            world.disk, stem + names.INDEX + suffix, base_offset, bytes_max=index_bytes, size=offset_index_size
        )
        self.time_index = TimeIndex(
            world.disk, stem + names.TIME_INDEX + suffix, base_offset, bytes_max=index_bytes, size=time_index_size
        )
        self.txn_index = TransactionIndex(world.disk, stem + names.TXN_INDEX + suffix, base_offset, size=txn_index_size)
        self._index_interval_bytes = config.index_interval_bytes
        self.roll_jitter_ms = 0
        if config.segment_jitter_ms:
            self.roll_jitter_ms = world.random.randrange(min(config.segment_jitter_ms, config.segment_ms))
        self.created_ms = world.clock.now_ms()
        self._is_preallocated = False
        self.is_repaired = False
        """Whether files were cut since the segment was opened: that has to be synced even if there is no record."""
        self._bytes_since_entry = 0
        self._rolling_timestamp: int | None = None
        self._max_timestamp: TimestampOffset | None = None

    @classmethod
    def create(cls, world: World, directory: str, base_offset: int, config: LogConfig, *, suffix: str = "") -> Segment:
        """Make the files of a new, empty segment."""
        segment = cls(world, directory, base_offset, config, suffix=suffix)
        if suffix:
            segment.delete_files()  # what an attempt that was given up may have left under this name
        file = segment.file(create=True)
        if config.initial_file_size:
            file.allocate(config.initial_file_size)
            segment._is_preallocated = True
        segment.offset_index.file()
        segment.time_index.file()
        return segment

    # What it is

    @property
    def path(self) -> str:
        return f"{self.directory}/{names.offset_name(self.base_offset)}{names.LOG}{self.suffix}"

    def file(self, *, create: bool = False) -> File:
        if self._file is None:
            self._file = self._world.disk.open(self.path, create=create, may_rest=True)
        return self._file

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[tuple[int, Batch]]:
        """Every whole batch with its position, from `start` on."""
        if start >= self.size:
            return iter(())
        return file_batches(self.file(), start, self.size if end is None else end)

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp so far and the last offset of the batch that has it."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last_entry
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The newest record's timestamp, or when the file was last written if no record has one."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        return self._world.disk.modified_ms(self.path)

    @modified_ms.setter
    def modified_ms(self, value: int) -> None:
        for path in (self.path, self.offset_index.path, self.time_index.path):
            self._world.disk.set_modified_ms(path, value)

    @property
    def first_batch_timestamp(self) -> int | None:
        """The first batch's largest timestamp: what rolling by time and compaction lag count from."""
        if self._rolling_timestamp is None:
            for _, batch in self.batches():
                self._rolling_timestamp = batch.max_timestamp
                break
        if self._rolling_timestamp is not None and self._rolling_timestamp >= 0:
            return self._rolling_timestamp
        return None

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size}, path={self.path!r})"

    # Append

    def should_roll(self, rules: AppendRules, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether a new segment must begin before these batches are appended."""
        if (
            self.size > rules.segment_size_max - size
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or self.offset_index.is_full
            or self.time_index.is_full
        ):
            return True
        if self.size == 0:
            return False
        since = self._rolling_timestamp
        if since is None or since < 0:
            since = self.first_batch_timestamp
        waited_ms = now_ms - self.created_ms if since is None else max_timestamp - since
        return waited_ms > rules.segment_ms_max - self.roll_jitter_ms

    def append(self, data: Buffer, batches: Sequence[Batch], last_offset: int) -> None:
        """Write whole batches at the end. `batches` are the headers of what `data` holds, in order, and end with
        `last_offset`."""
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise SegmentOverflow(self, last_offset)
        position = self.size
        (self._file or self.file()).write_at(position, data)
        self.size = position + len(data)
        maximum = self._max_timestamp or self.max_timestamp
        for batch in batches:
            size = batch.size
            since_entry = self._bytes_since_entry
            if since_entry > self._index_interval_bytes or batch.max_timestamp > maximum[0]:
                maximum = self._index(position, batch)
            else:
                self._bytes_since_entry = since_entry + size
            position += size

    def on_become_inactive(self) -> None:
        """The last entry of the time index, and no spare room at the file's end: nothing more will be appended."""
        self._finish_indexes()
        self.trim()

    def trim(self) -> None:
        """Give back what preallocation reserved beyond the last batch."""
        if self.file().size() != self.size:
            self.is_repaired = True
            self.file().truncate(self.size)

    # Read

    def locate(self, offset: int) -> BatchPlace | None:
        """The batch that holds `offset`, or the next one after it; None when all end below."""
        if self.size == 0:
            return None
        return find_batch(self._file or self.file(), offset, self._position_before(offset), self.size)

    def _position_before(self, offset: int) -> int:
        """Where a batch begins at or before `offset`, as the index says; one that is damaged there is rebuilt."""
        entry = self.offset_index.floor(offset)
        if entry.position and not self._agrees_with(entry):
            log.warning("[Segment %s] The offset index is damaged at %s; rebuilding it", self.path, entry)
            self.rebuild_indexes()
            entry = self.offset_index.floor(offset)
        return entry.position

    def _agrees_with(self, entry: OffsetPosition) -> bool:
        """Whether a batch begins where the index says, no later than at the offset it says."""
        header = (self._file or self.file()).read_at(entry.position, HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return False
        batch = Batch(memoryview(header), 0)
        is_batch = batch.magic == MAGIC and batch.size >= HEADER_SIZE
        return is_batch and self.base_offset <= batch.base_offset <= entry.offset

    def read(self, offset: int, *, bytes_max: int, position_max: int | None, at_least_one: bool) -> SegmentRead | None:
        """A slice from the batch that holds `offset` on; None when this segment has nothing at or above it.

        `position_max` is where the visible part ends; None when all of it lies beyond what may be seen.
        """
        place = self.locate(offset)
        if place is None:
            return None
        limit = max(bytes_max, place.size) if at_least_one else bytes_max
        if limit == 0 or position_max is None:
            return SegmentRead(offset, place.position, None, False)
        size = min(position_max - place.position, limit)
        assert size >= 0, f"offset {offset} is visible but its batch at {place.position} is beyond {position_max}"
        return SegmentRead(offset, place.position, FileSlice(self.file(), place.position, size), limit < place.size)

    def read_next_offset(self) -> int:
        """The offset after the last whole batch: read from the last index entry on."""
        end = self.base_offset
        for _, batch in self.batches(self._position_before(self.offset_index.last_offset)):
            end = batch.next_offset
        return end

    def find_by_timestamp(self, timestamp: int, from_offset: int) -> TimedOffset | None:
        """The first record at or above both `timestamp` and `from_offset`."""
        entry = self.time_index.floor(timestamp)
        position = self.offset_index.floor(max(entry.offset, from_offset)).position
        for _, batch in self.batches(position):
            if batch.max_timestamp >= timestamp and batch.last_offset >= from_offset:
                epoch = batch.leader_epoch if batch.leader_epoch >= 0 else None
                scan = batch.scan()
                for offset, record_timestamp in zip(scan.offsets, scan.timestamps, strict=True):
                    if record_timestamp >= timestamp and offset >= from_offset:
                        return TimedOffset(record_timestamp, offset, epoch)
        return None

    def find_max_timestamp(self) -> TimedOffset | None:
        """The first record that has the segment's largest timestamp."""
        maximum = self.max_timestamp
        for _, batch in self.batches(self.offset_index.floor(maximum.offset).position):
            if batch.max_timestamp == maximum.timestamp:
                epoch = batch.leader_epoch if batch.leader_epoch >= 0 else None
                scan = batch.scan()
                for offset, timestamp in zip(scan.offsets, scan.timestamps, strict=True):
                    if timestamp == maximum.timestamp:
                        return TimedOffset(timestamp, offset, epoch)
                return None
        return None

    # Repair and cut

    def recover(self, on_batch: Callable[[Batch], None], *, unflushed_from: int | None = None) -> int:
        """Rebuild the indexes from the file and cut it behind its last valid batch; returns how much was cut.

        `on_batch` sees every valid batch in order: epochs and producers are rebuilt from it. Batches that reach
        `unflushed_from` are written once more as they are: a sync that failed in the last life may have left them in
        the page cache only, taken for clean, and no later sync would write them.
        """
        self._reset_indexes(only_used=True)
        self.txn_index.reset()
        self._rolling_timestamp = None
        valid = 0
        previous = self.base_offset - 1
        try:
            for position, batch in self.batches():
                batch.ensure_valid()
                if batch.base_offset <= previous:
                    raise InvalidRecord(f"offset {batch.base_offset} follows {previous}")
                if batch.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                    if self._is_in_order(position):
                        raise SegmentOverflow(self, batch.last_offset)
                    raise InvalidRecord(f"offset {batch.base_offset} follows {previous}, and lower ones follow it")
                self._index(position, batch)
                on_batch(batch)
                if unflushed_from is not None and batch.last_offset >= unflushed_from:
                    self.file().write_at(position, batch.data)
                previous = batch.last_offset
                valid = position + batch.size
        except (CorruptMessage, InvalidRecord) as error:
            log.warning("[Segment %s] Found invalid batches at position %d: %s", self.path, valid, error)
        cut = self.size - valid
        self.size = valid
        if cut:
            self.trim()
            self.file().sync()  # or what was cut off could come back behind what will be appended
        self._finish_indexes()
        return cut

    def _is_in_order(self, position: int) -> bool:
        """Whether offsets grow from here to the end: a real overflow, and not a damaged offset (no checksum has it)."""
        previous = -1
        for _, batch in self.batches(position):
            if batch.base_offset <= previous or batch.last_offset_delta < 0:
                return False
            previous = batch.last_offset
        return True

    def set_indexes_aside(self) -> None:
        """Begin empty indexes under other names, those of an unfinished compaction, which a start removes.

        The offset and the time index go first, so that they are missed until `put_indexes_in_place`.
        """
        disk = self._world.disk
        bytes_max = self.offset_index.bytes_max
        self.offset_index.abandon()
        self.time_index.abandon()
        self.txn_index.close()
        for path in (self.offset_index.path, self.time_index.path):
            if disk.exists(path):
                disk.remove(path)
        disk.sync_dir(self.directory)
        stem = f"{self.directory}/{names.offset_name(self.base_offset)}"
        aside = names.CLEANED
        self.offset_index = OffsetIndex(disk, stem + names.INDEX + aside, self.base_offset, bytes_max=bytes_max)
        self.time_index = TimeIndex(disk, stem + names.TIME_INDEX + aside, self.base_offset, bytes_max=bytes_max)
        self.txn_index = TransactionIndex(disk, stem + names.TXN_INDEX + aside, self.base_offset, size=0)

    def put_indexes_in_place(self) -> None:
        """Give the indexes their names, durably: the aborted transactions, which nobody would miss, before the rest."""
        disk = self._world.disk
        self.flush()
        for index in (self.txn_index, self.time_index, self.offset_index):
            path = index.path.removesuffix(names.CLEANED)
            if disk.exists(index.path):
                index.move(path)
            elif disk.exists(path):
                disk.remove(path)
            index.moved(path)
        disk.sync_dir(self.directory)

    def rebuild_indexes(self) -> None:
        """Make the offset and time index anew from the batches, which are trusted as they are."""
        self._reset_indexes()
        for position, batch in self.batches():
            self._index(position, batch)
        self._finish_indexes()
        self.offset_index.file().sync()  # no flush may come by here any more
        self.time_index.file().sync()

    def _reset_indexes(self, *, only_used: bool = False) -> None:
        self.is_repaired = True
        for index in (self.offset_index, self.time_index):
            if not (only_used and index.is_bare):
                index.reset()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_entry = 0

    def _index(self, position: int, batch: Batch) -> TimestampOffset:
        """Add entries for a batch if it is due one: the same rule for a batch appended and for one found. Returns the
        largest timestamp so far."""
        maximum = self._max_timestamp or self.max_timestamp
        max_timestamp = batch.max_timestamp
        if max_timestamp > maximum[0]:
            last_offset = batch.base_offset + batch.last_offset_delta
            self._max_timestamp = maximum = _new_tuple(TimestampOffset, (max_timestamp, last_offset))
        if self._bytes_since_entry > self._index_interval_bytes:
            self.offset_index.append(batch.base_offset + batch.last_offset_delta, position)
            self.time_index.append(*maximum)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size
        return maximum

    def _finish_indexes(self) -> None:
        self.time_index.append(*self.max_timestamp)
        self.offset_index.write_out()
        self.time_index.write_out()

    def truncate_to(self, offset: int) -> int:
        """Drop the batch that holds `offset` and all after it; returns how many bytes went."""
        self.is_repaired = True
        place = self.locate(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        cut = 0
        if place is not None:
            cut = self.size - place.position
            self.size = place.position
            self.file().truncate(self.size)
            # For good, before anything is appended here: the old end must not come back behind it.
            self.file().sync()
        if self.size == 0:
            self.created_ms = self._world.clock.now_ms()
            self._rolling_timestamp = None
        self._bytes_since_entry = 0
        if self.max_timestamp.timestamp >= 0:
            self._max_timestamp = self._read_max_timestamp()
        return cut

    def _read_max_timestamp(self) -> TimestampOffset:
        """The last entry of the time index, or a larger timestamp in what follows it."""
        maximum = self.time_index.last_entry
        for _, batch in self.batches(self.offset_index.floor(maximum.offset).position):
            if batch.max_timestamp > maximum.timestamp:
                maximum = TimestampOffset(batch.max_timestamp, batch.last_offset)
        return maximum

    @property
    def has_overflow(self) -> bool:
        end = self.read_next_offset()
        return end > self.base_offset and not self.offset_index.can_hold(end - 1)

    # Durability and life

    def begin_anew(self) -> None:
        """Nothing was appended yet: forget what the indexes have, and count the age from now on."""
        assert self.size == 0, f"{self} has records"
        self._reset_indexes()
        self.txn_index.reset()
        self.created_ms = self._world.clock.now_ms()

    def files_to_sync(self) -> list[File]:
        """Write out what waits in memory and name the files whose sync makes this segment durable."""
        self.offset_index.write_out()
        self.time_index.write_out()
        files = [self.file()]
        files += [
            index.file() for index in (self.offset_index, self.time_index) if self.is_repaired or index.is_touched
        ]
        return files + self.txn_index.files_to_sync()

    def flush(self) -> None:
        for file in self.files_to_sync():
            file.sync()

    def change_suffix(self, suffix: str) -> None:
        """Rename all files of the segment, the log file first, as Kafka does. A crash in between leaves files of both
        names, from which `loader` tells how far it came."""
        old_path = self.path
        old_suffix, self.suffix = self.suffix, suffix
        self._world.disk.rename(old_path, self.path)
        if self._file is not None:
            self._file.path = self.path
        for index in (self.offset_index, self.time_index, self.txn_index):
            path = index.path[: len(index.path) - len(old_suffix)] + suffix
            if self._world.disk.exists(index.path):
                index.move(path)
            else:
                index.moved(path)

    def move_to(self, directory: str) -> None:
        """The directory has got another name."""
        self.directory = directory
        if self._file is not None:
            self._file.path = self.path
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.moved(f"{directory}/{index.path.rpartition('/')[2]}")

    def finish(self) -> None:
        """Bring the files to their final form, which `files_to_sync` makes durable: the node is about to stop."""
        if self._max_timestamp is not None:
            self.time_index.append(*self._max_timestamp)
        self.offset_index.write_out()
        self.time_index.write_out()
        if self._is_preallocated or self._file is not None:
            self.trim()

    @property
    def has_touched_indexes(self) -> bool:
        """Whether more than the file of batches may have to be synced."""
        return (
            self.is_repaired or self.offset_index.is_touched or self.time_index.is_touched or self.txn_index.is_touched
        )

    def rest(self) -> None:
        """Give the descriptors back until somebody needs them."""
        self.offset_index.rest()
        self.time_index.rest()
        self.txn_index.close()
        self._abandon_file()

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: the files are to go, or their directory has failed."""
        self.offset_index.abandon()
        self.time_index.abandon()
        self.txn_index.close()
        self._abandon_file()

    def _abandon_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete_files(self) -> None:
        """Remove the files, whatever suffix they have by now; those already gone are no error."""
        self.plan_removal().run()

    def plan_removal(self) -> SyncPlan:
        """The same, for a thread: only the descriptors are given back now."""
        self.abandon()
        paths = [self.path, self.offset_index.path, self.time_index.path, self.txn_index.path]
        return SyncPlan(self._world.disk, removed_files=paths)

"""A time index (`.timeindex`): its entries, and whether the batch that each names has the timestamp it gives."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.dump.batch_walk import AnyBatch, BatchWalk
from ottla.cli.dump.file_name import CannotDump, FileName
from ottla.cli.dump.findings import OFFSET_NOT_FOUND, TIMESTAMP_DISORDER, TIMESTAMP_MISMATCH, Findings
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.row import Row, error_row
from ottla.cli.dump.segment_index import open_segment, sanity_row
from ottla.errors import CorruptMessage, KafkaError
from ottla.records import NO_TIMESTAMP, Batch
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.world import Disk, File


def dump_time_index(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a time index; `CannotDump` when its name is none, or its segment or offset index is not there."""
    size = disk.size(name.path)
    time_index = TimeIndex(disk, name.path, name.base_offset, bytes_max=size, size=size)
    offset_index = _offset_index(disk, name)
    segment = open_segment(disk, name)
    try:
        if options.index_sanity_check:
            yield sanity_row(name, time_index, size)
        else:
            yield from TimeIndexDump(name, time_index, offset_index, segment, options, findings).rows()
    finally:
        segment.close()
        offset_index.abandon()
        time_index.abandon()


def _offset_index(disk: Disk, name: FileName) -> OffsetIndex:
    try:
        size = disk.size(name.index_path)
    except FileNotFoundError:
        raise CannotDump(f"batches are found with the offset index, and {name.index_path} is not there") from None
    return OffsetIndex(disk, name.index_path, name.base_offset, bytes_max=size, size=size)


class TimeIndexDump:
    """The rows of one time index, beside the offset index and the segment that it belongs to."""

    def __init__(
        self,
        name: FileName,
        time_index: TimeIndex,
        offset_index: OffsetIndex,
        segment: File,
        options: DumpOptions,
        findings: Findings,
    ) -> None:
        self._name = name
        self._time_index = time_index
        self._offset_index = offset_index
        self._walk = BatchWalk(segment)
        self._segment_size = segment.size()
        self._options = options
        self._findings = findings

    def rows(self) -> Iterator[Row]:
        previous = NO_TIMESTAMP
        for slot in range(self._time_index.entry_count):
            entry = self._time_index.entry_at(slot)
            if slot and entry.offset == self._time_index.base_offset:
                return  # the rest are zeros: a crash left the index at the size it was made with
            if not self._options.verify_index_only:
                yield Row("entry", {"timestamp": entry.timestamp, "offset": entry.offset})
            try:
                self._verify(entry, previous)
            except KafkaError as error:
                place = f"timestamp: {entry.timestamp} offset: {entry.offset}"
                yield error_row(f"entry {slot} ({place}) cannot be held against the segment: {error}")
            previous = entry.timestamp

    def _verify(self, entry: TimestampOffset, previous: int) -> None:
        path = self._name.absolute
        batch = self._find(entry.offset)
        if batch is None or batch.last_offset != entry.offset:
            found = -1 if batch is None else batch.last_offset
            self._findings.add(OFFSET_NOT_FOUND, path, entry.offset, found)
            return
        timestamp = _max_timestamp(batch)
        if timestamp != entry.timestamp:
            self._findings.add(TIMESTAMP_MISMATCH, path, entry.timestamp, timestamp)
        if previous >= entry.timestamp:
            self._findings.add(TIMESTAMP_DISORDER, path, entry.timestamp, previous)

    def _find(self, offset: int) -> AnyBatch | None:
        """The first batch, from where the offset index points, that ends at or above `offset`."""
        position = self._offset_index.floor(offset).position
        if not 0 <= position <= self._segment_size:
            raise CorruptMessage(f"the offset index points at {position} of {self._segment_size} bytes")
        for _, batch in self._walk.batches(position, self._segment_size):
            if batch.last_offset >= offset:
                return batch
        return None


def _max_timestamp(batch: AnyBatch) -> int:
    """The largest timestamp of the records themselves, whatever the header says."""
    if isinstance(batch, Batch):
        return max(batch.scan().timestamps, default=NO_TIMESTAMP)
    return max(record.timestamp for record in batch.records())

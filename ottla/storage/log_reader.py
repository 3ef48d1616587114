"""Reading a log: batches by offset, offsets by time, the aborted transactions of a range.

Promises: `read` returns a slice of a file, never bytes, and never anything beyond the end its isolation allows. Nothing
is changed here but what is remembered of the places where readers stopped. Called by `log`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import OffsetOutOfRange
from ottla.records import NO_TIMESTAMP
from ottla.storage.batch_file import FileSlice
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.segment import Segment, TimedOffset
from ottla.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from ottla.storage.log import Log

READ_ENDS_MAX = 8
"""How many places are remembered up to which a log was read."""


class Isolation(IntEnum):
    """How far a reader may see: a replica to the log's end, a consumer to the high watermark or the last stable
    offset."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class SpecialTimestamp(IntEnum):
    """The negative timestamps of ListOffsets that ask for a place instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class LogRead(NamedTuple):
    """What a read found. `slice` is None when there is nothing to send; `aborted` only for `TXN_COMMITTED`."""

    start: OffsetMetadata
    slice: FileSlice | None
    first_batch_incomplete: bool
    aborted: list[AbortedTxn] | None


class LogReader:
    """See the module."""

    __slots__ = ("_ends", "_log")

    def __init__(self, owner: Log) -> None:
        self._log = owner
        self._ends: dict[int, OffsetMetadata] = {}
        """Where the last reads ended: the next ones begin there, and need not search for the place."""

    def forget(self) -> None:
        """The files have changed: a place that was known may be another's now."""
        self._ends.clear()

    def read(
        self, offset: int, *, bytes_max: int, isolation: Isolation = Isolation.HIGH_WATERMARK, at_least_one: bool = True
    ) -> LogRead:
        """The batches from the one that holds `offset` on, up to `bytes_max` bytes and to what `isolation` allows.

        `at_least_one` lets a first batch through that alone exceeds the limit. `OffsetOutOfRange` below the log start
        and beyond the log end.
        """
        owner = self._log
        owner.check_usable()
        if offset < owner.log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {owner.partition}, but we only have log segments "
                f"starting from offset: {owner.log_start_offset}."
            )
        end = owner.watermarks.visible_end(isolation)
        found = self.find(offset, bytes_max=bytes_max, end=end, at_least_one=at_least_one)
        if isolation is not Isolation.TXN_COMMITTED:
            return found
        try:
            return found._replace(aborted=self._aborted_in(offset, found))
        except OSError as error:
            owner.log_dir.fail(f"reading from {owner.partition}", error)

    def find(self, offset: int, *, bytes_max: int, end: OffsetMetadata, at_least_one: bool) -> LogRead:
        owner = self._log
        segment = owner.segments.floor(offset)
        if segment is None or offset > owner.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {owner.partition}, but we only have log segments "
                f"upto {owner.log_end_offset}."
            )
        if offset == end.offset:
            self._remember(end)
            return LogRead(end, None, False, None)
        if offset > end.offset:
            return LogRead(owner.watermarks.complete(OffsetMetadata(offset)), None, False, None)
        try:
            begin = self._ends.get(offset)
            if begin is not None and begin.segment_base_offset == end.segment_base_offset == segment.base_offset:
                size = end.position - begin.position
                if size <= bytes_max:
                    self._remember(end)
                    return LogRead(begin, FileSlice(segment.file(), begin.position, size), False, None)
            while segment is not None:
                position_max: int | None
                if segment.base_offset < end.segment_base_offset:
                    position_max = segment.size
                elif segment.base_offset == end.segment_base_offset and not end.is_offset_only:
                    position_max = end.position
                else:
                    position_max = None
                read = segment.read(offset, bytes_max=bytes_max, position_max=position_max, at_least_one=at_least_one)
                if read is not None:
                    start = OffsetMetadata(offset, segment.base_offset, read.position)
                    is_in_last = segment.base_offset == end.segment_base_offset
                    if is_in_last and read.slice is not None and read.position + read.slice.size == end.position:
                        self._remember(end)
                    return LogRead(start, read.slice, read.first_batch_incomplete, None)
                segment = owner.segments.higher(segment.base_offset)
        except OSError as error:
            owner.log_dir.fail(f"reading from {owner.partition}", error)
        # The offset is in range, but compaction has left nothing at or above it.
        return LogRead(owner.end, None, False, None)

    def _remember(self, end: OffsetMetadata) -> None:
        ends = self._ends
        if end.offset not in ends:
            if end.is_offset_only:
                return
            if len(ends) >= READ_ENDS_MAX:
                del ends[next(iter(ends))]
            ends[end.offset] = end

    def _aborted_in(self, offset: int, found: LogRead) -> list[AbortedTxn]:
        """The aborted transactions that may have records among those found: a reader has to leave them out."""
        owner = self._log
        segment = owner.segments.floor(found.start.segment_base_offset)
        if found.slice is None or segment is None or not self._knows_aborted(segment):
            return []
        entry = segment.offset_index.ceiling_of_position(found.slice.position + found.slice.size)
        if entry is not None:
            upper_bound = entry.offset
        else:
            following = owner.segments.higher(segment.base_offset)
            upper_bound = owner.log_end_offset if following is None else following.base_offset
        return self.aborted_transactions(offset, upper_bound, from_segment=segment)

    def _knows_aborted(self, segment: Segment | None) -> bool:
        """Whether this segment or one behind it has aborted transactions at all: most logs never had any."""
        while segment is not None and segment.txn_index.is_empty:
            segment = None if segment is self._log.segments.active else self._log.segments.higher(segment.base_offset)
        return segment is not None

    def aborted_transactions(
        self, start_offset: int, upper_bound_offset: int, *, from_segment: Segment | None = None
    ) -> list[AbortedTxn]:
        """Aborted transactions that overlap [start, upper bound), from every segment that may know of one."""
        segment = from_segment or self._log.segments.floor(start_offset)
        aborted: list[AbortedTxn] = []
        while segment is not None:
            found, is_complete = segment.txn_index.collect_aborted(start_offset, upper_bound_offset)
            aborted += found
            if is_complete:
                break
            segment = self._log.segments.higher(segment.base_offset)
        return aborted

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record at or after a time, or the place a `SpecialTimestamp` asks for; None when there is none."""
        owner = self._log
        owner.check_usable()
        try:
            match timestamp:
                case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
                    earliest = owner.epochs.earliest_entry
                    is_known = earliest is not None and earliest.start_offset <= owner.log_start_offset
                    epoch = earliest.epoch if earliest is not None and is_known else None
                    return TimedOffset(NO_TIMESTAMP, owner.log_start_offset, epoch)
                case SpecialTimestamp.LATEST:
                    return TimedOffset(NO_TIMESTAMP, owner.log_end_offset, owner.epochs.latest_epoch)
                case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
                    return TimedOffset(NO_TIMESTAMP, -1, -1)  # no remote tier, so nothing is in it or waits for it
                case SpecialTimestamp.MAX_TIMESTAMP:
                    # The first of equals: a later segment must have a larger timestamp to be asked.
                    newest = max(owner.segments, key=lambda segment: segment.max_timestamp.timestamp)
                    return newest.find_max_timestamp()
            for segment in owner.segments:
                if segment.largest_timestamp >= timestamp:
                    # The answer is this segment's, also when it has none: its newest record may lie below the log
                    # start, or compaction may have emptied it. Clients know this of Kafka: the golden data shows it.
                    return segment.find_by_timestamp(timestamp, owner.log_start_offset)
        except OSError as error:
            owner.log_dir.fail(f"fetching offset by timestamp for {owner.partition}", error)
        return None

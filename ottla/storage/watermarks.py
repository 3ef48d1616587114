"""How far a log may be seen: its high watermark and its last stable offset, with their places in the files.

Promises: neither is beyond the log's end; the last stable offset is at or below the high watermark and below every
record of a transaction that is open, or whose marker may yet be lost. Going back is told in the log. Called by `log`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.errors import OffsetOutOfRange
from ottla.storage.log_reader import Isolation
from ottla.storage.offset_metadata import UNKNOWN_POSITION, UNKNOWN_SEGMENT, OffsetMetadata

if TYPE_CHECKING:
    from ottla.storage.log import Log

log = logging.getLogger(__name__)

# What a named tuple's constructor does, at half its price.
_new_tuple = tuple.__new__


class Watermarks:
    """See the module. A new log's high watermark is its start: whoever opens it knows better."""

    __slots__ = ("_first_unstable", "_high", "_log")

    def __init__(self, owner: Log) -> None:
        self._log = owner
        self._high = OffsetMetadata(owner.log_start_offset)
        self._first_unstable: OffsetMetadata | None = None
        self.update_first_unstable()

    @property
    def high_watermark(self) -> int:
        return self._high.offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is not decided, or whose decision is not replicated yet."""
        return None if self._first_unstable is None else self._first_unstable.offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self._first_unstable
        if unstable is not None and unstable.offset < self._high.offset:
            return unstable.offset
        return self._high.offset

    def update(self, offset: int) -> int:
        """Set the high watermark, kept within the log; returns what it became."""
        owner = self._log
        if offset < owner.log_start_offset:
            self.set(OffsetMetadata(owner.log_start_offset))
        elif offset >= owner.log_end_offset:
            self.set(owner.end)
        else:
            self.set(OffsetMetadata(offset))
        return self._high.offset

    def advance(self, offset: int) -> bool:
        """Raise the high watermark to `offset`; False when it is there or beyond already."""
        owner = self._log
        assert offset <= owner.log_end_offset, f"{owner}: high watermark {offset} is beyond the log end"
        if offset <= self._high.offset:
            return False
        self.set(owner.end if offset == owner.log_end_offset else OffsetMetadata(offset))
        return True

    def advance_to_end(self) -> bool:
        """As `advance`, for a log that has no other replicas: its end is what everybody has."""
        owner = self._log
        end_offset = owner.log_end_offset
        if end_offset <= self._high.offset:
            return False
        if self._first_unstable is not None:
            self.set(owner.end)
        else:
            # Its place is the log's end for as long as both are the same, and is looked up when somebody reads.
            self._high = _new_tuple(OffsetMetadata, (end_offset, UNKNOWN_SEGMENT, UNKNOWN_POSITION))
        return True

    def set(self, value: OffsetMetadata) -> None:
        if value.offset < self._high.offset:
            log.warning(
                "[Log %s] Non-monotonic update of high watermark from %d to %d",
                self._log.partition, self._high.offset, value.offset,
            )  # fmt: skip
        self._high = value
        self._log.producers.on_high_watermark_updated(value.offset)
        self.update_first_unstable()

    def update_first_unstable(self) -> None:
        owner = self._log
        unstable = owner.producers.first_unstable_offset
        if unstable is not None and unstable.offset < owner.log_start_offset:
            unstable = OffsetMetadata(owner.log_start_offset)
        self._first_unstable = unstable

    def visible_end(self, isolation: Isolation) -> OffsetMetadata:
        """Where a reader's view ends, with its place in the files."""
        if isolation is Isolation.HIGH_WATERMARK:
            return self._high_watermark_place()
        return self._log.end if isolation is Isolation.LOG_END else self._last_stable_place()

    def complete(self, value: OffsetMetadata) -> OffsetMetadata:
        """The same offset with its place in the files, where it has one."""
        owner = self._log
        if not value.is_offset_only:
            return value
        if value.offset == owner.log_end_offset:
            return owner.end
        try:
            return owner.reader.find(value.offset, bytes_max=1, end=owner.end, at_least_one=False).start
        except OffsetOutOfRange:
            return value

    def _high_watermark_place(self) -> OffsetMetadata:
        if self._high.is_offset_only:
            self._high = self.complete(self._high)
        return self._high

    def _last_stable_place(self) -> OffsetMetadata:
        unstable = self._first_unstable
        if unstable is None or unstable.offset >= self._high.offset:
            return self._high_watermark_place()
        if unstable.is_offset_only:
            self._first_unstable = unstable = self.complete(unstable)
        return unstable

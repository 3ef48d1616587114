"""What is taken out of a log: its end by truncation, its beginning by deletion, segments in between by compaction.

Promises: a crash in the middle leaves the log shorter at the end that was being cut, and never with a hole; segments
that are replaced are there, or those that replace them are. At least one segment always stays. Called by `log`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import OffsetOutOfRange
from ottla.storage.rebuild import rebuild_producer_state
from ottla.storage.segment import Segment
from ottla.storage.split import split_segment
from ottla.storage.swap import remove_later, retire_segments, swap_in

if TYPE_CHECKING:
    from ottla.storage.log import Log

log = logging.getLogger(__name__)


class LogTrimmer:
    """See the module."""

    __slots__ = ("_log", "truncation_count")

    def __init__(self, owner: Log) -> None:
        self._log = owner
        self.truncation_count = 0
        """Grows with every truncation: a cleaner that sees it change starts over."""

    def advance_log_start(self, offset: int, reason: str) -> bool:
        owner = self._log
        owner.check_usable()
        if offset > owner.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {owner.partition} since it is larger "
                f"than the high watermark {owner.high_watermark}"
            )
        if offset <= owner.log_start_offset:
            return False
        # The recovery point stays: segments that were never synced may lie below the new start, and until retention
        # has removed them they are read when the log is opened or asked for a time.
        owner.log_start_offset = offset
        log.info("[Log %s] Incremented log start offset to %d due to %s", owner.partition, offset, reason)
        try:
            owner.epochs.truncate_from_start(offset)
            owner.producers.on_log_start_offset_incremented(offset)
        except OSError as error:
            owner.log_dir.fail(f"moving the log start of {owner.partition}", error)
        owner.watermarks.update_first_unstable()
        return True

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or above `offset`; False when there was nothing."""
        owner = self._log
        owner.check_usable()
        assert offset >= 0, f"{owner}: cannot truncate to {offset}"
        if offset < owner.high_watermark:
            log.warning(
                "[Log %s] Truncating to offset %d below high watermark %d",
                owner.partition,
                offset,
                owner.high_watermark,
            )
        try:
            if offset >= owner.log_end_offset:
                # An epoch may have been opened here without a record of it; the new leader's history decides.
                self._truncate_epochs(owner.log_end_offset)
                return False
            log.info("[Log %s] Truncating to offset %d", owner.partition, offset)
            self.truncation_count += 1
            owner.reader.forget()
            if owner.segments.first.base_offset > offset:
                self._restart_at(offset, log_start_offset=offset)
                return True
            # From the last to the first: a crash in between leaves the log shorter, and never with a hole.
            self._remove(owner.segments.above(offset)[::-1], "truncation")
            owner.segments.active.truncate_to(offset)
            owner.batches_end = owner.segments.active.read_next_offset()
            owner.log_end_offset = offset
            owner.flusher.go_back_to(owner.batches_end)
            self._truncate_epochs(offset)
            owner.log_start_offset = min(offset, owner.log_start_offset)
            self._rebuild_producers(offset)
            if owner.high_watermark >= offset:
                owner.watermarks.set(owner.end)
            else:
                # What is below it stays decided: the rebuilt producers have to hear of it again.
                owner.producers.on_high_watermark_updated(owner.high_watermark)
                owner.watermarks.update_first_unstable()
            return True
        except OSError as error:
            owner.log_dir.fail(f"truncating {owner.partition} to offset {offset}", error)

    def _truncate_epochs(self, offset: int) -> None:
        """In memory now, in the file with the next append."""
        owner = self._log
        owner.epochs.truncate_from_end(offset)
        owner.is_unsettled = True

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything and begin again at `offset`."""
        owner = self._log
        owner.check_usable()
        self.truncation_count += 1
        owner.reader.forget()
        try:
            self._restart_at(offset, log_start_offset=offset if log_start_offset is None else log_start_offset)
        except OSError as error:
            owner.log_dir.fail(f"truncating the entire log of {owner.partition}", error)

    def _restart_at(self, offset: int, *, log_start_offset: int) -> None:
        owner = self._log
        old = list(owner.segments)
        for segment in old:
            owner.segments.remove(segment)
        self._retire(old)
        self._drop_snapshots(old)
        owner.begin_segment(offset)
        owner.batches_end = owner.log_end_offset = offset
        owner.flusher.go_back_to(offset)
        owner.epochs.clear_and_flush()
        owner.producers.truncate_fully_and_start_at(offset)
        owner.log_start_offset = log_start_offset
        self._rebuild_producers(offset)
        owner.watermarks.set(owner.end)

    def _rebuild_producers(self, end_offset: int) -> None:
        owner = self._log
        rebuild_producer_state(
            owner.producers,
            owner.segments,
            log_start_offset=owner.log_start_offset,
            end_offset=end_offset,
            now_ms=owner.world.clock.now_ms(),
        )

    def delete_segments(self, deletable: Sequence[Segment], reason: str) -> int:
        """Delete the oldest segments. At least one always stays: when all may go, an empty one is begun first."""
        owner = self._log
        gone = list(deletable)
        if not gone:
            return 0
        owner.check_usable()
        if len(gone) == len(owner.segments):
            begun = owner.roll()
            if gone[-1].base_offset == begun.base_offset:
                gone.pop()  # the empty active segment was replaced by itself
        if gone:
            following = owner.segments.higher(gone[-1].base_offset)
            assert following is not None, f"{owner}: no segment is left after {gone[-1]}"
            self.advance_log_start(following.base_offset, "segment deletion")
            try:
                self._remove(gone, reason)
            except OSError as error:
                owner.log_dir.fail(f"deleting segments of {owner.partition}", error)
        return len(deletable)

    def _remove(self, segments: Sequence[Segment], reason: str) -> None:
        owner = self._log
        if segments:
            log.info(
                "[Log %s] Deleting segments due to %s: %s",
                owner.partition,
                reason,
                [s.base_offset for s in segments],
            )
        for segment in segments:
            owner.segments.remove(segment)
        self._retire(segments)
        self._drop_snapshots(segments)
        if segments:
            # For good, before the log goes on: files that a power cut brings back would stand behind what is appended
            # after a truncation, or take back a log start that was checkpointed.
            owner.world.disk.sync_dir(owner.directory)

    def _retire(self, segments: Sequence[Segment]) -> None:
        """Mark files as deleted at once, and remove them when no reader can have them open any more."""
        retire_segments(segments, self._log.chores, self._log.config)

    def _drop_snapshots(self, segments: Sequence[Segment]) -> None:
        owner = self._log
        for segment in segments:
            path = owner.producers.remove_and_mark_snapshot_for_deletion(segment.base_offset)
            if path is not None:
                remove_later(owner.world.disk, path, owner.chores, owner.config)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put `.cleaned` segments in the place of the ones they were made from, so that no crash loses either."""
        owner = self._log
        owner.check_usable()
        owner.reader.forget()
        try:
            dropped = swap_in(
                owner.world.disk,
                owner.directory,
                owner.segments,
                new,
                old,
                owner.chores,
                owner.config,
            )
            self._drop_snapshots(dropped)
        except OSError as error:
            owner.log_dir.fail(f"replacing segments of {owner.partition}", error)

    def split_segment(self, segment: Segment) -> None:
        """Replace a segment whose offsets span more than an index can hold by as many as they need."""
        owner = self._log
        owner.check_usable()
        owner.reader.forget()
        try:
            split_segment(owner.world, segment, owner.segments, owner.config, owner.chores)
        except OSError as error:
            owner.log_dir.fail(f"splitting a segment of {owner.partition}", error)

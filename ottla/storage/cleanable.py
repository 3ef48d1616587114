"""How much of a log is clean, how much is dirty, and how far compaction may go.

Dirty is what has come since the last run, from the checkpointed offset on. Not yet to be cleaned are the active
segment, what is not replicated or belongs to an open transaction, and records younger than `min.compaction.lag.ms`.
Nothing is changed here. Called by `cleaner_manager` for every compacted log, each time it looks for work.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.config import CleanupPolicy
from ottla.storage.log import Log
from ottla.storage.segment import Segment

log = logging.getLogger(__name__)


class CleanableLog(NamedTuple):
    """A log and what a run over it would have to do."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where a run would end: the start of a segment."""
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """For how long `max.compaction.lag.ms` has been exceeded."""
    is_reset: bool
    """Whether the checkpointed offset made no sense, so that the first dirty offset has to be written anew."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The dirty share of what is clean or can be cleaned."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def measure(partition_log: Log, checkpoint: int | None, now_ms: int) -> CleanableLog:
    """Look at a log; `checkpoint` is the offset up to which it was cleaned before, None if it never was."""
    first_dirty, is_reset = _first_dirty_offset(partition_log, checkpoint)
    bound = max(first_dirty, _uncleanable_bound(partition_log, first_dirty, now_ms))
    first_uncleanable = _segment_start(partition_log, bound)
    segments = partition_log.segments
    clean = [segment for segment in segments if segment.base_offset < first_dirty]
    dirty_start = min(first_dirty, first_uncleanable)
    dirty = segments.covering(dirty_start, first_uncleanable) if dirty_start < first_uncleanable else []
    return CleanableLog(
        partition_log,
        first_dirty,
        first_uncleanable,
        clean_bytes=sum(segment.size for segment in clean),
        cleanable_bytes=sum(segment.size for segment in dirty),
        compaction_delay_ms=_compaction_delay_ms(partition_log, first_dirty, now_ms),
        is_reset=is_reset,
    )


def _first_dirty_offset(partition_log: Log, checkpoint: int | None) -> tuple[int, bool]:
    """Where the dirty part begins, and whether that is not what the checkpoint says."""
    start = partition_log.log_start_offset
    if checkpoint is None:
        return start, False
    if checkpoint < start:
        # Retention moves the start past the checkpoint all the time; without it, something else has happened.
        if CleanupPolicy.DELETE not in partition_log.config.cleanup:
            log.warning(
                "[LogCleaner] Resetting first dirty offset of %s to log start offset %d since the checkpointed offset "
                "%d is invalid.", partition_log.partition, start, checkpoint,
            )  # fmt: skip
        return start, True
    if checkpoint > partition_log.log_end_offset:
        log.warning(
            "[LogCleaner] The last checkpoint dirty offset for partition %s is %d, which is larger than the log end "
            "offset %d. Resetting to the log start offset %d.",
            partition_log.partition, checkpoint, partition_log.log_end_offset, start,
        )  # fmt: skip
        return start, True
    return checkpoint, False


def _uncleanable_bound(partition_log: Log, first_dirty: int, now_ms: int) -> int:
    """The first offset that must not be cleaned yet."""
    bound = min(partition_log.last_stable_offset, partition_log.segments.active.base_offset)
    lag_ms = partition_log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _inactive_from(partition_log, first_dirty):
            if segment.largest_timestamp > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def _segment_start(partition_log: Log, offset: int) -> int:
    """The start of the segment that holds `offset`: a segment is cleaned as a whole or not at all."""
    inactive = _inactive_from(partition_log, offset)
    return (inactive[0] if inactive else partition_log.segments.active).base_offset


def _compaction_delay_ms(partition_log: Log, first_dirty: int, now_ms: int) -> int:
    clean_until_ms = now_ms - partition_log.config.max_compaction_lag_ms
    if clean_until_ms <= 0:
        return 0  # no timestamp is that old, so no file has to be opened to find one
    timestamps = [segment.first_batch_timestamp or 0 for segment in _inactive_from(partition_log, first_dirty)]
    oldest = min((timestamp for timestamp in timestamps if timestamp > 0), default=clean_until_ms)
    return max(0, clean_until_ms - oldest)


def _inactive_from(partition_log: Log, offset: int) -> list[Segment]:
    """The segments from the one that holds `offset` on, without the active one."""
    active = partition_log.segments.active
    return partition_log.segments.covering(offset, active.base_offset) if offset < active.base_offset else []

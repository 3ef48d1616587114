"""Retention: which of a log's oldest segments may go, by the log's start, by size and by age.

Promises: nothing at or above the high watermark goes; segments go from the oldest on, without holes; the last one is
only replaced by an empty one. Called on schedule by `log_manager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.config import CleanupPolicy
from ottla.storage.log import Log
from ottla.storage.segment import Segment

log = logging.getLogger(__name__)

# Whether a segment may go, given the one behind it (None for the active segment).
Condition = Callable[[Segment, Segment | None], bool]


def delete_old_segments(partition_log: Log, now_ms: int) -> int:
    """Delete what the topic's policy no longer keeps; returns how many segments went."""
    count = _delete_below_log_start(partition_log)
    if CleanupPolicy.DELETE in partition_log.config.cleanup:
        count += _delete_beyond_size(partition_log)
        count += _delete_beyond_age(partition_log, now_ms)
    return count


def deletable_segments(partition_log: Log, may_go: Condition) -> list[Segment]:
    """The longest run of segments from the oldest on that all may go."""
    segments = list(partition_log.segments)
    deletable = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end_offset = partition_log.log_end_offset if following is None else following.base_offset
        is_empty_active = following is None and segment.size == 0
        if is_empty_active or partition_log.high_watermark < end_offset or not may_go(segment, following):
            break
        deletable.append(segment)
    return deletable


def _delete_below_log_start(partition_log: Log) -> int:
    def may_go(_: Segment, following: Segment | None) -> bool:
        return following is not None and following.base_offset <= partition_log.log_start_offset

    reason = f"log start offset {partition_log.log_start_offset} breach"
    return partition_log.delete_segments(deletable_segments(partition_log, may_go), reason)


def _delete_beyond_size(partition_log: Log) -> int:
    retention_bytes = partition_log.config.retention_bytes
    excess = partition_log.size - retention_bytes
    if retention_bytes < 0 or excess < 0:
        return 0

    def may_go(segment: Segment, _: Segment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    reason = f"log retention size {retention_bytes} breach"
    return partition_log.delete_segments(deletable_segments(partition_log, may_go), reason)


def _delete_beyond_age(partition_log: Log, now_ms: int) -> int:
    retention_ms = partition_log.config.retention_ms
    if retention_ms < 0:
        return 0

    def may_go(segment: Segment, _: Segment | None) -> bool:
        if now_ms < segment.largest_timestamp:
            log.warning(
                "[Log %s] %s contains future timestamps, making it ineligible to be deleted",
                partition_log.partition, segment,
            )  # fmt: skip
        return now_ms - segment.largest_timestamp > retention_ms

    reason = f"log retention time {retention_ms}ms breach"
    return partition_log.delete_segments(deletable_segments(partition_log, may_go), reason)

"""What is dirty and how far a run may go. The comparison with Kafka (`test_cleaner_kafka`) has the odd cases."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.storage.cleanable import CleanableLog, measure
from tests.support.logs import TestLog, new_world

HOUR_MS = 3_600_000


class Aged:
    """Three closed segments of one record each, an hour apart, and an active one."""

    def __init__(self, **settings: Any) -> None:
        self.world = new_world()
        self.test = TestLog(self.world, cleanup_policy="compact", **settings)
        self.start_ms = self.world.clock.now_ms()
        for place in range(4):
            self.test.append(b"%d" % place, key=b"key", timestamp=self.world.clock.now_ms())
            if place < 3:
                self.test.log.roll()
                self.world.clock.advance(HOUR_MS)
        self.segment_size = self.test.log.segments.first.size

    def measure(self, checkpoint: int | None = None, *, now_ms: int | None = None) -> CleanableLog:
        return measure(self.test.log, checkpoint, self.world.clock.now_ms() if now_ms is None else now_ms)


def test_a_log_that_was_never_cleaned_is_dirty_up_to_its_active_segment() -> None:
    log = Aged()
    found = log.measure()
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 3)
    assert (found.clean_bytes, found.cleanable_bytes, found.ratio) == (0, 3 * log.segment_size, 1.0)
    assert found.is_due


def test_what_lies_below_the_checkpoint_is_clean() -> None:
    log = Aged()
    found = log.measure(2)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (2, 3)
    assert (found.clean_bytes, found.cleanable_bytes) == (2 * log.segment_size, log.segment_size)
    assert found.ratio == pytest.approx(1 / 3)
    assert not found.is_due


def test_a_log_without_closed_segments_has_nothing_to_clean() -> None:
    test = TestLog(new_world(), cleanup_policy="compact")
    test.append(b"1", key=b"a")
    found = measure(test.log, None, test.world.clock.now_ms())
    assert (found.total_bytes, found.ratio, found.is_due) == (0, 0.0, False)


def test_min_compaction_lag_keeps_young_segments_and_all_behind_them() -> None:
    log = Aged(min_compaction_lag_ms=90 * 60_000)
    assert log.measure().first_uncleanable_offset == 2
    assert log.measure(now_ms=log.start_ms + HOUR_MS).first_uncleanable_offset == 0
    assert log.measure(now_ms=log.start_ms + 10 * HOUR_MS).first_uncleanable_offset == 3


def test_max_compaction_lag_counts_from_the_oldest_dirty_segments_first_batch() -> None:
    log = Aged(max_compaction_lag_ms=2 * HOUR_MS)
    assert log.measure().compaction_delay_ms == HOUR_MS
    assert log.measure(1).compaction_delay_ms == 0
    late = log.measure(1, now_ms=log.start_ms + 3 * HOUR_MS + 5)
    assert late.compaction_delay_ms == 5
    assert late.is_due


def test_the_high_watermark_bounds_what_may_be_cleaned() -> None:
    log = Aged()
    log.test.log.update_high_watermark(2)
    assert log.measure().first_uncleanable_offset == 2
    log.test.log.update_high_watermark(0)
    assert log.measure().cleanable_bytes == 0


def test_the_share_that_makes_a_log_due_is_the_topics() -> None:
    log = Aged(min_cleanable_dirty_ratio=0.34)
    assert not log.measure(2).is_due
    log.test.log.update_config(log.test.log.config.with_topic({"min.cleanable.dirty.ratio": "0.33"}))
    assert log.measure(2).is_due

"""A limit on bytes a second, told by the time to wait."""

from __future__ import annotations

import random

from ottla.config.cleaner import RATE_MAX
from ottla.storage.throttle import Throttle


def test_what_was_done_is_waited_for() -> None:
    throttle = Throttle()
    assert throttle.observe(500, 1000.0, now_ms=10_000) == 500
    assert throttle.observe(500, 1000.0, now_ms=10_100) == 900


def test_idle_time_is_not_saved_up() -> None:
    throttle = Throttle()
    throttle.observe(1000, 1000.0, now_ms=0)
    assert throttle.observe(1000, 1000.0, now_ms=60_000) == 1000


def test_without_a_limit_there_is_no_wait() -> None:
    assert Throttle().observe(1 << 40, RATE_MAX, now_ms=5) == 0


def test_a_rate_of_nothing_is_a_very_long_wait_and_no_error() -> None:
    assert Throttle().observe(100, 0.0, now_ms=0) == 100_000


def test_over_any_stretch_of_work_the_rate_is_kept() -> None:
    chance = random.Random(3)
    throttle = Throttle()
    now_ms = done = 0
    for _ in range(500):
        size = chance.randrange(5000)
        done += size
        now_ms += chance.randrange(4)  # the work itself
        now_ms += throttle.observe(size, 10_000.0, now_ms)
        assert done <= (now_ms + 1) * 10

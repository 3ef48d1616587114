"""`ottla/sim/clock.py`."""

from __future__ import annotations

import pytest

from ottla.sim import VirtualClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock(1_000)
    assert [clock.now_ms() for _ in range(3)] == [1_000] * 3
    started = clock.monotonic_ms()
    clock.advance(250)
    assert clock.now_ms() == 1_250
    assert clock.monotonic_ms() - started == 250


def test_only_the_wall_clock_can_be_turned_back() -> None:
    clock = VirtualClock(1_000)
    clock.advance(10)
    clock.set_now_ms(5)
    assert clock.now_ms() == 5
    assert clock.monotonic_ms() == 10
    with pytest.raises(AssertionError):
        clock.advance(-1)

"""`ottla/sim/clock.py`."""

from __future__ import annotations

from random import Random

import pytest

from ottla.sim import VirtualClock, VirtualLoop, virtual_node_world


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


def test_a_clock_that_follows_a_loop_shows_its_whole_milliseconds() -> None:
    loop = VirtualLoop()
    loop.now_us = 1_999
    clock = VirtualClock(1_000)
    loop.attach(clock)
    loop.now_us = 2_000
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_001, 1)
    clock.set_now_ms(50)
    loop.now_us = 7_999
    assert (clock.now_ms(), clock.monotonic_ms()) == (55, 6)


def test_a_jump_moves_the_wall_clock_and_not_the_other() -> None:
    loop = VirtualLoop()
    clock = VirtualClock(1_000_000)
    loop.attach(clock)
    loop.now_us = 10_000
    clock.jump_ms(-5_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (995_010, 10)
    clock.jump_ms(10_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_005_010, 10)


@pytest.mark.parametrize(("drift_ppm", "shown_ms"), [(500, 1_000_500), (-500, 999_500), (250_000, 1_250_000)])
def test_a_clock_that_drifts_is_fast_or_slow_by_its_rate(drift_ppm: int, shown_ms: int) -> None:
    loop = VirtualLoop()
    clock = VirtualClock(0)
    loop.attach(clock)
    clock.set_drift_ppm(drift_ppm)
    loop.now_us = 1_000_000_000
    assert clock.monotonic_ms() == clock.now_ms() == shown_ms
    assert clock.true_us(shown_ms) == 1_000_000_000


def test_monotonic_time_never_goes_back_whatever_is_done_to_the_clock() -> None:
    chance = Random(7)
    loop = VirtualLoop()
    clock = VirtualClock()
    loop.attach(clock)
    before = 0
    for _ in range(2_000):
        loop.now_us += chance.randrange(3_000)
        match chance.randrange(4):
            case 0:
                clock.set_drift_ppm(chance.randrange(-200_000, 200_000))
            case 1:
                clock.jump_ms(chance.randrange(-100_000, 100_000))
            case 2:
                clock.set_now_ms(chance.randrange(1_000_000))
        assert clock.monotonic_ms() >= before
        before = clock.monotonic_ms()
    assert before > 1_000


def test_timers_of_a_host_go_by_its_own_clock() -> None:
    world = virtual_node_world(1)
    fast: list[int] = []
    world.clock.set_drift_ppm(100_000)

    async def sleep() -> None:
        await world.tasks.sleep_ms(1_100)
        fast.append(world.loop.now_us)

    world.tasks.later(1_100, lambda: fast.append(world.loop.now_us))
    world.tasks.spawn(sleep(), "sleep")
    world.loop.run_until(lambda: len(fast) == 2)
    assert fast == [1_000_000, 1_000_000]
    assert world.clock.monotonic_ms() == 1_100

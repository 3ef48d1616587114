"""Time that can be moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.testing.moving import MovingClock, MovingTasks
from ottla.world.threads import running_world


def with_time(test: Callable[[MovingClock, MovingTasks], Awaitable[None]]) -> None:
    async def main() -> None:
        world = running_world()
        clock = MovingClock(world.clock)
        await test(clock, MovingTasks(world.tasks, clock))

    asyncio.run(main())


def test_both_clocks_move_and_stay_moved() -> None:
    async def test(clock: MovingClock, tasks: MovingTasks) -> None:
        wall_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
        tasks.move(86_400_000)
        assert 86_400_000 <= clock.now_ms() - wall_ms < 86_410_000
        assert 86_400_000 <= clock.monotonic_ms() - monotonic_ms < 86_410_000

    with_time(test)


def test_what_has_become_due_is_called_in_the_order_of_its_time() -> None:
    async def test(clock: MovingClock, tasks: MovingTasks) -> None:
        rung: list[str] = []
        start_ms = clock.monotonic_ms()
        for name, delay_ms in (("third", 3000.0), ("first", 1000.0), ("second", 2000.0), ("much later", 9000.0)):
            tasks.later(delay_ms, lambda name=name: rung.append(name))  # type: ignore[misc]
        tasks.move(5000)
        assert rung == [], "not from inside the call"
        await asyncio.sleep(0)
        assert rung == ["first", "second", "third"]
        assert clock.monotonic_ms() - start_ms >= 5000
        tasks.move(5000)
        await asyncio.sleep(0)
        assert rung[-1] == "much later"

    with_time(test)


def test_a_timer_that_was_not_reached_still_rings_at_its_time() -> None:
    async def test(clock: MovingClock, tasks: MovingTasks) -> None:
        rung = asyncio.Event()
        tasks.later(1030.0, rung.set)
        tasks.move(1000)
        await asyncio.sleep(0)
        assert not rung.is_set()
        await asyncio.wait_for(rung.wait(), 5)

    with_time(test)


def test_a_cancelled_timer_does_not_ring_not_even_when_it_was_due_already() -> None:
    async def test(clock: MovingClock, tasks: MovingTasks) -> None:
        rung: list[str] = []
        first = tasks.later(120_000.0, lambda: rung.append("first"))
        tasks.later(60_000.0, first.cancel)
        last = tasks.later(3_600_000.0, lambda: rung.append("last"))
        last.cancel()
        last.cancel()
        tasks.move(600_000)
        await asyncio.sleep(0)
        assert rung == []
        assert not tasks._timers

    with_time(test)


def test_who_sleeps_wakes_when_time_has_moved() -> None:
    async def test(clock: MovingClock, tasks: MovingTasks) -> None:
        sleeper = tasks.spawn(_sleep(tasks), "sleeper")
        await asyncio.sleep(0.01)
        tasks.move(3_600_000)
        await asyncio.wait_for(sleeper, 5)
        cancelled = tasks.spawn(_sleep(tasks), "cancelled")
        await asyncio.sleep(0.01)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert not tasks._timers, "a sleep that ended leaves no timer"

    with_time(test)


async def _sleep(tasks: MovingTasks) -> None:
    await tasks.sleep_ms(0)
    await tasks.sleep_ms(3_600_000)

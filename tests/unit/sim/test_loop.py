"""The virtual loop: time moves by itself, order is fixed, a life can be ended between two calls, nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable
from contextvars import Context
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from ottla.sim import (
    Deadlock,
    Life,
    Runaway,
    SimulatedCrash,
    VirtualClock,
    VirtualDisk,
    VirtualLoop,
    VirtualTasks,
    run_virtual,
    virtual_node_world,
)
from ottla.world import NodeWorld

T = TypeVar("T")


def run(loop: VirtualLoop, work: Awaitable[T]) -> T:
    return loop.run_until_complete(work)


def test_an_hour_passes_at_once_and_every_clock_shows_it() -> None:
    loop = VirtualLoop()
    clocks = [VirtualClock(), VirtualClock()]
    for clock in clocks:
        loop.attach(clock)
    clocks[1].set_now_ms(5)
    begun = clocks[0].now_ms()

    async def main() -> float:
        await asyncio.sleep(3600)
        return loop.time()

    assert run(loop, main()) == 3600.0
    assert clocks[0].now_ms() - begun == 3_600_000
    assert clocks[1].now_ms() == 3_600_005
    assert [clock.monotonic_ms() for clock in clocks] == [3_600_000, 3_600_000]


def test_asyncios_own_tools_run_on_virtual_time() -> None:
    loop = VirtualLoop()

    async def work(delay: float) -> float:
        await asyncio.sleep(delay)
        return loop.time()

    async def main() -> None:
        assert list(await asyncio.gather(work(2), work(1))) == [2.0, 1.0]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 5)
        assert loop.time() == 7.0
        queue: asyncio.Queue[int] = asyncio.Queue()
        task = asyncio.create_task(queue.get())
        await queue.put(3)
        assert await task == 3

    run(loop, main())


def test_calls_of_one_instant_run_in_the_order_they_were_asked_for() -> None:
    loop = VirtualLoop()
    done: list[int] = []
    for number in range(50):
        loop.call_later(0.001 * (number % 3), done.append, number)
    loop.call_later(1, done.append, -1)
    loop.run_until(lambda: -1 in done)
    assert done == [*range(0, 50, 3), *range(1, 50, 3), *range(2, 50, 3), -1]


def test_waiting_for_what_can_never_happen_is_a_deadlock() -> None:
    loop = VirtualLoop()
    with pytest.raises(Deadlock, match="nothing is left to run"):
        run(loop, loop.create_future())
    loop.close()


def test_a_call_that_keeps_itself_busy_is_a_runaway() -> None:
    loop = VirtualLoop(instant_steps_max=1000)

    def again() -> None:
        loop.call_soon(again)

    again()
    with pytest.raises(Runaway, match="without time passing"):
        run(loop, loop.create_future())
    loop.close()


def test_a_run_that_never_ends_is_a_runaway() -> None:
    loop = VirtualLoop(steps_max=1000)

    async def for_ever() -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(Runaway, match="does not come to an end"):
        run(loop, for_ever())
    loop.close()


def test_nothing_of_an_ended_life_runs_any_more() -> None:
    loop = VirtualLoop()
    life = Life("node")
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
    done: list[str] = []

    async def work() -> None:
        done.append("begun")
        try:
            await tasks.sleep_ms(100)
            done.append("never")
        finally:
            done.append("finally")

    tasks.spawn(work(), "work")
    tasks.later(60, lambda: done.append("never"))
    tasks.later(10, lambda: tasks.soon(lambda: done.append("soon")))
    tasks.in_thread(lambda: done.append("thread"))
    loop.call_later(0.05, life.end, context=Context())
    loop.call_later(1, done.append, "end", context=Context())
    loop.run_until(lambda: "end" in done)
    assert done == ["begun", "thread", "soon", "finally", "end"]
    with pytest.raises(SimulatedCrash):
        tasks.spawn(asyncio.sleep(1), "too late")
    loop.close()


def test_a_life_ends_without_a_word_about_what_its_tasks_had_not_begun(recwarn: pytest.WarningsRecorder) -> None:
    loop = VirtualLoop()
    life = Life("node")
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())

    async def answer() -> None: ...

    async def wait(answered: Awaitable[None]) -> None:
        await answered

    tasks.spawn(wait(answer()), "wait")
    life.end()
    assert not [str(one.message) for one in recwarn]


def test_what_failed_in_an_ended_life_before_anybody_was_told_is_no_error_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Seed 759 of three combined nodes: a broker was killed between a heartbeat's refusal and its response."""
    gc.collect()  # what earlier tests have left has its word now
    caplog.clear()
    loop = VirtualLoop()
    lives = {name: Life(name) for name in ("killed", "alive")}
    told: list[str] = []

    def fail(tasks: VirtualTasks) -> None:
        promise = tasks.promise()
        promise.add_done_callback(lambda done: told.append(str(done.exception())))
        promise.set_exception(ValueError("refused"))

    for life in lives.values():
        tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
        tasks.soon(partial(fail, tasks))
    loop.call_soon(lives["killed"].end, context=Context())
    loop.call_later(1, lambda: None, context=Context())
    loop.run_until(lambda: loop.now_us >= 1_000_000)
    gc.collect()
    assert told == ["refused"]
    assert not caplog.records
    loop.close()


def test_a_life_ends_when_its_disk_says_so_even_if_the_node_swallows_it() -> None:
    loop = VirtualLoop()
    disk = VirtualDisk(Random(1), VirtualClock())
    ended: list[str] = []

    def on_crash() -> None:
        ended.append("crashed")
        life.end()

    life = Life("node", disk, on_crash)
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
    disk.crash_at(3)

    async def work() -> None:
        while True:
            await tasks.sleep_ms(1)
            try:
                disk.make_dirs("/logs")
            except SimulatedCrash:
                ended.append("swallowed")

    tasks.spawn(work(), "work")
    loop.call_later(1, ended.append, "end", context=Context())
    loop.run_until(lambda: "end" in ended)
    assert ended == ["swallowed", "crashed", "end"]
    loop.close()


def test_a_crash_in_a_thread_ends_the_life() -> None:
    world = virtual_node_world(1)
    world.disk.crash_at(1)
    world.tasks.spawn(wait_for_disk(world), "work")
    world.loop.run_until(lambda: world.life.is_over)
    world.loop.close()


async def wait_for_disk(world: NodeWorld) -> None:
    await world.tasks.in_thread(lambda: world.disk.make_dirs("/logs"))


def test_a_call_that_raises_is_an_error_line_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("a mistake")

    async def main(world: NodeWorld) -> str:
        world.tasks.soon(fail)
        await world.tasks.sleep_ms(1)
        return "went on"

    gc.collect()  # loops that other tests left say what they have to say before
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        assert run_virtual(virtual_node_world(1), main) == "went on"
    assert [record.getMessage() for record in caplog.records] == ["[Loop] A call of node failed"]


def test_threads_take_time_that_the_seed_decides() -> None:
    def times(seed: int) -> list[int]:
        world = virtual_node_world(seed)
        done: list[int] = []

        async def main(world: NodeWorld) -> None:
            for _ in range(20):
                await world.tasks.in_thread(lambda: None)
                done.append(world.clock.monotonic_ms())

        run_virtual(world, main)
        return done

    assert times(1) == times(1)
    assert times(1) != times(2)
    assert times(1)[-1] > 10

"""A loop on a thread of its own: what callers that block stand on."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from ottla.world.threads import LoopClosed, LoopThread, running_world


def test_work_runs_on_the_loops_thread_and_its_result_comes_back() -> None:
    thread = LoopThread("test")
    try:

        async def work() -> str:
            await asyncio.sleep(0)
            return threading.current_thread().name

        assert thread.run(work()) == "test"
        assert thread.call(lambda: threading.current_thread().name) == "test"
        assert not thread.is_own_thread
        assert thread.call(lambda: thread.is_own_thread)
    finally:
        thread.close()


def test_what_the_work_raises_is_raised_by_the_caller() -> None:
    thread = LoopThread("test")
    try:

        async def fail() -> None:
            raise KeyError("lost")

        with pytest.raises(KeyError, match="lost"):
            thread.run(fail())
        with pytest.raises(ZeroDivisionError):
            thread.call(lambda: 1 // 0)

        async def time_out() -> None:
            raise TimeoutError("its own")

        with pytest.raises(TimeoutError, match="its own"):
            thread.run(time_out(), timeout_s=5)
    finally:
        thread.close()


def test_work_that_takes_too_long_is_cancelled() -> None:
    thread = LoopThread("test")
    cancelled = threading.Event()
    try:

        async def wait() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        with pytest.raises(TimeoutError, match=r"not done within 0\.05 s"):
            thread.run(wait(), timeout_s=0.05)
        assert cancelled.wait(5)
    finally:
        thread.close()


def test_closing_fails_whoever_waits_and_ends_the_thread() -> None:
    thread = LoopThread("test")
    errors: list[BaseException] = []

    async def wait() -> None:
        await asyncio.sleep(60)

    def wait_for_it() -> None:
        try:
            thread.run(wait())
        except LoopClosed as error:
            errors.append(error)

    waiter = threading.Thread(target=wait_for_it)
    waiter.start()
    time.sleep(0.05)
    thread.close()
    waiter.join(5)
    assert len(errors) == 1
    thread.close()  # a second time does nothing
    with pytest.raises(LoopClosed, match="the client is closed"):
        thread.call(lambda: 1)
    late = wait()
    with pytest.raises(LoopClosed, match="the client is closed"):
        thread.run(late)
    thread.post(lambda: pytest.fail("nothing runs any more"))


def test_a_thousand_loops_leave_no_thread_and_no_descriptor_behind() -> None:
    import os

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    LoopThread("warm").close()
    gc.collect()
    threads, open_before = threading.active_count(), descriptors()
    for _ in range(1000):
        LoopThread("test").close()
    gc.collect()
    assert threading.active_count() == threads
    assert descriptors() == open_before


def test_the_world_of_a_running_loop_is_that_loops() -> None:
    async def main() -> float:
        world = running_world()
        promise = world.tasks.promise()
        world.tasks.later(5, lambda: promise.set_result(world.clock.monotonic_ms()))
        started = world.clock.monotonic_ms()
        ended: float = await promise
        return ended - started

    assert asyncio.run(main()) >= 4
    with pytest.raises(RuntimeError):
        running_world()

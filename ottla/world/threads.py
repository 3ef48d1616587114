"""Clients and threads: an event loop on a thread of its own, for callers that block, and the world of a running loop.

`LoopThread` is what stands behind every synchronous face: its client lives on the loop's thread and is only touched
there; the caller's threads hand work over and wait. Promises: `run` and `call` raise what the work raises, and after
`timeout_s` a `TimeoutError` while the work is cancelled (a waiting main thread takes Ctrl-C at once); after `close` the
thread is gone, and whatever was waiting has failed. A daemon thread: a forgotten client does not keep the process up.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from ottla.world.system import SystemClock
from ottla.world.system_loop import SystemNetwork, SystemTasks, new_loop
from ottla.world.world import ClientWorld

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0


class LoopClosed(RuntimeError):
    """The client is closed, or its loop has ended under it."""


def running_world() -> ClientWorld:
    """The world of the asyncio loop that runs now; `RuntimeError` where none does. A virtual loop has its own."""
    loop = asyncio.get_running_loop()
    virtual: Callable[[], ClientWorld] | None = getattr(loop, "running_world", None)
    return _world_of(loop) if virtual is None else virtual()


def _world_of(loop: asyncio.AbstractEventLoop) -> ClientWorld:
    return ClientWorld(SystemClock(), random.SystemRandom(), SystemTasks(loop), SystemNetwork(loop))


class LoopThread:
    """A loop that runs on a thread of its own, from construction to `close`."""

    def __init__(self, name: str) -> None:
        if hasattr(asyncio._get_running_loop(), "running_world"):
            raise RuntimeError("virtual time has no threads, so what blocks cannot run on it: use the Async clients")
        self._loop = new_loop()
        self.world = _world_of(self._loop)
        self._is_closed = False
        self._waiting: set[Future[Any]] = set()
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on the loop's thread, where waiting for the loop would wait for ever."""
        return threading.get_ident() == self._thread.ident

    def post(self, call: Callable[[], object]) -> None:
        """Call it soon on the loop's thread; nobody waits for it. Once closed this does nothing."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            if not self._is_closed:
                raise

    def call(self, work: Callable[[], T], timeout_s: float | None = None) -> T:
        """What `work` returns on the loop's thread."""
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001  it is the caller's
                done.set_exception(error)

        return self._wait(done, run, timeout_s, lambda: None)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """What the coroutine returns, run on the loop."""
        done: Future[T] = Future()
        task: asyncio.Task[T] | None = None

        def finished(of: asyncio.Task[T]) -> None:
            if done.done():
                return
            if of.cancelled():
                done.set_exception(LoopClosed("the client was closed meanwhile"))
                return
            error = of.exception()
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(of.result())

        def run() -> None:
            nonlocal task
            if done.done():  # the caller does not wait any more
                work.close()
                return
            task = self._loop.create_task(work)
            task.add_done_callback(finished)

        def give_up() -> None:
            if task is not None:
                task.cancel()

        try:
            return self._wait(done, run, timeout_s, give_up)
        except LoopClosed:
            if task is None:
                work.close()
            raise

    def _wait(
        self, done: Future[T], run: Callable[[], None], timeout_s: float | None, give_up: Callable[[], None]
    ) -> T:
        assert not self.is_own_thread, "a callback on the client's own thread must not wait for the client"
        with self._guard:
            if self._is_closed:
                raise LoopClosed("the client is closed")
            self._waiting.add(done)
        try:
            self._loop.call_soon_threadsafe(run)
            return done.result(timeout_s)
        except FutureTimeout:
            if done.done():
                raise  # the work itself timed out
            done.cancel()
            self.post(give_up)
            raise TimeoutError(f"not done within {timeout_s:g} s") from None
        except KeyboardInterrupt:
            done.cancel()
            self.post(give_up)
            raise
        finally:
            self._waiting.discard(done)

    def close(self) -> None:
        """Cancel what still runs and end the thread. A second call does nothing."""
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        if not self.is_own_thread:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            try:
                tasks = asyncio.all_tasks(self._loop)
                for task in tasks:
                    task.cancel()
                if tasks:
                    self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
            finally:
                asyncio.set_event_loop(None)
                self._loop.close()
                for done in list(self._waiting):
                    if not done.done():
                        done.set_exception(LoopClosed("the client was closed meanwhile"))

"""Time that can be moved: a clock that runs ahead, and timers that know it.

Promises: time never goes back; a timer whose time has come by a move is called soon, in the order of their times, and
sees the clock at or after its own. What really blocks (device syncs, the network) takes the time it takes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from ottla.world import Clock, Promise, Task, Tasks, Timer

T = TypeVar("T")


class MovingClock:
    """Another clock, some time ahead of it."""

    def __init__(self, real: Clock, ahead_ms: int = 0) -> None:
        self._real = real
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return self._real.now_ms() + self.ahead_ms

    def monotonic_ms(self) -> int:
        return self._real.monotonic_ms() + self.ahead_ms


class MovingTasks:
    """Other tasks, whose timers follow the clock."""

    def __init__(self, tasks: Tasks, clock: MovingClock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._timers: dict[_MovingTimer, None] = {}
        self.soon = tasks.soon
        self.promise = tasks.promise

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        return self._tasks.spawn(work, name)

    def in_thread(self, work: Callable[[], T], *, at_once: bool = False) -> Awaitable[T]:
        return self._tasks.in_thread(work, at_once=at_once)

    def later(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        timer = _MovingTimer(self._timers, self._clock.monotonic_ms() + delay_ms, call)
        timer.real = self._tasks.later(delay_ms, timer.ring)
        self._timers[timer] = None
        return timer

    def sleep_ms(self, delay_ms: float) -> Awaitable[None]:
        if delay_ms <= 0:
            return self._tasks.sleep_ms(delay_ms)
        return self._sleep(delay_ms)

    async def _sleep(self, delay_ms: float) -> None:
        done: Promise[None] = self._tasks.promise()
        timer = self.later(delay_ms, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    def move(self, by_ms: int) -> None:
        """Let that much time pass at once."""
        assert by_ms >= 0, "time does not go back"
        self._clock.ahead_ms += by_ms
        now_ms = self._clock.monotonic_ms()
        for timer in sorted(self._timers, key=lambda timer: timer.due_ms):
            assert timer.real is not None, "a timer in the table is set"
            timer.real.cancel()
            timer.real = None
            if timer.due_ms <= now_ms:
                self._tasks.soon(timer.ring)
            else:
                timer.real = self._tasks.later(timer.due_ms - now_ms, timer.ring)


class _MovingTimer:
    __slots__ = ("_call", "_table", "due_ms", "real")

    def __init__(self, table: dict[_MovingTimer, None], due_ms: float, call: Callable[[], object]) -> None:
        self._table = table
        self._call = call
        self.due_ms = due_ms
        self.real: Timer | None = None

    def ring(self) -> None:
        if self in self._table:  # not cancelled since it was put in the queue
            del self._table[self]
            self._call()

    def cancel(self) -> None:
        if self in self._table:
            del self._table[self]
            if self.real is not None:
                self.real.cancel()

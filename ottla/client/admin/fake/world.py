"""A world in which nothing takes time: what is waited for is there at once, and a sleep only moves the clock.

So a `FakeAdmin` needs no loop and no thread, a call that runs into its time-out does so at once, and everything happens
in the same order each time. Promises: `run` carries a coroutine to its end without ever suspending it; a coroutine that
waits for something that will never come is a fault and said to be one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from ottla.world import ClientWorld, Promise, Task, Timer

T = TypeVar("T")


def fake_world() -> ClientWorld:
    """A world of its own, at the beginning of its time."""
    clock = FakeClock()
    no_network: Any = None
    steady: Any = SteadyRandom()
    return ClientWorld(clock, steady, FakeTasks(clock), no_network)


def run(work: Awaitable[T]) -> T:
    """What the awaitable gives, at once."""
    step = work.__await__()
    try:
        step.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError(f"{work} waits, and in this world there is nothing to wait for")


class FakeClock:
    """Time that passes only in sleeps."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


class SteadyRandom:
    """Always the middle, and always the first."""

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def randrange(self, stop: int) -> int:
        return 0

    def randbytes(self, count: int) -> bytes:
        return bytes(range(count))


class FakeTasks:
    """Tasks that are over when `spawn` returns."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def soon(self, call: Callable[[], object]) -> None:
        call()

    def later(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        return _NeverDue()  # only time-outs are set here, and nothing is ever late

    def promise(self) -> Promise[Any]:
        return _FakePromise()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        run(work)
        return _Done()

    async def sleep_ms(self, delay_ms: float) -> None:
        self._clock.ms += max(1, round(delay_ms))

    async def in_thread(self, work: Callable[[], T], *, at_once: bool = False) -> T:
        return work()


class _NeverDue:
    def cancel(self) -> None:
        pass


class _Done:
    def cancel(self) -> bool:
        return False

    def done(self) -> bool:
        return True

    def __await__(self) -> Any:
        yield from ()


class _FakePromise:
    def __init__(self) -> None:
        self._is_done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._told: list[Callable[[Any], object]] = []

    def set_result(self, value: Any, /) -> None:
        self._value = value
        self._settle()

    def set_exception(self, error: BaseException, /) -> None:
        self._error = error
        self._settle()

    def _settle(self) -> None:
        assert not self._is_done, "a promise is kept once"
        self._is_done = True
        for call in self._told:
            call(self)

    def done(self) -> bool:
        return self._is_done

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        if self._is_done:
            call(self)
        else:
            self._told.append(call)

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self._is_done:
            yield self  # `run` says that this is a fault
        return self.result()

"""Waiting, with a limit: what asyncio's `wait_for` does, on a `World`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ottla.client.errors import KafkaTimeout
from ottla.world import ClientWorld, Promise

T = TypeVar("T")


async def within(world: ClientWorld, waited_for: Promise[T], timeout_ms: float | None, what: str) -> T:
    """The promise's value, or `KafkaTimeout` saying `what` after `timeout_ms`; the promise stays as it is then.

    Who is cancelled meanwhile stops waiting, and the promise is not cancelled with it: others may wait for it too.
    """
    if waited_for.done():
        return waited_for.result()
    told: Promise[bool] = world.tasks.promise()

    def settle(_: Any) -> None:
        if not told.done():
            told.set_result(True)

    def time_out() -> None:
        if not told.done():
            told.set_result(False)

    waited_for.add_done_callback(settle)
    timer = None if timeout_ms is None else world.tasks.later(max(timeout_ms, 0), time_out)
    try:
        is_there = await told
    except BaseException:
        _forget(waited_for)
        raise
    finally:
        if timer is not None:
            timer.cancel()
    if not is_there:
        _forget(waited_for)
        raise KafkaTimeout(f"{what} took longer than {timeout_ms:.0f} ms")
    return waited_for.result()


def _forget(promise: Promise[Any]) -> None:
    """Nobody looks at this promise any more: should it fail, that is no news."""

    def look(done: Any) -> None:
        if not done.cancelled():
            done.exception()

    promise.add_done_callback(look)


class Deadline:
    """A point in time by which something must be done; None for a time-out that never comes."""

    __slots__ = ("_at_ms", "_now_ms", "timeout_ms")

    def __init__(self, world: ClientWorld, timeout_ms: float | None) -> None:
        self._now_ms: Callable[[], int] = world.clock.monotonic_ms
        self.timeout_ms = timeout_ms
        self._at_ms = None if timeout_ms is None else self._now_ms() + timeout_ms

    @property
    def left_ms(self) -> float | None:
        """What is left of it, never below 0; None when there is no limit."""
        return None if self._at_ms is None else max(0.0, self._at_ms - self._now_ms())

    @property
    def has_passed(self) -> bool:
        return self._at_ms is not None and self._now_ms() >= self._at_ms

    def at_most(self, timeout_ms: float) -> float:
        """`timeout_ms`, or what is left if that is less."""
        left = self.left_ms
        return timeout_ms if left is None else min(left, timeout_ms)

"""What runs when: callbacks, timers, coroutines, and the few things that must block, in threads.

One thread runs everything a node does; only `in_thread` leaves it, for device syncs and other calls that block.
The order is deterministic in simulation: same seed, same interleaving.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Timer(Protocol):
    """A call that waits for its time."""

    def cancel(self) -> None:
        """Not to be called any more; after its call this does nothing."""
        ...


class Task(Protocol[T_co]):
    """A coroutine that runs by itself."""

    def cancel(self) -> bool: ...

    def done(self) -> bool: ...

    def __await__(self) -> Any: ...


class Promise(Protocol[T]):
    """A value that will come, for coroutines to await and for callbacks to be told of."""

    def set_result(self, value: T, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def done(self) -> bool: ...

    def result(self) -> T: ...

    def add_done_callback(self, call: Callable[[Any], object], /) -> None: ...

    def __await__(self) -> Any: ...


class Tasks(Protocol):
    def soon(self, call: Callable[[], object]) -> None:
        """Call after what runs now has returned."""
        ...

    def later(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        """Call once, when the time has passed."""
        ...

    def promise(self) -> Promise[Any]:
        """A new, open promise."""
        ...

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        """Run a coroutine by itself. One that raises is logged as an ERROR with its name: somebody must act."""
        ...

    def sleep_ms(self, delay_ms: float) -> Awaitable[None]: ...

    def in_thread(self, work: Callable[[], T], *, at_once: bool = False) -> Awaitable[T]:
        """Run a call that blocks somewhere else; its result or its exception comes back here.

        The threads for that are few, and a call may have to wait for one; `at_once` begins a thread for it, which costs
        a tenth of a millisecond: for what must not queue behind others' work.
        """
        ...

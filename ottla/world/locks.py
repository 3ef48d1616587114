"""Locks, for the few places where a caller's threads meet the thread of a client's loop."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Mutex(AbstractContextManager[Any], Protocol):
    """What is asked of a lock."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...

    def release(self) -> None: ...


def new_mutex() -> Mutex:
    """A lock that nobody holds."""
    return threading.Lock()


class Parked:
    """Where one thread waits to be told."""

    __slots__ = ("_gate", "_is_told")

    def __init__(self) -> None:
        self._gate = new_mutex()
        self._gate.acquire()
        self._is_told = False

    def tell(self) -> None:
        """Let the thread go on; a second call does nothing. Not to be called by two threads at once."""
        if not self._is_told:
            self._is_told = True
            self._gate.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it was told before the time was over; None waits for as long as it takes."""
        return self._gate.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))

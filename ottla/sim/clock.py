"""Time that moves when the simulation says so."""

from __future__ import annotations

START_MS = 1_767_225_600_000
"""Midnight at the start of 2026, UTC: a date in a failing run's output is then a plausible one."""


class VirtualClock:
    """A `Clock` that stands still until it is moved.

    `advance` moves both times; `set_now_ms` moves only the wall clock and may take it back, as an operator or NTP may.
    """

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        assert ms >= 0, "time passes forwards; set_now_ms is what turns the wall clock back"
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_now_ms(self, now_ms: int) -> None:
        """Set the wall clock; monotonic time does not notice."""
        self._now_ms = now_ms

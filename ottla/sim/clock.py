"""Time that moves when the simulation says so, and that each host tells in its own way.

A clock stands still until it is moved, or follows a `Timeline` (the loop's), perhaps a little too fast or too slow.

Promises: `monotonic_ms` never goes back, whatever is done to the clock; `now_ms` goes back only when it is set back.
"""

from __future__ import annotations

from typing import Protocol

START_MS = 1_767_225_600_000
"""Midnight at the start of 2026, UTC: a date in a failing run's output is then a plausible one."""
MILLION = 1_000_000


class Timeline(Protocol):
    """The true time of a simulation, in microseconds."""

    now_us: int


class VirtualClock:
    """A `Clock` that stands still until it is moved, or follows a loop.

    `advance` moves both times; `set_now_ms` moves only the wall clock and may take it back, as an operator or NTP may.
    """

    __slots__ = ("_drift_ppm", "_monotonic_ms", "_now_ms", "_since_us", "_timeline")

    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._timeline: Timeline | None = None
        self._since_us = 0
        """When the two above were true."""
        self._drift_ppm = 0

    def now_ms(self) -> int:
        return self._now_ms + self._elapsed_ms()

    def monotonic_ms(self) -> int:
        return self._monotonic_ms + self._elapsed_ms()

    @property
    def drift_ppm(self) -> int:
        """By how many millionths this clock is too fast; below zero too slow."""
        return self._drift_ppm

    def _elapsed_ms(self) -> int:
        if self._timeline is None:
            return 0
        if not self._drift_ppm:
            return self._timeline.now_us // 1000 - self._since_us // 1000
        return (self._timeline.now_us - self._since_us) * (MILLION + self._drift_ppm) // (1000 * MILLION)

    def follow(self, timeline: Timeline) -> None:
        """Go with this time from now on."""
        self._settle()
        self._timeline = timeline
        self._since_us = timeline.now_us

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        assert ms >= 0, "time passes forwards; set_now_ms is what turns the wall clock back"
        self._now_ms += ms
        self._monotonic_ms += ms

    def set_now_ms(self, now_ms: int) -> None:
        """Set the wall clock; monotonic time does not notice."""
        self._now_ms = now_ms - self._elapsed_ms()

    def jump_ms(self, by_ms: int) -> None:
        """Move the wall clock, forwards or back."""
        self._now_ms += by_ms

    def set_drift_ppm(self, drift_ppm: int) -> None:
        """Run too fast or too slow from now on; timers of the host go by this clock as well."""
        assert drift_ppm > -MILLION, "a clock that stands still or runs backwards is no clock"
        self._settle()
        self._drift_ppm = drift_ppm

    def true_us(self, delay_ms: float) -> int:
        """How long it really takes, in microseconds, until this clock has moved by `delay_ms`."""
        if not self._drift_ppm:
            return round(delay_ms / 1000 * MILLION)
        return round(delay_ms * 1000 * MILLION / (MILLION + self._drift_ppm))

    def _settle(self) -> None:
        elapsed_ms = self._elapsed_ms()
        self._now_ms += elapsed_ms
        self._monotonic_ms += elapsed_ms
        self._since_us = self._timeline.now_us if self._timeline is not None else 0

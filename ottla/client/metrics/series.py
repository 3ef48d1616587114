"""Numbers over time: what was recorded in the last windows, and in all.

One `Series` stands behind several metrics: the rate, the average and the maximum of a latency are all read from what
was recorded once. Promises: rates, averages and extremes are those of Kafka's own statistics for the same events and
settings (`metrics.sample.window.ms`, `metrics.num.samples`), where nothing was recorded they are NaN, or 0 for a rate;
recording costs less than a microsecond and memory does not grow. Recorded by whoever sees the event, once a batch or a
response and never once a record.
"""

from __future__ import annotations

from math import inf, nan


class _Window:
    """What was recorded within one window."""

    __slots__ = ("count", "first_ms", "largest", "last_ms", "smallest", "total")

    def __init__(self, now_ms: float) -> None:
        self.clear(now_ms)

    def clear(self, now_ms: float) -> None:
        self.first_ms = now_ms
        self.last_ms = now_ms
        self.count = 0
        self.total = 0.0
        self.largest = -inf
        self.smallest = inf


class Series:
    """Values as they were recorded. `count` and `total` are of all, the rest of the last `window_count` windows."""

    __slots__ = ("_current", "_window_count", "_window_ms", "_windows", "count", "last", "total")

    def __init__(self, *, window_ms: int = 30_000, window_count: int = 2) -> None:
        self._window_ms = window_ms
        self._window_count = window_count
        self._windows: list[_Window] = []
        self._current = 0
        self.count = 0
        self.total = 0.0
        self.last = nan
        """The value recorded last."""

    def record(self, value: float, now_ms: float) -> None:
        """Add a value. Times do not go back."""
        windows = self._windows
        if not windows:
            windows.append(_Window(now_ms))
        window = windows[self._current]
        if now_ms - window.first_ms >= self._window_ms:
            window = self._next_window(now_ms)
        window.count += 1
        window.total += value
        if value > window.largest:
            window.largest = value
        if value < window.smallest:
            window.smallest = value
        window.last_ms = now_ms
        self.count += 1
        self.total += value
        self.last = value

    def record_many(self, count: int, total: float, largest: float, now_ms: float) -> None:
        """Add values of which the number, the sum and the largest are known: they have no `minimum` and no `last`."""
        if not self._windows:
            self._windows.append(_Window(now_ms))
        window = self._windows[self._current]
        if now_ms - window.first_ms >= self._window_ms:
            window = self._next_window(now_ms)
        window.count += count
        window.total += total
        window.largest = max(window.largest, largest)
        window.last_ms = now_ms
        self.count += count
        self.total += total

    def _next_window(self, now_ms: float) -> _Window:
        # One more than are counted: the oldest may still reach into the time that is looked at.
        self._current = (self._current + 1) % (self._window_count + 1)
        if self._current == len(self._windows):
            self._windows.append(_Window(now_ms))
        else:
            self._windows[self._current].clear(now_ms)
        return self._windows[self._current]

    def rate(self, now_ms: float) -> float:
        """The sum of the values for each second."""
        elapsed_ms = self._elapsed_ms(now_ms)
        return sum(window.total for window in self._windows) * 1000 / elapsed_ms

    def count_rate(self, now_ms: float) -> float:
        """The number of values for each second."""
        elapsed_ms = self._elapsed_ms(now_ms)
        return sum(window.count for window in self._windows) * 1000 / elapsed_ms

    def average(self, now_ms: float) -> float:
        self._forget(now_ms)
        count = sum(window.count for window in self._windows)
        return sum(window.total for window in self._windows) / count if count else nan

    def maximum(self, now_ms: float) -> float:
        self._forget(now_ms)
        return max((window.largest for window in self._windows if window.count), default=nan)

    def minimum(self, now_ms: float) -> float:
        self._forget(now_ms)
        return min((window.smallest for window in self._windows if window.smallest < inf), default=nan)

    def _forget(self, now_ms: float) -> None:
        """Clear the windows that nothing was recorded in for too long."""
        age_ms = self._window_ms * self._window_count
        for window in self._windows:
            if now_ms - window.last_ms >= age_ms:
                window.clear(now_ms)

    def _elapsed_ms(self, now_ms: float) -> float:
        """The time that a rate is over: since the oldest window, but at least all windows but one.

        A burst just after the start would otherwise look like a rate that nobody could keep up.
        """
        self._forget(now_ms)
        elapsed_ms = now_ms - min((window.first_ms for window in self._windows), default=now_ms)
        missing = self._window_count - 1 - int(elapsed_ms // self._window_ms) if self._window_ms else 0
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

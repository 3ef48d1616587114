"""A limit on bytes a second: how long to wait so that what was done so far is paid for.

Promises: over any stretch of work the rate stays at or below the limit, give or take one observation; idle time is
not saved up. Called by `cleaner_manager`.
"""

from __future__ import annotations


class Throttle:
    __slots__ = ("_paid_at_ms",)

    def __init__(self) -> None:
        self._paid_at_ms = 0.0

    def observe(self, size: int, bytes_per_second: float, now_ms: int) -> int:
        """Count `size` bytes done just now; returns for how many milliseconds nothing more should be done."""
        # A rate of nothing at all would never be paid off.
        self._paid_at_ms = max(self._paid_at_ms, float(now_ms)) + size * 1000 / max(bytes_per_second, 1.0)
        return int(self._paid_at_ms - now_ms)

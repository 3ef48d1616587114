"""What time it is. Two clocks: wall time for what is written down, monotonic time for what is waited for."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, in milliseconds."""

    def now_ms(self) -> int:
        """Wall-clock time since the epoch; it may jump."""
        ...

    def monotonic_ms(self) -> int:
        """Time since an unspecified start; it never goes back."""
        ...

"""Whether and when a pipeline that has failed is started again: `restart:` of its file.

Promises: the wait doubles with each restart up to a bound, and of `max` restarts within an hour there is no further
one, so that a pipeline that fails at once does not go on for ever. Called by `spec` and `supervisor`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

WINDOW_S = 3600.0
WAIT_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class Restart:
    """What the file says."""

    on_failure: bool = False
    restarts_max: int = 10
    backoff_s: float = 1.0


class Restarts:
    """The restarts of one pipeline in the last hour."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def wait_s(self, policy: Restart, now_s: float) -> float | None:
        """How long to wait for the next one; None when there is none."""
        while self._times and self._times[0] <= now_s - WINDOW_S:
            self._times.popleft()
        if not policy.on_failure or len(self._times) >= policy.restarts_max:
            return None
        return min(policy.backoff_s * 2.0 ** min(len(self._times), 30), WAIT_MAX_S)

    def note(self, now_s: float) -> None:
        """The pipeline is started again."""
        self._times.append(now_s)

    def forget(self) -> None:
        """Somebody has started it, who knows of the failures."""
        self._times.clear()

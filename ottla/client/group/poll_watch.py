"""The clock of max.poll.interval.ms: a user who does not poll for so long holds the group up, and is out of it.

Promises: `on_late` is called once for each time that the user is late, and not while nothing depends on the user; a
poll that waits counts as polling for as long as it says so with `note`, which may come from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.world import ClientWorld, Timer

log = logging.getLogger(__name__)

POLL_TOO_LATE = (
    "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer than the "
    "configured max.poll.interval.ms (%d), which typically implies that the poll loop spends too much time on records. "
    "Raise max.poll.interval.ms, or lower max.poll.records (%d) so that the batches of poll() are smaller. The member "
    "leaves the group until the next poll()."
)


class PollWatch:
    def __init__(
        self,
        world: ClientWorld,
        name: str,
        *,
        interval_ms: int,
        records_max: int,
        matters: Callable[[], bool],
        on_late: Callable[[], object],
    ) -> None:
        """`matters` says whether the coordinator counts on the user just now."""
        self._world = world
        self._name = name
        self._interval_ms = interval_ms
        self._records_max = records_max
        self._matters = matters
        self._on_late = on_late
        self._polled_ms = world.clock.monotonic_ms()
        self._timer: Timer | None = None
        self.is_late = False
        """The user was late, and has not polled since."""

    def note(self) -> int:
        """The user polls, now; what time that is."""
        self._polled_ms = now_ms = self._world.clock.monotonic_ms()
        return now_ms

    def watch(self) -> None:
        """Look out from now on, on the loop. The member comes back, if it was late."""
        if self.is_late:
            self.is_late = False
            log.warning("[%s] The member joins the group again now that poll() is called", self._name)
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        left_ms = self._polled_ms + self._interval_ms - self._world.clock.monotonic_ms()
        self._timer = self._world.tasks.later(max(left_ms, 1), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._world.clock.monotonic_ms() - self._polled_ms < self._interval_ms:
            self._set_timer()
        elif self._matters():
            log.error(f"[%s] {POLL_TOO_LATE}", self._name, self._interval_ms, self._records_max)
            self.is_late = True
            self._on_late()

    def stop(self) -> None:
        """Look out no more."""
        self.is_late = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

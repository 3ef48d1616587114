"""Log lines about peers that misbehave: the first of its kind at once, the rest counted.

A peer that sends nonsense and comes back a thousand times a second must not fill the log. Called by sessions.
"""

from __future__ import annotations

import logging

from ottla.world import Clock

log = logging.getLogger(__name__)

QUIET_MS = 10_000
"""How long after a line of one kind no other of the kind is written."""


class Complaints:
    """Writes one line of a kind in `QUIET_MS`, with how many went unsaid before it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: dict[str, tuple[int, int]] = {}
        """Of each kind: when it was last said, and how often it was held back since. The kinds are few and ours."""

    def say(self, kind: str, message: str, *arguments: object) -> None:
        now_ms = self._clock.monotonic_ms()
        said = self._said.get(kind)
        if said is not None and now_ms - said[0] < QUIET_MS:
            self._said[kind] = (said[0], said[1] + 1)
            return
        self._said[kind] = (now_ms, 0)
        if said is not None and said[1]:
            log.warning(f"{message} (and %d more before it)", *arguments, said[1])
        else:
            log.warning(message, *arguments)

"""What the active controller remembers of its brokers' heartbeats: when they came, and how far each has replayed.

Promises: only the active controller has it, and it is lost with leadership, as a session should be: a new controller
gives every unfenced broker a whole session from the moment it takes over. It belongs to a broker's epoch, so a new
registration begins with nothing. Whether a broker is fenced is not in here: that is replicated, and can be taken back.
Called by `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.world import Clock


@dataclass(slots=True)
class Session:
    """One broker's, in one epoch."""

    contact_ms: int
    """When it was last heard of, in monotonic time; for one that has not been yet, when this controller took over."""
    is_over: bool = False
    """Nobody keeps it up for certain: a new incarnation need not wait for its end."""
    metadata_offset: int = -1
    """How far it has told to have replayed."""
    shutdown_offset: int = -1
    """The end of the log when its controlled shutdown was recorded; -1 while it has none."""


class Heartbeats:
    """All sessions, by broker id and epoch."""

    def __init__(self, clock: Clock, session_timeout_ms: int) -> None:
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[tuple[int, int], Session] = {}

    def take_over(self, broker_id: int, epoch: int, *, is_over: bool) -> None:
        """An unfenced broker of which this controller has not heard yet gets a whole session to make itself heard."""
        self._sessions[broker_id, epoch] = Session(self._clock.monotonic_ms(), is_over)

    def contact(self, broker_id: int, epoch: int) -> Session:
        """A heartbeat came: its session goes on, or begins."""
        now_ms = self._clock.monotonic_ms()
        session = self._sessions.get((broker_id, epoch))
        if session is None:
            session = self._sessions[broker_id, epoch] = Session(now_ms)
        session.contact_ms = now_ms
        session.is_over = False
        return session

    def find(self, broker_id: int, epoch: int) -> Session | None:
        return self._sessions.get((broker_id, epoch))

    def forget_progress(self, broker_id: int, epoch: int) -> None:
        """It has registered: whatever it has told before it tells again. Its session goes on."""
        session = self._sessions.get((broker_id, epoch))
        if session is not None:
            session.metadata_offset = session.shutdown_offset = -1

    def forget(self, broker_id: int, epoch: int) -> None:
        self._sessions.pop((broker_id, epoch), None)

    def has_session(self, broker_id: int, epoch: int) -> bool:
        session = self._sessions.get((broker_id, epoch))
        return session is not None and not session.is_over and not self._has_expired(session)

    def expired(self) -> Iterator[tuple[int, int]]:
        """The broker ids and epochs whose sessions have expired, and may be forgotten on the way."""
        return iter([key for key, session in self._sessions.items() if self._has_expired(session)])

    def _has_expired(self, session: Session) -> bool:
        return session.contact_ms + self._session_timeout_ms < self._clock.monotonic_ms()

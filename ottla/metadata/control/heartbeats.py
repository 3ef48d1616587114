"""What the active controller remembers of its brokers' heartbeats: when they came, and how far each has replayed.

Promises: only the active controller has it, and it is lost with leadership, as a session should be: a new controller
gives every unfenced broker a whole session from the moment it takes over. It belongs to a broker's epoch, so a new
registration begins with nothing. Whether a broker is fenced is not in here: that is replicated, and can be taken back.

A session need not end before it is known that nobody keeps it up. Whoever is not heard of any more, because the
connection that carried its heartbeats has closed, because the next one is late, or because the controller is new, is a
*suspect*: its host is to be asked whether anybody listens there (`suspects`), again and again with growing pauses.
Called by `lifecycle`, and by the controller, which asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ottla.world import Clock

LATE_INTERVALS = 1.5
"""After how many intervals without a heartbeat a broker is a suspect."""
ASK_AGAIN_MS = 20
"""The pause after the first question about a suspect; each is twice the one before, up to the heartbeats' interval. A
process that is being killed may still be listening when its connections are closed."""
NEVER = inf


class Suspect(NamedTuple):
    """Somebody of whom this controller has not heard since its heartbeat of that number."""

    broker_id: int
    epoch: int
    beat: int


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
    beat_count: int = 0
    """How many heartbeats have come."""
    connection: object = None
    """What the last of them came over; None for this node's own, or before there was one."""
    ask_at_ms: float = NEVER
    """When its host is to be asked about it."""
    ask_count: int = 0
    """How often that was done since it was last heard of."""


class Heartbeats:
    """All sessions, by broker id and epoch."""

    def __init__(self, clock: Clock, session_timeout_ms: int, interval_ms: int) -> None:
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._interval_ms = interval_ms
        self._sessions: dict[tuple[int, int], Session] = {}

    def take_over(self, broker_id: int, epoch: int, *, is_over: bool) -> None:
        """An unfenced broker of which this controller has not heard yet gets a whole session to make itself heard; a
        suspect, because the last controller may have gone together with it."""
        now_ms = self._clock.monotonic_ms()
        self._sessions[broker_id, epoch] = Session(now_ms, is_over, ask_at_ms=now_ms)

    def contact(self, broker_id: int, epoch: int) -> Session:
        """A heartbeat came: its session goes on, or begins."""
        now_ms = self._clock.monotonic_ms()
        session = self._sessions.get((broker_id, epoch))
        if session is None:
            session = self._sessions[broker_id, epoch] = Session(now_ms)
        session.contact_ms = now_ms
        session.is_over = False
        session.beat_count += 1
        session.ask_at_ms = now_ms + LATE_INTERVALS * self._interval_ms
        session.ask_count = 0
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

    # Who may be gone

    def on_disconnected(self, broker_id: int, epoch: int, connection: object) -> bool:
        """A connection has closed: whether the broker's last heartbeat came over it, which makes it a suspect."""
        session = self._sessions.get((broker_id, epoch))
        if session is None or session.connection is not connection:
            return False
        session.connection = None
        session.ask_at_ms = self._clock.monotonic_ms()
        return True

    def suspects(self) -> list[Suspect]:
        """Whose hosts are to be asked now; each is due again after its pause."""
        now_ms = self._clock.monotonic_ms()
        found = []
        for (broker_id, epoch), session in self._sessions.items():
            if now_ms >= session.ask_at_ms:
                pause_ms = min(ASK_AGAIN_MS << min(session.ask_count, 16), self._interval_ms)
                session.ask_at_ms = now_ms + pause_ms
                session.ask_count += 1
                found.append(Suspect(broker_id, epoch, session.beat_count))
        return found

    def is_suspect(self, suspect: Suspect) -> bool:
        """Whether it has still not been heard of."""
        session = self._sessions.get((suspect.broker_id, suspect.epoch))
        return session is not None and session.beat_count == suspect.beat

    @property
    def next_ask_ms(self) -> float:
        """When there is a suspect again, unless somebody is heard of meanwhile."""
        return min((session.ask_at_ms for session in self._sessions.values()), default=NEVER)

    def _has_expired(self, session: Session) -> bool:
        return session.contact_ms + self._session_timeout_ms < self._clock.monotonic_ms()

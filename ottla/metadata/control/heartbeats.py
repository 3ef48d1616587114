"""What the active controller remembers of its brokers' heartbeats: when they came, and how far each has replayed.

Promises: only the active controller has it, and it is lost with leadership, as a session should be: a new controller
gives every unfenced broker a whole session from the moment it takes over. Called by `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ottla.world import Clock


class BrokerState(Enum):
    """Where a broker stands between its registration and its end."""

    FENCED = "registered, and not serving"
    UNFENCED = "serving"
    CONTROLLED_SHUTDOWN = "giving up its leaderships before it stops"
    SHUTDOWN_NOW = "may stop"


@dataclass(slots=True)
class Heartbeat:
    """One broker's."""

    broker_id: int
    is_fenced: bool
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """The end of the log when its controlled shutdown was recorded; -1 while it has none."""

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_offset >= 0

    @property
    def is_active(self) -> bool:
        return not self.is_fenced and not self.is_shutting_down

    @property
    def state(self) -> BrokerState:
        if self.is_shutting_down:
            return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.FENCED if self.is_fenced else BrokerState.UNFENCED


class Heartbeats:
    """All brokers', and their sessions."""

    def __init__(self, clock: Clock, session_timeout_ms: int) -> None:
        self._clock = clock
        self._session_timeout_ms = session_timeout_ms
        self._brokers: dict[int, Heartbeat] = {}
        self._contacts: dict[tuple[int, int], int] = {}
        """When a broker of an epoch was last heard of, in monotonic time."""

    def __iter__(self) -> Iterator[Heartbeat]:
        return iter(self._brokers.values())

    def __getitem__(self, broker_id: int) -> Heartbeat:
        return self._brokers[broker_id]

    # Sessions

    def contact(self, broker_id: int, epoch: int) -> None:
        self._contacts[broker_id, epoch] = self._clock.monotonic_ms()

    def last_contact_ms(self, broker_id: int, epoch: int) -> int | None:
        return self._contacts.get((broker_id, epoch))

    def has_session(self, broker_id: int, epoch: int) -> bool:
        contact = self._contacts.get((broker_id, epoch))
        return contact is not None and not self._has_expired(contact)

    def pop_expired(self) -> tuple[int, int] | None:
        """A broker id and epoch whose session has expired, which is then forgotten."""
        for key, contact in self._contacts.items():
            if self._has_expired(contact):
                del self._contacts[key]
                return key
        return None

    def _has_expired(self, contact: int) -> bool:
        return contact + self._session_timeout_ms < self._clock.monotonic_ms()

    # States

    def register(self, broker_id: int, *, is_fenced: bool) -> None:
        """A registration, or a change of one, has been replayed."""
        broker = self._brokers.get(broker_id)
        offset = -1
        if broker is None:
            self._brokers[broker_id] = Heartbeat(broker_id, is_fenced)
        elif broker.is_fenced != is_fenced:
            offset = broker.metadata_offset
        self.touch(broker_id, is_fenced=is_fenced, metadata_offset=offset)

    def touch(self, broker_id: int, *, is_fenced: bool, metadata_offset: int) -> None:
        broker = self._brokers[broker_id]
        broker.is_fenced = is_fenced
        broker.metadata_offset = metadata_offset
        if is_fenced:
            broker.shutdown_offset = -1

    def fence(self, broker_id: int) -> None:
        if broker_id in self._brokers:
            self._brokers[broker_id].is_fenced = True

    def remove(self, broker_id: int) -> None:
        self._brokers.pop(broker_id, None)

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """Its controlled shutdown is recorded at `offset`; the first time counts."""
        broker = self._brokers[broker_id]
        assert not broker.is_fenced, "a fenced broker has nothing to give up"
        if broker.shutdown_offset < 0:
            broker.shutdown_offset = offset

    @property
    def lowest_active_offset(self) -> float:
        """How far every active broker has replayed; infinite when none is active."""
        return min((broker.metadata_offset for broker in self if broker.is_active), default=float("inf"))

"""`ClassicMember`: one member of a classic group, and the answers it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.machine import Result
from ottla.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.world import Promise

Protocols = tuple[tuple[str, bytes], ...]
"""A member's assignment strategies, best first, each with what it tells the one who assigns."""


def protocols_of(asked: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """The first of each name: one that is named twice would count as if two members knew it."""
    first: dict[str, bytes] = {}
    for one in asked:
        first.setdefault(one.name, bytes(one.metadata))
    return tuple(first.items())


class ClassicMember:
    """A member. All of it may change outside of replay: a group's last written generation is what is replicated."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "on_session_end",
        "protocols",
        "rebalance_timeout_ms",
        "session_key",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Promise[JoinGroupResponse] | None = None
        """The answer to a JoinGroup that waits for the others to join."""
        self.awaiting_sync: Promise[SyncGroupResponse] | None = None
        """The answer to a SyncGroup that waits for the leader's assignment."""
        self.is_new = False
        """It has not been told its member id yet, so it cannot send heartbeats."""
        self.session_key = ""
        """The key of its session's time-out; kept with what that does, because every heartbeat puts it off."""
        self.on_session_end: Callable[[], Result[None]] | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """A member that waits for us need not send heartbeats, unless it is new: those must not pile up."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member told about itself for that strategy."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not know the protocol {protocol_name}")

    def vote(self, candidates: set[str]) -> str:
        """Its best strategy among those."""
        return next(name for name, _ in self.protocols if name in candidates)

    def __repr__(self) -> str:
        return f"ClassicMember({self.member_id!r})"

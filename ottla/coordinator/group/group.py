"""`Group`: what groups of all protocols have in common: what the offsets and the everyday APIs ask of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import ClassVar, NamedTuple

from ottla.coordinator.record import CoordinatorRecord
from ottla.types import Uuid

CommitCheck = Callable[[str, Uuid, int], None]
"""Whether an offset of that topic (by name and id) and partition may be committed: returns, or raises what is told."""


def is_too_soon(now_ms: int, assigned_ms: int, interval_ms: int) -> bool:
    """Whether a group was assigned its partitions at `assigned_ms` and has to keep them for the interval.

    0 is not a time. Nor is one in the future, of a clock that was set back: there Kafka waits until it is reached.
    """
    return 0 < assigned_ms <= now_ms < assigned_ms + interval_ms


class Caller(NamedTuple):
    """Who asks, as groups remember their members, and in which version of the API."""

    client_id: str
    client_host: str
    """As Java writes an address: `/127.0.0.1`."""
    version: int


class GroupType(Enum):
    """The protocol that a group runs; the values are what ListGroups tells."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Group(ABC):
    """A group of any protocol. The checks raise what the client is told, and return when all is well."""

    __slots__ = ("group_id",)

    type: ClassVar[GroupType]
    should_expire: ClassVar[bool] = True
    """Whether it goes away by itself once it is empty and has no offsets."""
    protocol_type: str = ""
    """What ListGroups tells: `consumer`, `connect`, `share`, ..."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as clients are told it: `Stable`, `PreparingRebalance`, ..."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @abstractmethod
    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """Whether this member may commit; `generation` is the member's epoch in the newer protocols.

        Returns what is to be asked for each partition besides, None when nothing is.
        """

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may ask for offsets."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """Whether offsets may be deleted now."""

    @abstractmethod
    def check_delete(self) -> None:
        """Whether the group may be deleted now."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, so that its offsets are kept."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that end the group, its offsets apart."""

    @abstractmethod
    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        """From when on the retention of an offset committed at that time counts; None while it may not expire."""

    def has_state_in(self, states: frozenset[str]) -> bool:
        """Whether the state is one of those, which are in lower case."""
        return self.state_name.lower() in states

"""`Member`: one member of a consumer group, as the log has it. A member never changes: a new one takes its place.

A member has an epoch, which says up to which target assignment it has come, and a state, which says what it is waiting
for on the way to the next. What it owns is kept with the epoch in which it got each partition, so that a commit that
was under way while the epoch moved on still counts (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ottla.types import Uuid

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""A static member that has left for a while: its partitions wait for it until its session ends."""

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""Topic -> partition -> the epoch in which the member got it. Never changed in place."""

NO_EPOCHS: PartitionEpochs = {}


class MemberState(IntEnum):
    """What a member is doing; the values are those of the log."""

    STABLE = 0
    """It has what it should have in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It is to give up partitions before it may go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in the newest epoch and waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by a newer broker, with a state that this one does not know."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClassicSide:
    """What a member that speaks the classic protocol in a consumer group has told in JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Names of strategies with the member's metadata for each, the one it likes best first."""


@dataclass(frozen=True, slots=True)
class Member:
    """See the module."""

    member_id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: PartitionEpochs = field(default_factory=lambda: NO_EPOCHS)
    pending_revocation: PartitionEpochs = field(default_factory=lambda: NO_EPOCHS)
    classic: ClassicSide | None = None
    """None for a member that speaks the consumer protocol."""

    @property
    def regex(self) -> str | None:
        """The regular expression it is subscribed to; None where there is none."""
        return self.topic_regex or None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """In which epoch it got a partition that it owns or is giving up."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

"""What a fake cluster knows: topics, records by their timestamps, settings, groups and what they have committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.admin.groups import GroupState, GroupType
from ottla.client.group import OffsetAndMetadata
from ottla.types import TopicPartition, Uuid

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(slots=True)
class FakePartition:
    """Where it lies, and the timestamp of each record from `start_offset` on."""

    replicas: list[int]
    start_offset: int = 0
    timestamps: list[int] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.timestamps)

    def delete_before(self, offset: int) -> None:
        """Forget the records below `offset`."""
        dropped = max(0, offset - self.start_offset)
        del self.timestamps[:dropped]
        self.start_offset += dropped


@dataclass(slots=True)
class FakeTopic:
    name: str
    topic_id: Uuid
    partitions: list[FakePartition]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class FakeMember:
    """A member as a test puts it in: what it is called and what it reads."""

    member_id: str
    client_id: str = "client"
    host: str = "/127.0.0.1"
    group_instance_id: str | None = None
    topics: tuple[str, ...] = ()
    assignment: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class FakeGroup:
    group_id: str
    type: GroupType = GroupType.CLASSIC
    protocol: str = ""
    assignor: str = ""
    members: list[FakeMember] = field(default_factory=list)
    offsets: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def reads(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return any(topic in member.topics for member in self.members)

"""`ClassicGroup`: a group of the classic protocol: its members, its generation, and where a rebalance stands.

What is replicated is the generation that was written last, and replay makes a group of it; the rebalance in between is
this coordinator's alone, and a new coordinator begins with the last generation. So the group may change outside of
replay.

Promises: a static member has one member id; `awaiting_join_count` is how many members have `awaiting_join`; the
protocols that all members know are counted, so that a member joins in the time its own list takes. Synchronous and
silent. Called by `groups` and its parts.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum

from ottla.coordinator.group.classic.member import ClassicMember, Protocols
from ottla.coordinator.group.classic.subscription import CONSUMER, Unreadable, subscribed_topics
from ottla.coordinator.group.group import CommitCheck, Group, GroupType
from ottla.coordinator.partition import java_hash
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from ottla.wire.coordinator.classic_group import GroupMetadataKey
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.world import Promise

NO_TIMESTAMP = -1


class ClassicState(Enum):
    """Where a group stands; the values are what clients are told."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to join (again)."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined; the leader is to assign."""
    STABLE = "Stable"
    DEAD = "Dead"
    """This coordinator does not have it any more."""


EMPTY = ClassicState.EMPTY
PREPARING_REBALANCE = ClassicState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicState.COMPLETING_REBALANCE
STABLE = ClassicState.STABLE
DEAD = ClassicState.DEAD

_BEFORE: dict[ClassicState, tuple[ClassicState, ...]] = {
    EMPTY: (PREPARING_REBALANCE,),
    PREPARING_REBALANCE: (STABLE, COMPLETING_REBALANCE, EMPTY),
    COMPLETING_REBALANCE: (PREPARING_REBALANCE,),
    STABLE: (COMPLETING_REBALANCE,),
    DEAD: tuple(ClassicState),
}
"""From which states each may be entered."""


class ClassicGroup(Group):
    """See the module. `protocol_type` is empty for a group that never had members."""

    __slots__ = (
        "_protocol_counts",
        "awaiting_join_count",
        "generation",
        "has_new_member",
        "leader_id",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
    )

    type = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        state: ClassicState = EMPTY,
        *,
        now_ms: int = NO_TIMESTAMP,
        generation: int = 0,
        protocol_type: str = "",
        protocol_name: str | None = None,
        leader_id: str | None = None,
    ) -> None:
        super().__init__(group_id)
        self.state = state
        self.previous_state = DEAD
        self.state_timestamp_ms = now_ms
        """Since when it is in that state; -1 where an old record does not tell."""
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        """The strategy of this generation."""
        self.leader_id = leader_id
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        """Group instance id -> member id."""
        self.pending_joins: dict[str, None] = {}
        """Ids of members that were given one and are to join again with it."""
        self.pending_syncs: dict[str, None] = {}
        """Members that have not asked for this generation's assignment yet."""
        self.awaiting_join_count = 0
        self.has_new_member = False
        """Somebody has joined since the initial rebalance was last put off."""
        self.subscribed_topics: frozenset[str] | None = None
        """What the members consume, where they are consumers and told so readably."""
        self._protocol_counts: Counter[str] = Counter()

    # States

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def can_rebalance(self) -> bool:
        return self.state in _BEFORE[PREPARING_REBALANCE]

    def enter(self, state: ClassicState, now_ms: int) -> None:
        assert self.state in _BEFORE[state], f"group {self.group_id} goes from {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        """All have joined who will: choose the strategy, or be empty."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.note_subscribed_topics()
        self.enter(COMPLETING_REBALANCE if self.members else EMPTY, now_ms)
        self.pending_syncs.clear()

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER

    # Members

    def add(self, member: ClassicMember, answer: Promise[JoinGroupResponse] | None = None) -> None:
        instance_id = member.group_instance_id
        if instance_id is not None:
            assert instance_id not in self.static_members, f"{instance_id} is a member of {self.group_id} already"
            self.static_members[instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._protocol_counts.update(name for name, _ in member.protocols)
        self.set_awaiting_join(member, answer)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """A member, or one that was to become one; nothing happens when it is neither."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._uncount(member.protocols)
            self.set_awaiting_join(member, None)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def update(
        self, member: ClassicMember, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """The member has joined again, with these."""
        self._uncount(member.protocols)
        member.protocols = protocols
        self._protocol_counts.update(name for name, _ in protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def replace_static(self, group_instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """A static member has come back under a new member id; whoever still asks under the old one is fenced."""
        old = self.members.pop(old_id)
        self.answer_join(old, JoinGroupResponse(member_id=old_id, protocol_name=None, error_code=FencedInstanceId.code))
        self.answer_sync(old, SyncGroupResponse(error_code=FencedInstanceId.code))
        new = ClassicMember(
            new_id,
            group_instance_id,
            old.client_id,
            old.client_host,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            session_timeout_ms=old.session_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.members[new_id] = new
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[group_instance_id] = new_id
        return new

    def elect_leader_among_joined(self) -> bool:
        """Whether there is a leader that has joined; one that has not gives way to one that has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is None:
            joined = next((one for one in self.members.values() if one.awaiting_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member of that id; an instance id that belongs to another one fences."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                raise UnknownMemberId
            if current != member_id:
                raise FencedInstanceId
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member

    @property
    def has_all_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """As long as the most patient member allows."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Answers

    def set_awaiting_join(self, member: ClassicMember, answer: Promise[JoinGroupResponse] | None) -> None:
        self.awaiting_join_count += (answer is not None) - (member.awaiting_join is not None)
        member.awaiting_join = answer

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup, if it waits for one."""
        answer = member.awaiting_join
        if answer is not None:
            self.set_awaiting_join(member, None)
            if not answer.done():
                answer.set_result(response)

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Answer the member's SyncGroup; whether it waited for one."""
        answer, member.awaiting_sync = member.awaiting_sync, None
        if answer is None:
            return False
        if not answer.done():
            answer.set_result(response)
        return True

    def joined(self, member_id: str, *, with_members: bool) -> JoinGroupResponse:
        """What a member of this generation is told; its leader, with whom it shares the work."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type or None,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=self.joined_members() if with_members else [],
        )

    def joined_members(self) -> list[JoinGroupResponseMember]:
        name = self.protocol_name
        return [
            JoinGroupResponseMember(one.member_id, one.group_instance_id, one.metadata(name))
            for one in self.members.values()
        ]

    # Protocols

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these can join: there must remain a strategy that all know."""
        if self.state is EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._protocol_counts[name] == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The strategy that all know and most members like best."""
        candidates = {name for name, count in self._protocol_counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        return min((name for name, count in votes.items() if count == most), key=_java_map_order)

    def note_subscribed_topics(self) -> None:
        """Read what the members consume; it is not known where one member's metadata cannot be read."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol_name is not None:
            try:
                self.subscribed_topics = frozenset(
                    topic
                    for member in self.members.values()
                    for topic in subscribed_topics(member.metadata(self.protocol_name))
                )
            except Unreadable:
                self.subscribed_topics = None

    def _uncount(self, protocols: Protocols) -> None:
        self._protocol_counts.subtract(name for name, _ in protocols)

    # What groups of all protocols are asked

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        if self.state is DEAD:
            raise CoordinatorNotAvailable
        if generation < 0 and self.state is EMPTY:
            return None  # from outside of the group: a consumer without membership, or a tool
        if generation >= 0 or member_id or group_instance_id is not None:
            self.check_member(member_id, group_instance_id)
            if generation != self.generation:
                raise IllegalGeneration
        elif not is_transactional:
            # Old transactional producers do not tell who they are, so the group's state cannot be held against them.
            raise UnknownMemberId
        if not is_transactional and self.state is COMPLETING_REBALANCE:
            raise RebalanceInProgress
        return None

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")

    def check_offset_delete(self) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")
        if self.state is not EMPTY and not self.uses_consumer_protocol:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        if self.state is DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")
        if self.state is not EMPTY:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(self.group_id))]

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        if not self.protocol_type:
            return commit_timestamp_ms
        if self.state is EMPTY:
            return commit_timestamp_ms if self.state_timestamp_ms == NO_TIMESTAMP else self.state_timestamp_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.state is STABLE:
            return commit_timestamp_ms
        return None


def _java_map_order(name: str) -> int:
    """Where a small Java map has the name: of strategies with equally many votes, Kafka takes the first it meets."""
    code = java_hash(name) & 0xFFFF_FFFF
    return (code ^ code >> 16) & 15

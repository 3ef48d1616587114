"""`StreamsGroup`: the members, the topology and the target assignment of one Streams application (KIP-1071).

What the log has changes in replay only; what is found out along the way (which topics exist, who asked for a shutdown,
which partitions are where for interactive queries) is this coordinator's alone and found out again by the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ottla.coordinator.group.group import CommitCheck, Group, GroupType
from ottla.coordinator.group.streams.configured import ConfiguredTopology
from ottla.coordinator.group.streams.endpoints import EndpointTable
from ottla.coordinator.group.streams.member import StreamsMember
from ottla.coordinator.group.streams.owners import TaskIndex
from ottla.coordinator.group.streams.records import group_tombstones, member_tombstones
from ottla.coordinator.group.streams.tasks import NO_TASKS, Tasks
from ottla.coordinator.group.streams.topology import Topology
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import NonEmptyGroup, StaleMemberEpoch, UnknownMemberId, UnknownServerError, UnsupportedVersion
from ottla.machine import UndoDict, UndoLog
from ottla.types import Uuid
from ottla.wire.messages import streams_group_describe as described

NO_GENERATION = -1
OFFSET_COMMIT_VERSION = 9
"""From which on a commit tells the member's epoch."""
INITIAL_EPOCH = 1
"""Of a group and of its target before anything was written; a tombstone's target has -1."""
FOREVER_MS = 2**31 - 1
"""How long what is known of the topics stays good unless they change."""


class StreamsState(Enum):
    """Where a group stands; the values are what clients are told."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics that the topology needs are missing, or not as it needs them."""
    ASSIGNING = "Assigning"
    """A new target is to be computed."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"


class StreamsGroup(Group):
    """See the module."""

    __slots__ = (
        "_refresh_epoch",
        "_refresh_ms",
        "assignment_configs",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "configured",
        "endpoint_epoch",
        "endpoints",
        "epoch",
        "members",
        "metadata_hash",
        "owners",
        "shutdown_requested_by",
        "target",
        "topology",
        "undo",
        "validated_topology_epoch",
    )

    type = GroupType.STREAMS
    protocol_type = "streams"

    def __init__(self, group_id: str, undo: UndoLog) -> None:
        super().__init__(group_id)
        self.undo = undo
        # As the log has it
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        """What the last target was computed with."""
        self.topology: Topology | None = None
        self.members: UndoDict[str, StreamsMember] = UndoDict(undo)
        self.target: UndoDict[str, Tasks] = UndoDict(undo)
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_timestamp_ms = 0
        self.owners = TaskIndex(undo)
        # As this coordinator has found out
        self.configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        """The member that asked all others to shut down."""
        self.endpoint_epoch = 0
        """Changes with the tasks of members that have an endpoint."""
        self.endpoints = EndpointTable()
        self._refresh_ms = 0
        self._refresh_epoch = 0

    # State

    @property
    def state(self) -> StreamsState:
        if not self.members:
            return StreamsState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_state_in(self, states: frozenset[str]) -> bool:
        # Kafka's lower case of this one state has an underscore.
        state = self.state
        return ("not_ready" if state is StreamsState.NOT_READY else state.value.lower()) in states

    def member(self, member_id: str) -> StreamsMember:
        """`UnknownMemberId` when there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def target_of(self, member_id: str) -> Tasks:
        return self.target.get(member_id, NO_TASKS)

    # What is known of the topics

    def has_stale_metadata(self, now_ms: int) -> bool:
        """Whether the topics are to be looked at again."""
        return now_ms >= self._refresh_ms or self.epoch < self._refresh_epoch

    def on_metadata_read(self, now_ms: int, epoch: int) -> None:
        """The topics were looked at; should the group's new epoch not be written, they are looked at again."""
        self._refresh_ms = now_ms + FOREVER_MS
        self._refresh_epoch = epoch

    def refresh_metadata(self) -> None:
        """A topic that the group needs has changed."""
        self._refresh_ms = self._refresh_epoch = 0

    def configure(self, configured: ConfiguredTopology) -> None:
        self.configured = configured
        self.endpoints.clear()

    # Replay

    def replay_member(self, member: StreamsMember) -> None:
        old = self.members.get(member.id)
        self.members[member.id] = member
        self.owners.change(old, member)
        self.endpoints.forget(member.id)

    def replay_removal(self, member_id: str) -> None:
        self.owners.change(self.members.pop(member_id), None)
        self.endpoints.forget(member_id)
        if not self.members:
            self.shutdown_requested_by = None

    # What the other APIs ask

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """A member of an older epoch may still commit for the tasks that it has had since then or before."""
        if generation < 0 and not self.members:
            return None  # by an administrator, or in a transaction of a producer that tells nothing of its group
        if is_transactional and generation == NO_GENERATION and not member_id and group_instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and version < OFFSET_COMMIT_VERSION:
            raise UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the streams group protocol"
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise StaleMemberEpoch(
                f"Received member epoch {generation} is newer than current member epoch {member.epoch}."
            )
        if self.topology is None:
            raise StaleMemberEpoch("Topology is not available for offset commit validation.")
        return _EpochCheck(self.topology, member, generation)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member.epoch != member_epoch:
            raise StaleMemberEpoch(
                f"The received member epoch {member_epoch} does not match the expected member epoch {member.epoch}."
            )

    def check_offset_delete(self) -> None:
        """Always: offsets of topics that are consumed are kept by `is_subscribed_to`."""

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.source_subtopologies

    def tombstones(self) -> list[CoordinatorRecord]:
        by_member = [member_tombstones(self.group_id, member_id) for member_id in self.members]
        epoch, group, topology = group_tombstones(self.group_id)
        return [
            *(records[0] for records in by_member),
            *(records[1] for records in by_member),
            epoch,
            *(records[2] for records in by_member),
            group,
            topology,
        ]

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def described(self) -> described.DescribedGroup:
        """What StreamsGroupDescribe tells."""
        if self.topology is None:
            raise UnknownServerError("There should always be a topology for a streams group.")
        configured = self.configured
        is_ready = configured is not None and configured.is_ready
        return described.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            topology=configured.described() if configured is not None and is_ready else self.topology.described(),
            members=[member.described(self.target.get(id)) for id, member in self.members.items()],
        )


class _EpochCheck:
    """Whether a member that is behind may commit for a partition: it must have had the task in its epoch."""

    __slots__ = ("_epoch", "_member", "_topology")

    def __init__(self, topology: Topology, member: StreamsMember, epoch: int) -> None:
        self._topology = topology
        self._member = member
        self._epoch = epoch

    def __call__(self, topic: str, topic_id: Uuid, partition: int) -> None:
        subtopology_id = self._topology.source_subtopologies.get(topic)
        if subtopology_id is None:
            raise StaleMemberEpoch(f"Topic {topic} is not in the topology.")
        assigned = self._member.assigned.active.get(subtopology_id, {}).get(partition)
        if assigned is None:
            assigned = self._member.pending_revocation.active.get(subtopology_id, {}).get(partition)
        if assigned is None:
            raise StaleMemberEpoch(
                f"Task {subtopology_id}-{partition} is not assigned or pending revocation for member."
            )
        if self._epoch < assigned:
            raise StaleMemberEpoch(
                f"Received member epoch {self._epoch} is older than assignment epoch {assigned} for task "
                f"{subtopology_id}-{partition}."
            )

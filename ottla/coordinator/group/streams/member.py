"""`StreamsMember`: one member of a Streams group, as the log has it. A value: what changes it makes another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from ottla.coordinator.group.streams.tasks import (
    NOTHING_ASSIGNED,
    AssignedTasks,
    TaskMap,
    Tasks,
    epoch_map,
    task_map,
)
from ottla.wire.coordinator.streams_group import (
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

LEFT_EPOCH = -1
"""Of a member whose assignment has ended."""


class MemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are the log's."""

    STABLE = 1
    """It has what the epoch it is in gives it."""
    UNREVOKED_TASKS = 2
    """It has been told to give up tasks, and has not said that it did."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up."""
    UNKNOWN = 127
    """Written by a newer version; the member has to join again."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """See the module. Without arguments but the id: a member before its first heartbeat."""

    id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: AssignedTasks = NOTHING_ASSIGNED
    pending_revocation: AssignedTasks = NOTHING_ASSIGNED

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has arrived at the target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def told_by(self, request: StreamsGroupHeartbeatRequest, client_id: str, client_host: str) -> StreamsMember:
        """The member after a heartbeat; what the request leaves out stays."""
        endpoint, tags = request.user_endpoint, request.client_tags
        if (
            self.client_id == client_id
            and self.client_host == client_host
            and request.rack_id is None
            and request.rebalance_timeout_ms == -1
            and request.topology is None
            and request.process_id is None
            and endpoint is None
            and tags is None
        ):
            return self  # most heartbeats
        return replace(
            self,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            client_id=client_id,
            client_host=client_host,
            rebalance_timeout_ms=(
                self.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
            ),
            topology_epoch=self.topology_epoch if request.topology is None else request.topology.epoch,
            process_id=self.process_id if request.process_id is None else request.process_id,
            user_endpoint=self.user_endpoint if endpoint is None else Endpoint(endpoint.host, endpoint.port),
            client_tags=self.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        )

    # What records say

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> StreamsMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=value.user_endpoint,
            client_tags={tag.key: tag.value for tag in value.client_tags},
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
        epoch = value.member_epoch
        return replace(
            self,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=AssignedTasks(
                epoch_map(value.active_tasks, epoch), task_map(value.standby_tasks), task_map(value.warmup_tasks)
            ),
            pending_revocation=AssignedTasks(
                epoch_map(value.active_tasks_pending_revocation, epoch),
                task_map(value.standby_tasks_pending_revocation),
                task_map(value.warmup_tasks_pending_revocation),
            ),
        )

    def without_assignment(self) -> StreamsMember:
        """The record of its assignment has ended, as the member's own will."""
        return replace(
            self,
            epoch=LEFT_EPOCH,
            previous_epoch=LEFT_EPOCH,
            assigned=NOTHING_ASSIGNED,
            pending_revocation=NOTHING_ASSIGNED,
        )

    def described(self, target: Tasks | None) -> described.Member:
        """What StreamsGroupDescribe tells."""
        endpoint = self.user_endpoint
        return described.Member(
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=None if endpoint is None else described.Endpoint(endpoint.host, endpoint.port),
            client_tags=[described.KeyValue(key, value) for key, value in self.client_tags.items()],
            assignment=described.Assignment(
                _described({id: frozenset(epochs) for id, epochs in self.assigned.active.items()}),
                _described(self.assigned.standby),
                _described(self.assigned.warmup),
            ),
            target_assignment=(
                described.Assignment()
                if target is None
                else described.Assignment(
                    _described(target.active), _described(target.standby), _described(target.warmup)
                )
            ),
        )


def _described(tasks: TaskMap) -> list[described.TaskIds]:
    return [described.TaskIds(id, sorted(tasks[id])) for id in sorted(tasks)]

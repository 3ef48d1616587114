"""`Heartbeat`: what one heartbeat of a member comes to: records, an answer, and topics that are to be made.

The steps are Kafka's, in its order: the member, the topology, its topics, the group's epoch, the target, the member's
own assignment. Each may add records; none changes the group, which replay does. Made anew for every heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.group import Caller
from ottla.coordinator.group.streams.configured import ConfiguredTopology, configure
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.member import MemberState, StreamsMember
from ottla.coordinator.group.streams.reconcile import reconcile
from ottla.coordinator.group.streams.records import (
    current_record,
    group_record,
    member_record,
)
from ottla.coordinator.group.streams.records import topology_record as topology_written
from ottla.coordinator.group.streams.status import Status
from ottla.coordinator.group.streams.target import compute_target
from ottla.coordinator.group.streams.tasks import NO_TASKS, TaskMap, Tasks
from ottla.coordinator.group.streams.topology import Topology, topology_record
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import FencedMemberEpoch, InvalidRequest, UnknownServerError
from ottla.machine import Result
from ottla.wire.messages.create_topics import CreatableTopic
from ottla.wire.messages.streams_group_heartbeat import Status as TellStatus
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.streams.shard import StreamsShard

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What goes to the member, and the topics that it waits for."""

    response: StreamsGroupHeartbeatResponse
    topics_to_create: Mapping[str, CreatableTopic]


class Heartbeat:
    """One heartbeat of a member that joins or stays. `is_new` says that the log does not have the group yet."""

    __slots__ = (
        "caller",
        "epoch",
        "group",
        "is_new",
        "records",
        "request",
        "settings",
        "statuses",
        "streams",
        "subject",
    )

    def __init__(
        self,
        streams: StreamsShard,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        *,
        is_new: bool,
        records: list[CoordinatorRecord],
    ) -> None:
        self.streams = streams
        self.group = group
        self.request = request
        self.caller = caller
        self.is_new = is_new
        self.records = records
        self.settings = streams.settings(group.group_id)
        self.statuses: list[TellStatus] = []
        self.epoch = group.epoch
        """The group's, after this heartbeat."""
        self.subject = f"[GroupId {group.group_id}][MemberId {request.member_id}]"

    def decide(self) -> Result[Answer]:
        request, group = self.request, self.group
        member = self._member()
        updated = member.told_by(request, self.caller.client_id, self.caller.client_host)
        is_changed = updated is not member and updated != member
        if is_changed:
            self.records.append(member_record(group.group_id, updated))
            log.info("%s Member updated its member metadata: client %s%s, process %s, topology epoch %d.", self.subject,
                     updated.client_id, updated.client_host, updated.process_id, updated.topology_epoch)  # fmt: skip
        topology = self._topology()
        self._tell_stale_topology(updated)
        configured, metadata_hash = self._configure(topology)
        self._bump_epoch(is_changed, topology, configured, metadata_hash)
        self._delay_first_assignment()
        target_epoch, target = self._target(updated, configured)
        reconciled = self._reconcile(updated, target_epoch, target)
        self.streams.start_session(group.group_id, reconciled.id, self.settings)
        if request.shutdown_application:
            self.streams.request_shutdown(group, reconciled.id)
        response = self._response(member, reconciled)
        to_create: dict[str, CreatableTopic] = {}
        if configured.problem is not None:
            to_create = {name: topic.creatable() for name, topic in configured.missing_topics.items()}
            self._tell(configured.problem.status, configured.problem.detail)
        if group.shutdown_requested_by is not None:
            self._tell(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a "
                "shutdown for the entire application.",
            )
        response.status = self.statuses
        return Result(Answer(response, to_create), self.records)

    # The member

    def _member(self) -> StreamsMember:
        request, group = self.request, self.group
        if request.member_epoch == 0:
            log.info("%s Member joins the streams group.", self.subject)
            return group.members.get(request.member_id) or StreamsMember(request.member_id)
        member = group.member(request.member_id)
        epoch = request.member_epoch
        if epoch > member.epoch:
            raise FencedMemberEpoch(
                f"The streams group member has a greater member epoch ({epoch}) than the one known by the group "
                f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
            )
        if epoch < member.epoch:
            # The answer that told it of its epoch may have been lost: then it has nothing that it was not given.
            owned = Tasks.owned(request)
            if epoch != member.previous_epoch or owned is None or not owned.is_within(member.assigned):
                raise FencedMemberEpoch(
                    f"The streams group member has a smaller member epoch ({epoch}) than the one known by the group "
                    f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
                )
        return member

    # The topology and its topics

    def _topology(self) -> Topology:
        """The group's topology; the first member to join gives it one."""
        sent, known = self.request.topology, self.group.topology
        if sent is None:
            if known is None:
                raise UnknownServerError("The topology is null and the group topology is also null.")
            return known
        value = topology_record(sent)
        if known is None:
            log.info("%s Member initialized the topology with epoch %d", self.subject, sent.epoch)
            if sent.epoch < 0:
                raise UnknownServerError("Topology epoch must be non-negative.")
            self.records.append(topology_written(self.group.group_id, value))
            return Topology.of_record(value)
        if known.epoch > sent.epoch:
            log.info("%s Member joined with stale topology epoch %d", self.subject, sent.epoch)
        elif known != Topology.of_record(value):
            raise InvalidRequest("Topology updates are not supported yet.")
        return known

    def _tell_stale_topology(self, member: StreamsMember) -> None:
        known = self.group.topology
        if known is not None and member.topology_epoch < known.epoch:
            self._tell(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
                f"{known.epoch}.",
            )

    def _configure(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology with its topics, and the hash of those: as they are known, or looked at anew."""
        group, image = self.group, self.streams.image
        known = group.configured
        if group.topology is not None and known is not None and not group.has_stale_metadata(self.streams.now_ms):
            return known, group.metadata_hash
        metadata_hash = self.streams.topic_hashes.group_hash(topology.required_topics, image)
        if metadata_hash != group.metadata_hash:
            log.info("%s Computed new metadata hash: %d.", self.subject, metadata_hash)
        elif group.topology is not None and known is not None:
            group.on_metadata_read(self.streams.now_ms, group.epoch)
            return known, metadata_hash
        log.info("%s Configuring the topology %d", self.subject, topology.epoch)
        configured = configure(self.subject, topology, image)
        group.configure(configured)
        return configured, metadata_hash

    def _bump_epoch(
        self, is_changed: bool, topology: Topology, configured: ConfiguredTopology, metadata_hash: int
    ) -> None:
        """Begin a new epoch of the group when anything has changed that a target is computed from."""
        group, request = self.group, self.request
        validated_epoch = -1
        if configured.is_ready:
            validated_epoch = topology.epoch
            for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
                _check_tasks(configured, tasks)
        configs = self.settings.assignment_configs
        if not (
            is_changed or metadata_hash != group.metadata_hash or validated_epoch != group.validated_topology_epoch
        ):
            if configs == group.assignment_configs:
                return
            log.info("%s Assignment configurations changed to %s. Triggering rebalance.", self.subject, configs)
        self.epoch += 1
        self.records.append(
            group_record(
                group.group_id,
                self.epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated_epoch,
                assignment_configs=configs,
            )
        )
        log.info("%s Bumped streams group epoch to %d with metadata hash %d and validated topic epoch %d.",
                 self.subject, self.epoch, metadata_hash, validated_epoch)  # fmt: skip
        self.streams.shard.metrics.streams_rebalances += 1
        group.on_metadata_read(self.streams.now_ms, self.epoch)

    # The target

    def _delay_first_assignment(self) -> None:
        """More members are likely to follow the first one; each rebalance less is state not moved."""
        if self.group.is_empty and self.settings.initial_rebalance_delay_ms > 0:
            self.streams.delay_assignment(self.group.group_id, self.settings.initial_rebalance_delay_ms)

    def _target(self, member: StreamsMember, configured: ConfiguredTopology) -> tuple[int, Tasks]:
        """The epoch of the target, and what this member should have in it."""
        group = self.group
        if self.streams.is_delayed(group.group_id):
            self._tell(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= self.epoch:
            return group.assignment_epoch, group.target_of(member.id)
        if not self.streams.may_assign(group):
            self._tell(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
            return group.assignment_epoch, group.target_of(member.id)
        target = compute_target(
            group,
            configured,
            epoch=self.epoch,
            updated=member,
            assignment_configs=self.settings.assignment_configs,
            now_ms=self.streams.now_ms,
        )
        log.info("[GroupId %s] Computed a new target assignment for epoch %d with 'sticky' assignor.",
                 group.group_id, self.epoch)  # fmt: skip
        self.records += target.records
        return self.epoch, target.tasks[member.id]

    def _reconcile(self, member: StreamsMember, target_epoch: int, target: Tasks) -> StreamsMember:
        if member.is_reconciled_to(target_epoch):
            return member
        group_id = self.group.group_id
        updated = reconcile(
            member,
            target_epoch=target_epoch,
            target=target,
            owned=Tasks.owned(self.request),
            owners=self.group.owners,
        )
        if updated == member:
            return updated
        self.records.append(current_record(group_id, updated))
        log.info("%s Member's new assignment state: epoch=%d, previousEpoch=%d, state=%s, assignedTasks=%s and "
                 "tasksPendingRevocation=%s.", self.subject, updated.epoch, updated.previous_epoch, updated.state.name,
                 updated.assigned, updated.pending_revocation)  # fmt: skip
        if updated.state is MemberState.UNREVOKED_TASKS:
            self.streams.start_rebalance_timeout(group_id, updated)
        else:
            self.streams.end_rebalance_timeout(group_id, updated.id)
        return updated

    # The answer

    def _response(self, before: StreamsMember, member: StreamsMember) -> StreamsGroupHeartbeatResponse:
        group, request = self.group, self.request
        response = StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
        )
        if request.member_epoch == 0 or (before.assigned is not member.assigned and before.assigned != member.assigned):
            assigned = member.assigned
            response.active_tasks = [TaskIds(id, sorted(assigned.active[id])) for id in sorted(assigned.active)]
            response.standby_tasks = _task_ids(assigned.standby)
            response.warmup_tasks = _task_ids(assigned.warmup)
            group.endpoints.forget(member.id)
            if member.user_endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            others = [one for id, one in group.members.items() if id != member.id]
            subtopologies = {} if group.configured is None else group.configured.subtopologies
            response.partitions_by_user_endpoint = group.endpoints.told(
                [*others, member], subtopologies, self.streams.image
            )
        if not self.is_new:
            response.endpoint_information_epoch = group.endpoint_epoch
        return response

    def _tell(self, status: Status, detail: str) -> None:
        self.statuses.append(TellStatus(status, detail))


def _check_tasks(configured: ConfiguredTopology, tasks: list[TaskIds] | None) -> None:
    """`InvalidRequest` for a task that the topology does not have."""
    for one in tasks or ():
        subtopology = configured.subtopologies.get(one.subtopology_id)
        if subtopology is None:
            raise InvalidRequest(f"Subtopology {one.subtopology_id} does not exist in the topology.")
        for partition in one.partitions:
            if not 0 <= partition < subtopology.task_count:
                raise InvalidRequest(
                    f"Task {partition} for subtopology {one.subtopology_id} is invalid. Number of tasks for this "
                    f"subtopology: {subtopology.task_count}"
                )


def _task_ids(tasks: TaskMap) -> list[TaskIds]:
    return [TaskIds(id, sorted(tasks[id])) for id in sorted(tasks)]

"""Groups of Kafka Streams applications: their topology, their members and who runs which tasks (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.driver import Call, Driver, failure, names_of
from ottla.client.admin.groups import GroupState
from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.network import Node
from ottla.errors import KafkaError
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)

Tasks = Mapping[str, tuple[int, ...]]
"""Partitions by subtopology: each is a task."""


@dataclass(frozen=True, slots=True)
class StreamsTopic:
    """An internal topic of a subtopology: 0 partitions or replicas leave the number to the group or the broker."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[StreamsTopic, ...]
    repartition_source_topics: tuple[StreamsTopic, ...]


@dataclass(frozen=True, slots=True)
class StreamsAssignment:
    active_tasks: Tasks
    standby_tasks: Tasks
    warmup_tasks: Tasks


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One thread of an application: its process, where that is to be asked, and what it runs."""

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    task_offsets: Mapping[tuple[str, int], int]
    task_end_offsets: Mapping[tuple[str, int], int]
    assignment: StreamsAssignment
    target_assignment: StreamsAssignment
    is_classic: bool


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    group_id: str
    state: GroupState
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMember, ...]
    coordinator: Node
    authorized_operations: frozenset[AclOperation] | None = None


def describe_streams_groups(
    driver: Driver, group_ids: Iterable[str], *, include_authorized_operations: bool, timeout: float | None
) -> Outcomes[str, StreamsGroupDescription]:
    def build(node_id: int, keys: list[str]) -> StreamsGroupDescribeRequest:
        return StreamsGroupDescribeRequest(group_ids=keys, include_authorized_operations=include_authorized_operations)

    def read(
        node_id: int, keys: list[str], response: StreamsGroupDescribeResponse
    ) -> Iterable[tuple[str, StreamsGroupDescription | KafkaError]]:
        for one in response.groups:
            error = failure(one.error_code, one.error_message)
            yield one.group_id, error or _group(one, driver.nodes.node(node_id))

    return driver.drive(Call("DescribeStreamsGroups", driver.groups, build, read), names_of(group_ids), timeout)


def _group(told: DescribedGroup, coordinator: Node) -> StreamsGroupDescription:
    topology = told.topology
    return StreamsGroupDescription(
        told.group_id,
        GroupState.parse(told.group_state),
        told.group_epoch,
        told.assignment_epoch,
        -1 if topology is None else topology.epoch,
        () if topology is None else tuple(_subtopology(one) for one in topology.subtopologies or ()),
        tuple(_member(one) for one in told.members),
        coordinator,
        operations_of(told.authorized_operations),
    )


def _subtopology(told: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        told.subtopology_id,
        tuple(told.source_topics),
        tuple(told.repartition_sink_topics),
        tuple(_topic(one) for one in told.state_changelog_topics),
        tuple(_topic(one) for one in told.repartition_source_topics),
    )


def _topic(told: TopicInfo) -> StreamsTopic:
    return StreamsTopic(
        told.name, told.partitions, told.replication_factor, {one.key: one.value for one in told.topic_configs}
    )


def _member(told: Member) -> StreamsMember:
    endpoint = told.user_endpoint
    return StreamsMember(
        told.member_id,
        told.member_epoch,
        told.instance_id,
        told.rack_id,
        told.client_id,
        told.client_host,
        told.topology_epoch,
        told.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {one.key: one.value for one in told.client_tags},
        _offsets(told.task_offsets),
        _offsets(told.task_end_offsets),
        _assignment(told.assignment),
        _assignment(told.target_assignment),
        told.is_classic,
    )


def _offsets(told: list[TaskOffset]) -> dict[tuple[str, int], int]:
    return {(one.subtopology_id, one.partition): one.offset for one in told}


def _assignment(told: Assignment) -> StreamsAssignment:
    return StreamsAssignment(_tasks(told.active_tasks), _tasks(told.standby_tasks), _tasks(told.warmup_tasks))


def _tasks(told: list[TaskIds]) -> Tasks:
    return {one.subtopology_id: tuple(one.partitions) for one in told}

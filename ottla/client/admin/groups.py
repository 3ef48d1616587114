"""Groups of every type: list, describe, delete, and take members out."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.client.admin.driver import Call, Driver, Parts, check, failure, names_of
from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import Route
from ottla.client.network import Build, Deadline, Node
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    KafkaError,
    UnsupportedVersion,
)
from ottla.types import TopicPartition
from ottla.wire import DecodeError, read_versioned
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

log = logging.getLogger(__name__)

CONSUMER_PROTOCOL = "consumer"
LIST_GROUPS_KEY = 16
DESCRIBE_GROUPS_KEY = 15
LEAVE_GROUP_KEY = 13


class GroupType(Enum):
    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def parse(cls, text: str) -> GroupType:
        """The type of that name, in whatever case."""
        return next((one for one in cls if one.value.lower() == text.lower()), cls.UNKNOWN)


class GroupState(Enum):
    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str) -> GroupState:
        """The state of that name, in whatever case."""
        return next((one for one in cls if one.value.lower() == text.lower()), cls.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that there is. Type and state are None where the broker is too old to tell."""

    group_id: str
    type: GroupType | None
    protocol: str
    state: GroupState | None

    @property
    def is_simple(self) -> bool:
        """Whether it only keeps offsets: nobody has ever joined it."""
        return self.type in (GroupType.CLASSIC, None) and not self.protocol


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a classic or consumer group; what only the newer protocol has is None in the older one."""

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    is_upgraded: bool | None = None
    """In a consumer group: whether it speaks the consumer protocol, and not the classic one."""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group of consumers, in either protocol."""

    group_id: str
    type: GroupType
    state: GroupState
    members: tuple[MemberDescription, ...]
    partition_assignor: str
    coordinator: Node
    is_simple: bool = False
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of any classic group. What its protocol says is in bytes; the partitions of consumers are read."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment_bytes: bytes
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A classic group, whatever its members are: consumers, Connect workers, a schema registry."""

    group_id: str
    protocol: str
    protocol_data: str
    state: GroupState
    members: tuple[ClassicMember, ...]
    coordinator: Node
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ShareMember:
    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    member_epoch: int
    subscribed_topic_names: tuple[str, ...]
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    group_id: str
    state: GroupState
    members: tuple[ShareMember, ...]
    partition_assignor: str
    coordinator: Node
    group_epoch: int
    target_assignment_epoch: int
    authorized_operations: frozenset[AclOperation] | None = None


# Listing


async def list_groups(
    driver: Driver,
    *,
    states: Iterable[GroupState],
    types: Iterable[GroupType],
    protocol_types: Iterable[str],
    timeout: float | None,
) -> list[GroupListing]:
    deadline = driver.deadline(timeout)
    wanted_states, wanted_types, protocols = list(states), list(types), set(names_of(protocol_types))

    def build(node_id: int, keys: list[int]) -> Build:
        def make(version: int) -> ListGroupsRequest:
            if version < 4 and wanted_states:
                raise UnsupportedVersion("The broker is too old to list groups by their state")
            if version < 5 and wanted_types:
                raise UnsupportedVersion("The broker is too old to list groups by their type")
            return ListGroupsRequest(
                states_filter=[one.value for one in wanted_states], types_filter=[one.value for one in wanted_types]
            )

        return Build(LIST_GROUPS_KEY, make)

    def read(
        node_id: int, keys: list[int], response: ListGroupsResponse
    ) -> Iterable[tuple[int, list[GroupListing] | KafkaError]]:
        check(response.error_code)
        yield (
            node_id,
            [
                GroupListing(
                    one.group_id,
                    GroupType.parse(one.group_type) if one.group_type else None,
                    one.protocol_type,
                    GroupState.parse(one.group_state) if one.group_state else None,
                )
                for one in response.groups
                if not protocols or one.protocol_type in protocols
            ],
        )

    route: Route[int] = driver.node_of(lambda broker: broker, CoordinatorLoadInProgress, CoordinatorNotAvailable)
    brokers = await driver.brokers(deadline)
    outcomes = await driver.each(Call("ListGroups", route, build, read), brokers, deadline)
    # A group that moves while its brokers are asked may be told twice.
    found = {listing.group_id: listing for listings in outcomes.all().values() for listing in listings}
    return [found[group_id] for group_id in sorted(found)]


# Describing


def describe_consumer_groups(
    driver: Driver, group_ids: Iterable[str], *, include_authorized_operations: bool, timeout: float | None
) -> Outcomes[str, ConsumerGroupDescription]:
    deadline = driver.deadline(timeout)

    async def work(outcomes: Outcomes[str, ConsumerGroupDescription]) -> None:
        """In the newer protocol first; what is not one of its groups may be a classic one."""
        newer = await _describe_newer(driver, outcomes, include_authorized_operations, deadline)
        for key, outcome in newer.items():
            if isinstance(outcome.error, GroupIdNotFound | UnsupportedVersion):
                continue
            outcomes.settle(key, outcome.error or outcome.result())
        older = await _classic(driver, outcomes.unsettled(), include_authorized_operations, deadline)
        for key, found in older.items():
            outcomes.settle(key, found.error or _as_consumer_group(found.result()))

    return driver.start("DescribeConsumerGroups", names_of(group_ids), work)


async def _describe_newer(
    driver: Driver, group_ids: Iterable[str], with_operations: bool, deadline: Deadline
) -> Outcomes[str, ConsumerGroupDescription]:
    def build(node_id: int, keys: list[str]) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=keys, include_authorized_operations=with_operations)

    def read(
        node_id: int, keys: list[str], response: ConsumerGroupDescribeResponse
    ) -> Iterable[tuple[str, ConsumerGroupDescription | KafkaError]]:
        for one in response.groups:
            error = failure(one.error_code, one.error_message)
            if error is not None:
                yield one.group_id, error
                continue
            members = tuple(
                MemberDescription(
                    member.member_id,
                    member.instance_id,
                    member.rack_id,
                    member.client_id,
                    member.client_host,
                    _partitions(member.assignment),
                    _partitions(member.target_assignment),
                    member.member_epoch,
                    None if member.member_type == -1 else member.member_type == 1,
                    tuple(member.subscribed_topic_names),
                    member.subscribed_topic_regex,
                )
                for member in one.members
            )
            yield (
                one.group_id,
                ConsumerGroupDescription(
                    one.group_id,
                    GroupType.CONSUMER,
                    GroupState.parse(one.group_state),
                    members,
                    one.assignor_name,
                    driver.nodes.node(node_id),
                    False,
                    one.group_epoch,
                    one.assignment_epoch,
                    operations_of(one.authorized_operations),
                ),
            )

    return await driver.each(Call("DescribeConsumerGroups", driver.groups, build, read), group_ids, deadline)


def _partitions(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _as_consumer_group(group: ClassicGroupDescription) -> ConsumerGroupDescription | KafkaError:
    if group.protocol not in (CONSUMER_PROTOCOL, ""):
        return InconsistentGroupProtocol(f"Group {group.group_id} is not a consumer group ({group.protocol})")
    members = tuple(
        MemberDescription(one.member_id, one.group_instance_id, None, one.client_id, one.host, one.assignment)
        for one in group.members
    )
    return ConsumerGroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        group.state,
        members,
        group.protocol_data,
        group.coordinator,
        not group.protocol,
        authorized_operations=group.authorized_operations,
    )


def describe_classic_groups(
    driver: Driver, group_ids: Iterable[str], *, include_authorized_operations: bool, timeout: float | None
) -> Outcomes[str, ClassicGroupDescription]:
    call = _classic_call(driver, include_authorized_operations)
    return driver.drive(call, names_of(group_ids), timeout)


async def _classic(
    driver: Driver, group_ids: list[str], with_operations: bool, deadline: Deadline
) -> Outcomes[str, ClassicGroupDescription]:
    call = _classic_call(driver, with_operations)
    return await driver.each(call, group_ids, deadline)


def _classic_call(driver: Driver, with_operations: bool) -> Call[str, ClassicGroupDescription]:
    def build(node_id: int, keys: list[str]) -> Build:
        def make(version: int) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(groups=keys, include_authorized_operations=with_operations and version >= 3)

        return Build(DESCRIBE_GROUPS_KEY, make)

    def read(
        node_id: int, keys: list[str], response: DescribeGroupsResponse
    ) -> Iterable[tuple[str, ClassicGroupDescription | KafkaError]]:
        for one in response.groups:
            yield (
                one.group_id,
                failure(one.error_code, one.error_message) or _classic_group(one, driver.nodes.node(node_id)),
            )

    return Call("DescribeGroups", driver.groups, build, read)


def _classic_group(told: DescribedGroup, coordinator: Node) -> ClassicGroupDescription:
    is_consumers = told.protocol_type in (CONSUMER_PROTOCOL, "")
    members = tuple(
        ClassicMember(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.client_host,
            bytes(one.member_metadata),
            bytes(one.member_assignment),
            _consumer_assignment(bytes(one.member_assignment)) if is_consumers else frozenset(),
        )
        for one in told.members
    )
    return ClassicGroupDescription(
        told.group_id,
        told.protocol_type,
        told.protocol_data,
        GroupState.parse(told.group_state),
        members,
        coordinator,
        operations_of(told.authorized_operations),
    )


def _consumer_assignment(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions in the bytes that a consumer's assignor made; none while the group rebalances."""
    from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment

    if not assignment:
        return frozenset()
    try:
        read, _ = read_versioned(ConsumerProtocolAssignment, assignment)
    except DecodeError as error:
        log.warning("A member's assignment is not what consumers write, and is left out: %s", error)
        return frozenset()
    return frozenset(
        TopicPartition(topic.topic, index) for topic in read.assigned_partitions for index in topic.partitions
    )


def describe_share_groups(
    driver: Driver, group_ids: Iterable[str], *, include_authorized_operations: bool, timeout: float | None
) -> Outcomes[str, ShareGroupDescription]:
    def build(node_id: int, keys: list[str]) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(group_ids=keys, include_authorized_operations=include_authorized_operations)

    def read(
        node_id: int, keys: list[str], response: ShareGroupDescribeResponse
    ) -> Iterable[tuple[str, ShareGroupDescription | KafkaError]]:
        for one in response.groups:
            error = failure(one.error_code, one.error_message)
            if error is not None:
                yield one.group_id, error
                continue
            members = tuple(
                ShareMember(
                    member.member_id,
                    member.rack_id,
                    member.client_id,
                    member.client_host,
                    member.member_epoch,
                    tuple(member.subscribed_topic_names),
                    _partitions(member.assignment),
                )
                for member in one.members
            )
            yield (
                one.group_id,
                ShareGroupDescription(
                    one.group_id,
                    GroupState.parse(one.group_state),
                    members,
                    one.assignor_name,
                    driver.nodes.node(node_id),
                    one.group_epoch,
                    one.assignment_epoch,
                    operations_of(one.authorized_operations),
                ),
            )

    return driver.drive(Call("DescribeShareGroups", driver.groups, build, read), names_of(group_ids), timeout)


# Deleting


def delete_groups(driver: Driver, group_ids: Iterable[str], *, timeout: float | None) -> Outcomes[str, None]:
    def build(node_id: int, keys: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=keys)

    def read(node_id: int, keys: list[str], response: DeleteGroupsResponse) -> Iterable[tuple[str, KafkaError | None]]:
        for one in response.results:
            yield one.group_id, failure(one.error_code)

    call: Call[str, None] = Call("DeleteGroups", driver.groups, build, read)
    return driver.drive(call, names_of(group_ids), timeout)


async def remove_members_from_consumer_group(
    driver: Driver,
    group_id: str,
    group_instance_ids: Iterable[str] | None,
    *,
    reason: str | None,
    timeout: float | None,
) -> Outcomes[str, None]:
    deadline = driver.deadline(timeout)
    if group_instance_ids is None:
        described = (await _classic(driver, [group_id], False, deadline))[group_id].result()
        # A static member leaves by its instance id: by its member id it would only be away for a while.
        members = {
            one.group_instance_id or one.member_id: MemberIdentity(
                member_id="" if one.group_instance_id else one.member_id, group_instance_id=one.group_instance_id
            )
            for one in described.members
        }
    else:
        members = {name: MemberIdentity(member_id="", group_instance_id=name) for name in names_of(group_instance_ids)}
    why = "member was removed by an admin" if not reason else f"member was removed by an admin: {reason}"
    for identity in members.values():
        identity.reason = why

    def make(version: int) -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id=group_id, members=list(members.values()))

    def build(node_id: int, keys: list[str]) -> Build:
        return Build(LEAVE_GROUP_KEY, make, version_min=3)

    def read(
        node_id: int, keys: list[str], response: LeaveGroupResponse
    ) -> Iterable[tuple[str, Parts[str, None] | KafkaError]]:
        check(response.error_code)
        yield group_id, {one.group_instance_id or one.member_id: failure(one.error_code) for one in response.members}

    return await driver.parts(Call("LeaveGroup", driver.groups, build, read), group_id, members, deadline)

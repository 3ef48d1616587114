"""Groups of a fake cluster: who there is, what they have committed, and taking them apart."""

from __future__ import annotations

from ottla.client.admin.fake.cluster import FakeCluster, Handler, refusal
from ottla.client.admin.fake.state import FakeGroup, FakeMember
from ottla.client.admin.groups import CONSUMER_PROTOCOL, GroupType
from ottla.client.group import OffsetAndMetadata
from ottla.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidGroupId,
    KafkaError,
    NonEmptyGroup,
    UnknownMemberId,
)
from ottla.types import TopicPartition
from ottla.wire import write_versioned
from ottla.wire.data.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)


def _group(cluster: FakeCluster, group_id: str) -> FakeGroup:
    group = cluster.groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"Group {group_id} not found.")
    return group


# Telling


def _list_groups(cluster: FakeCluster, node_id: int, request: ListGroupsRequest) -> ListGroupsResponse:
    if node_id != min(cluster.nodes):
        return ListGroupsResponse()  # each group is told by one broker, and it does not matter which
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol,
                group_state=group.state.value,
                group_type=group.type.value,
            )
            for group in cluster.groups.values()
            if (not states or group.state.value.lower() in states) and (not types or group.type.value.lower() in types)
        ]
    )


def _describe_groups(cluster: FakeCluster, node_id: int, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = []
    for group_id in request.groups:
        told = DescribedGroup(group_id=group_id)
        try:
            group = _group(cluster, group_id)
            if group.type is not GroupType.CLASSIC:
                raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
            told.group_state, told.protocol_type, told.protocol_data = group.state.value, group.protocol, group.assignor
            told.members = [_classic_member(member) for member in group.members]
        except KafkaError as error:
            told.error_code, told.error_message = refusal(error)
            told.group_state = "Dead"
        groups.append(told)
    return DescribeGroupsResponse(groups=groups)


def _classic_member(member: FakeMember) -> DescribedGroupMember:
    assigned = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(member).items()
        ]
    )
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.host,
        member_metadata=b"",
        member_assignment=write_versioned(assigned, 0),
    )


def _by_topic(member: FakeMember) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(member.assignment):
        topics.setdefault(topic, []).append(index)
    return topics


def _describe_consumer_groups(
    cluster: FakeCluster, node_id: int, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = []
    for group_id in request.group_ids:
        told = DescribedConsumerGroup(group_id=group_id)
        try:
            group = _group(cluster, group_id)
            if group.type is not GroupType.CONSUMER:
                raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
            told.group_state, told.assignor_name = group.state.value, group.assignor
            told.group_epoch = told.assignment_epoch = len(group.members)
            told.members = [_member(cluster, member) for member in group.members]
        except KafkaError as error:
            told.error_code, told.error_message = refusal(error)
        groups.append(told)
    return ConsumerGroupDescribeResponse(groups=groups)


def _member(cluster: FakeCluster, member: FakeMember) -> Member:
    assignment = Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=cluster.topics[topic].topic_id, topic_name=topic, partitions=indexes)
            for topic, indexes in _by_topic(member).items()
            if topic in cluster.topics
        ]
    )
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        member_epoch=1,
        client_id=member.client_id,
        client_host=member.host,
        subscribed_topic_names=list(member.topics),
        assignment=assignment,
        target_assignment=assignment,
        member_type=1,
    )


# Taking apart


def _delete_groups(cluster: FakeCluster, node_id: int, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    results = []
    for group_id in request.groups_names:
        code = 0
        try:
            if _group(cluster, group_id).members:
                raise NonEmptyGroup
            del cluster.groups[group_id]
        except KafkaError as error:
            code = error.code
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return DeleteGroupsResponse(results=results)


def _leave_group(cluster: FakeCluster, node_id: int, request: LeaveGroupRequest) -> LeaveGroupResponse:
    group = cluster.groups.get(request.group_id)
    members = []
    for leaving in request.members:
        found = None
        if group is not None:
            wanted = leaving.group_instance_id
            found = next(
                (
                    member
                    for member in group.members
                    if (member.group_instance_id == wanted if wanted else member.member_id == leaving.member_id)
                ),
                None,
            )
        if found is not None and group is not None:
            group.members.remove(found)
        code = 0 if found is not None else UnknownMemberId.code
        members.append(
            MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)
        )
    return LeaveGroupResponse(members=members)


# Offsets


def _offset_fetch(cluster: FakeCluster, node_id: int, request: OffsetFetchRequest) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[_fetched(cluster, asked) for asked in request.groups])


def _fetched(cluster: FakeCluster, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    group = cluster.groups.get(asked.group_id)
    offsets = {} if group is None else group.offsets
    if asked.topics is None:
        keys = list(offsets)
    else:
        keys = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for key in keys:
        topic = topics.setdefault(key.topic, OffsetFetchResponseTopics(name=key.topic))
        topic.partitions.append(_committed(key.partition, offsets.get(key)))
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=list(topics.values()))


def _committed(index: int, offset: OffsetAndMetadata | None) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        metadata=offset.metadata,
    )


def _offset_commit(cluster: FakeCluster, node_id: int, request: OffsetCommitRequest) -> OffsetCommitResponse:
    group = cluster.groups.get(request.group_id)
    refused = 0
    if not request.group_id:
        refused = InvalidGroupId.code
    elif group is not None and group.members:
        refused = UnknownMemberId.code  # only members may commit while there are any
    topics = []
    for topic in request.topics:
        told = OffsetCommitResponseTopic(name=topic.name)
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            code = refused or _missing(cluster, key)
            if not code:
                # The first commit makes the group, one that only keeps offsets.
                group = group or cluster.groups.setdefault(request.group_id, FakeGroup(request.group_id))
                epoch = one.committed_leader_epoch if one.committed_leader_epoch >= 0 else None
                group.offsets[key] = OffsetAndMetadata(one.committed_offset, one.committed_metadata or "", epoch)
            told.partitions.append(OffsetCommitResponsePartition(partition_index=key.partition, error_code=code))
        topics.append(told)
    return OffsetCommitResponse(topics=topics)


def _missing(cluster: FakeCluster, key: TopicPartition) -> int:
    try:
        cluster.partition(key)
    except KafkaError as error:
        return error.code
    return 0


def _offset_delete(cluster: FakeCluster, node_id: int, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    group = cluster.groups.get(request.group_id)
    if group is None:
        return OffsetDeleteResponse(error_code=GroupIdNotFound.code)
    if group.members and group.protocol != CONSUMER_PROTOCOL:
        return OffsetDeleteResponse(error_code=NonEmptyGroup.code)
    topics = []
    for topic in request.topics:
        told = OffsetDeleteResponseTopic(name=topic.name)
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            code = _missing(cluster, key)
            if not code and group.reads(topic.name):
                code = GroupSubscribedToTopic.code
            if not code:
                group.offsets.pop(key, None)
            told.partitions.append(OffsetDeleteResponsePartition(partition_index=key.partition, error_code=code))
        topics.append(told)
    return OffsetDeleteResponse(topics=topics)


HANDLERS: dict[int, Handler] = {
    8: _offset_commit,
    9: _offset_fetch,
    13: _leave_group,
    15: _describe_groups,
    16: _list_groups,
    42: _delete_groups,
    47: _offset_delete,
    69: _describe_consumer_groups,
}

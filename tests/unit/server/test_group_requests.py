"""`ottla/server/group_requests.py`, and every version of the APIs that it serves."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import CoordinatorLoadInProgress, KafkaError, UnknownTopicId
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caught, java_address
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import APIS, Message
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.world import Promise
from tests.unit.coordinator.group.doors import VirtualDoor
from tests.unit.replica.node import topic_id


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1:2%eth0", "/fe80:0:0:0:0:0:1:2"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
    ],
)
def test_an_address_is_told_as_java_prints_it(host: str, told: str) -> None:
    assert java_address(host) == told


def test_an_error_that_is_not_for_the_group_goes_on_to_whoever_asked() -> None:
    """One that comes late, too: the answer was once never given."""
    door = VirtualDoor({"t": 1})
    tasks = door.node.world.tasks
    connection = door.node.connection
    context = BrokerContext(5, 1, "test", connection, door.node.context, door.node.broker)

    def again(error: KafkaError) -> str:
        raise error

    for is_late in (False, True):
        promise: Promise[str] = tasks.promise()
        if not is_late:
            promise.set_exception(CoordinatorLoadInProgress())
        answer = caught(context, promise, again)
        if is_late:
            promise.set_exception(CoordinatorLoadInProgress())
        door.run_ms(1)
        with pytest.raises(CoordinatorLoadInProgress):
            answer.result()
    door.close()


def request(name: str, version: int, member_id: str) -> Message:
    """A request that a member of a group of one would send, as that version has it."""
    by_id = version >= 10
    match name:
        case "JoinGroup":
            protocols = [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")]
            return JoinGroupRequest("g", 10_000, 10_000, member_id, None, "consumer", protocols)
        case "SyncGroup":
            sync = SyncGroupRequest("g", 1, member_id, assignments=[SyncGroupRequestAssignment(member_id, b"x")])
            if version >= 5:
                sync.protocol_type, sync.protocol_name = "consumer", "range"
            return sync
        case "Heartbeat":
            return HeartbeatRequest("g", 1, member_id)
        case "LeaveGroup":
            if version < 3:
                return LeaveGroupRequest("g", member_id="nobody")
            return LeaveGroupRequest("g", members=[MemberIdentity("nobody")])
        case "DescribeGroups":
            return DescribeGroupsRequest(["g", "nothing"], version >= 3)
        case "ListGroups":
            return ListGroupsRequest(["stable"] if version >= 4 else [], ["classic"] if version >= 5 else [])
        case "DeleteGroups":
            return DeleteGroupsRequest(["g", "nothing"])
        case "OffsetCommit":
            partitions = [OffsetCommitRequestPartition(0, 5, -1, "m"), OffsetCommitRequestPartition(9, 5, -1, None)]
            topic = OffsetCommitRequestTopic(*(("", topic_id("t")) if by_id else ("t", ZERO_UUID)), partitions)
            return OffsetCommitRequest("g", 1, member_id, topics=[topic])
        case "OffsetFetch":
            if version < 8:
                return OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("t", [0, 9])])
            asked = OffsetFetchRequestTopics(*(("", topic_id("t")) if by_id else ("t", ZERO_UUID)), [0, 9])
            groups = [OffsetFetchRequestGroup("g", topics=[asked]), OffsetFetchRequestGroup("nothing", topics=None)]
            return OffsetFetchRequest(groups=groups, require_stable=True)
        case _:
            assert name == "OffsetDelete", name
            return OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("u", [OffsetDeleteRequestPartition(0)])])


def test_topics_that_are_not_known_by_their_ids_are_told_apart() -> None:
    door = VirtualDoor({"t": 1})
    ids = [Uuid(16 * b"\5"), topic_id("t"), Uuid(16 * b"\6")]
    one = [OffsetCommitRequestPartition(0, 5, -1, None)]
    door.begin("-", OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("", uuid, one) for uuid in ids]), 10)
    door.run_ms(1)
    ((_, answer),) = door.answers()
    told = {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics}  # type: ignore[attr-defined]
    assert told == {ids[0]: UnknownTopicId.code, ids[1]: 0, ids[2]: UnknownTopicId.code}
    door.close()


GROUP_APIS = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "DescribeGroups",
    "ListGroups",
    "DeleteGroups",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
]
VERSIONS = [
    (api.name, version)
    for api in APIS.values()
    if api.name in GROUP_APIS
    for version in range(api.versions.first, api.versions.last + 1)
]


def codes(answer: Any) -> list[int]:
    """All error codes in a message, in order."""
    found = []
    for field in answer.schema.fields:
        value = getattr(answer, field.name)
        if field.name == "error_code":
            found.append(value)
        elif isinstance(value, list):
            found += [code for one in value if hasattr(one, "schema") for code in codes(one)]
    return found


# What each of them is told besides success, by name: unknown members (25), groups that do not exist (69), groups with
# members (68), partitions that do not exist (3).
COMPLAINTS = {
    "LeaveGroup": {25},
    "DescribeGroups": {69},
    "DeleteGroups": {68, 69},
    "OffsetCommit": {3},
}


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_every_version_of_a_group_api_is_answered(name: str, version: int) -> None:
    door = VirtualDoor({"t": 2, "u": 1}, {"group.initial.rebalance.delay.ms": 0})
    try:
        door.begin("a", request("JoinGroup", 3, ""), 3)
        door.run_ms(10)
        ((_, joined),) = door.answers()
        member_id = joined.member_id  # type: ignore[attr-defined]
        if name != "SyncGroup":
            door.begin("a", request("SyncGroup", 3, member_id), 3)
            door.run_ms(10)
            assert codes(door.answers()[0][1]) == [0]
        door.begin("a", request(name, version, member_id), version)
        door.run_ms(10)
        ((_, answer),) = door.answers()
        told = set(codes(answer)) - {0}
        if name == "DescribeGroups" and version < 6:
            assert not told
        else:
            assert told == COMPLAINTS.get(name, set())
    finally:
        door.close()

"""What members and committers ask is asked of old brokers too: every request can be written in every version."""

from __future__ import annotations

import pytest

from ottla.client.group import GroupMetadata, OffsetAndMetadata
from ottla.client.group.classic_member import ClassicMember
from ottla.client.group.commits import Identity, commit_request, fetch_request
from ottla.client.group.context import GroupContext
from ottla.client.metrics import Metrics
from ottla.client.network import Cluster, PartitionInfo, TopicInfo
from ottla.errors import UnsupportedVersion
from ottla.types import TopicPartition, Uuid
from ottla.wire import APIS, Message, decode, encode
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from tests.support.broker_cluster import BrokerCluster
from tests.unit.client.group.face import Face

PLACE = TopicPartition("t", 3)
TOPIC_ID = Uuid(16 * b"t")


@pytest.fixture
def context() -> GroupContext:
    """One whose cluster has the topic."""
    world = BrokerCluster(1).client_world()
    face = Face(world, [], {"bootstrap.servers": "broker1:9092", "group.id": "g"})
    face.metrics = Metrics("another", world.clock.monotonic_ms)
    context = GroupContext(face.network, face.metadata, face.config, face)
    context.metadata.cluster = Cluster(topics={"t": TopicInfo("t", TOPIC_ID, {3: PartitionInfo("t", 3, 1)})})
    return context


def joined() -> ClassicMember:
    member = ClassicMember("g", instance_id=None, session_timeout_ms=1, rebalance_timeout_ms=2)
    member.join_request([("range", b"x")])
    member.on_join(JoinGroupResponse(generation_id=1, protocol_name="range", leader="m", member_id="m"))
    return member


@pytest.mark.parametrize("version", range(APIS[11].versions.first, APIS[11].versions.last + 1))
def test_join_group(version: int) -> None:
    member = ClassicMember("g", instance_id=None, session_timeout_ms=1, rebalance_timeout_ms=2)
    written = encode(member.join_request([("range", b"x")]), version)
    assert decode(JoinGroupRequest, version, memoryview(written)).protocols[0].name == "range"


@pytest.mark.parametrize("key", [12, 13, 14])
def test_heartbeat_leave_group_and_sync_group(key: int) -> None:
    for version in range(APIS[key].versions.first, APIS[key].versions.last + 1):
        member = joined()
        request: Message
        if key == 12:
            request = member.heartbeat_request()
        elif key == 14:
            request = member.sync_request([("m", b"x")])
        else:
            make = member.leave_request("done")
            assert make is not None
            request = make(version)
        assert encode(request, version)


@pytest.mark.parametrize("version", range(APIS[8].versions.first, APIS[8].versions.last + 1))
def test_offset_commit_names_topics_by_id_from_version_10_on(context: GroupContext, version: int) -> None:
    build, ids = commit_request(context, {PLACE: OffsetAndMetadata(5, "text", 7)}, Identity(1, "m"))
    request = build.make(version)
    read = decode(OffsetCommitRequest, version, memoryview(encode(request, version)))
    (topic,) = read.topics
    assert (topic.name, topic.topic_id) == (("", TOPIC_ID) if version >= 10 else ("t", Uuid(16)))
    assert topic.partitions[0].committed_metadata == "text"
    assert ids == {TOPIC_ID: "t"}
    assert build.version_max >= 10


@pytest.mark.parametrize("version", range(APIS[9].versions.first, APIS[9].versions.last + 1))
def test_offset_fetch_names_topics_by_id_from_version_10_on(context: GroupContext, version: int) -> None:
    build, _ = fetch_request(context, [PLACE], Identity(4, "m"))
    read = decode(OffsetFetchRequest, version, memoryview(encode(build.make(version), version)))
    if version >= 8:
        (group,) = read.groups
        assert group.topics is not None
        assert group.topics[0].topic_id == (TOPIC_ID if version >= 10 else Uuid(16))
        assert (group.member_id, group.member_epoch) == (("m", 4) if version >= 9 else (None, -1))
    else:
        assert read.topics is not None
        assert read.topics[0].name == "t"
    assert read.require_stable == (version >= 7)


def test_a_topic_without_an_id_is_named(context: GroupContext) -> None:
    build, ids = commit_request(context, {TopicPartition("other", 0): OffsetAndMetadata(5)}, Identity())
    assert build.version_max == 9
    assert ids == {}
    build, _ = fetch_request(context, [TopicPartition("other", 0), PLACE], Identity())
    assert build.version_max == 9


def test_a_broker_too_old_for_static_members_is_not_committed_to_by_one(context: GroupContext) -> None:
    build, _ = commit_request(context, {PLACE: OffsetAndMetadata(5)}, Identity(1, "m", "instance"))
    with pytest.raises(UnsupportedVersion):
        build.make(6)


def test_who_a_consumer_is_says_its_group_before_it_has_joined() -> None:
    world = BrokerCluster(1).client_world()
    face = Face(world, ["t"], {"bootstrap.servers": "broker1:9092", "group.id": "g", "group.instance.id": "i"})
    assert face.group.group_metadata() == GroupMetadata("g", -1, "", "i")

"""`ottla/server/handlers/streams_group_heartbeat.py` and `streams_group_describe.py`: what needs no group."""

from __future__ import annotations

from typing import Any

from ottla.errors import GroupIdNotFound, InvalidGroupId, UnsupportedVersion
from ottla.server.operations import GROUP_OPERATIONS, NOT_ASKED
from ottla.wire import Message
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.coordinator.group.streams.doors import VirtualDoor
from tests.unit.coordinator.group.streams.player import Player
from tests.unit.replica.node import TestNode

HEARTBEAT = StreamsGroupHeartbeatRequest(group_id="app", member_id="m1", member_epoch=1)
DESCRIBE = StreamsGroupDescribeRequest(group_ids=["app", "other"])


def errors_of(node: TestNode, request: Message) -> list[int]:
    response: Any = node.send(request, 0)
    return [one.error_code for one in getattr(response, "groups", [response])]


def test_streams_groups_are_off_where_the_feature_is() -> None:
    node = TestNode()
    assert errors_of(node, HEARTBEAT) == [UnsupportedVersion.code]
    assert errors_of(node, DESCRIBE) == [UnsupportedVersion.code] * 2
    node.stop()


def test_streams_groups_are_off_where_the_broker_is_not_to_run_the_protocol() -> None:
    node = TestNode({"group.coordinator.rebalance.protocols": "classic,consumer"})
    node.publish(FeatureLevelRecord(name="streams.version", feature_level=1))
    assert errors_of(node, HEARTBEAT) == [UnsupportedVersion.code]
    assert errors_of(node, DESCRIBE) == [UnsupportedVersion.code] * 2
    node.stop()


def test_each_described_group_has_its_own_error_and_operations_are_told_when_asked_for() -> None:
    door = VirtualDoor()
    door.create_topic("words", 1)
    Player(door).execute("join m1")
    request = StreamsGroupDescribeRequest(group_ids=["app", "", "other"], include_authorized_operations=True)
    response: Any = door.send(request, 0, "admin")
    told = {group.group_id: (group.error_code, group.authorized_operations) for group in response.groups}
    assert told == {
        "": (InvalidGroupId.code, NOT_ASKED),
        "app": (0, GROUP_OPERATIONS),
        "other": (GroupIdNotFound.code, NOT_ASKED),
    }
    door.close()

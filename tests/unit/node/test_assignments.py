"""Which directory a replica is in, told to a controller that is a script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.errors import KafkaError, NotController, NotLeaderOrFollower, UnknownServerError, UnknownTopicId
from ottla.node.assignments import PARTITIONS_MAX, RETRY_MS, Assignments
from ottla.server import RequestContext
from ottla.sim.world import VirtualNodeWorld, virtual_node_world
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)

TOPIC, FIRST, SECOND = (Uuid(bytes([number] * 16)) for number in (1, 2, 3))


class Controller:
    """A `ControllerLink` that refuses the partitions it is told to."""

    leader_id = 1

    def __init__(self) -> None:
        self.refused: dict[int, int] = {}
        self.fails: KafkaError | None = None
        self.asked: list[list[tuple[Uuid, int]]] = []

    async def forward(self, context: RequestContext, request: Message) -> Message:
        raise AssertionError("directories are the node's own affair")

    async def send(self, request: Message, *, version: int) -> Message:
        assert isinstance(request, AssignReplicasToDirsRequest)
        self.asked.append(
            [
                (directory.id, partition.partition_index)
                for directory in request.directories
                for topic in directory.topics
                for partition in topic.partitions
            ]
        )
        if self.fails is not None:
            raise self.fails
        return AssignReplicasToDirsResponse(
            directories=[
                AssignReplicasToDirsResponseDirectoryData(
                    directory.id,
                    [
                        AssignReplicasToDirsResponseTopicData(
                            topic.topic_id,
                            [
                                AssignReplicasToDirsResponsePartitionData(
                                    one.partition_index, self.refused.get(one.partition_index, 0)
                                )
                                for one in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )


class Play:
    def __init__(self) -> None:
        self.world: VirtualNodeWorld = virtual_node_world(3)
        self.controller = Controller()
        self.assignments = Assignments(self.world, 1, lambda: 7)
        self.assignments.start(self.controller)

    def wait(self, milliseconds: float) -> list[list[tuple[Uuid, int]]]:
        """What was asked meanwhile."""
        before = len(self.controller.asked)

        async def sleep() -> None:
            await self.world.tasks.sleep_ms(milliseconds)

        self.world.loop.run_until_complete(sleep())
        return self.controller.asked[before:]


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.world.life.end()
    made.world.loop.close()


def test_what_comes_together_is_told_together_and_once(play: Play) -> None:
    play.assignments.assign(TOPIC, 0, FIRST)
    play.assignments.assign(TOPIC, 1, SECOND)
    assert play.wait(100) == [[(FIRST, 0), (SECOND, 1)]]
    assert play.wait(5 * RETRY_MS) == []


def test_a_replica_that_the_controller_does_not_know_is_told_once(play: Play) -> None:
    """Its topic is deleted, or its partition is reassigned: nobody will ever know it."""
    play.controller.refused = {0: UnknownTopicId.code, 1: NotLeaderOrFollower.code}
    for index in range(3):
        play.assignments.assign(TOPIC, index, FIRST)
    assert play.wait(100) == [[(FIRST, 0), (FIRST, 1), (FIRST, 2)]]
    assert play.wait(5 * RETRY_MS) == []


def test_a_replica_that_was_refused_for_now_is_told_again_without_the_others(play: Play) -> None:
    play.controller.refused = {1: UnknownServerError.code}
    for index in range(3):
        play.assignments.assign(TOPIC, index, FIRST)
    assert play.wait(RETRY_MS - 1) == [[(FIRST, 0), (FIRST, 1), (FIRST, 2)]]
    assert play.wait(RETRY_MS) == [[(FIRST, 1)]]
    play.controller.refused = {}
    assert play.wait(3 * RETRY_MS) == [[(FIRST, 1)]]
    assert play.wait(5 * RETRY_MS) == []


def test_everything_is_told_again_to_the_next_controller(play: Play) -> None:
    play.controller.fails = NotController()
    play.assignments.assign(TOPIC, 0, FIRST)
    assert play.wait(2.5 * RETRY_MS) == [[(FIRST, 0)]] * 3
    play.controller.fails = None
    assert play.wait(5 * RETRY_MS) == [[(FIRST, 0)]]


def test_one_request_names_no_more_replicas_than_kafkas(play: Play) -> None:
    for index in range(PARTITIONS_MAX + 1):
        play.assignments.assign(TOPIC, index, FIRST)
    assert [len(asked) for asked in play.wait(100)] == [PARTITIONS_MAX, 1]

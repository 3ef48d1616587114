"""Changes of in-sync sets: gathered in one request, sent one at a time, repeated until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.errors import IneligibleReplica, NetworkException, NotController, OperationNotAttempted, StaleBrokerEpoch
from ottla.replica.isr_changes import RETRY_MS, VERSION, IsrChanges
from ottla.replica.leadership import IsrAnswer, IsrChange
from ottla.sim import virtual_node_world
from ottla.types import Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

TOPIC, OTHER = Uuid(b"t" * 16), Uuid(b"u" * 16)
CHANGE = IsrChange(3, 7, ((1, 11), (2, 12)), 2)

Answer = Callable[[AlterPartitionRequest], AlterPartitionResponse]


def made(request: AlterPartitionRequest) -> AlterPartitionResponse:
    """Every change of the request, with partition epochs one larger."""
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponseTopicData(
                topic.topic_id,
                [
                    AlterPartitionResponsePartitionData(
                        one.partition_index, 0, 1, one.leader_epoch, [m.broker_id for m in one.new_isr_with_epochs], 0,
                        one.partition_epoch + 1,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )  # fmt: skip


class Play:
    def __init__(self) -> None:
        self.world = virtual_node_world(1)
        self.broker_epoch = 11
        self.requests: list[AlterPartitionRequest] = []
        self.sent_ms: list[int] = []
        self.answers: list[Answer | BaseException] = []
        self.outcomes: list[tuple[int, Any]] = []
        self.changes = IsrChanges(self.world, self, 1, lambda: self.broker_epoch)

    async def send(self, request: Message, *, version: int) -> Message:
        assert version == VERSION
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(decode(AlterPartitionRequest, version, memoryview(encode(request, version))))
        self.sent_ms.append(self.world.clock.monotonic_ms())
        await self.world.tasks.sleep_ms(5)
        answer = self.answers.pop(0) if self.answers else made
        if isinstance(answer, BaseException):
            raise answer
        return answer(request)

    def submit(self, topic_id: Uuid, index: int, change: IsrChange = CHANGE) -> None:
        self.changes.submit(topic_id, index, change, lambda outcome: self.outcomes.append((index, outcome)))

    def run_ms(self, duration_ms: float) -> None:
        self.world.loop.run_until_complete(self.world.tasks.sleep_ms(duration_ms))


def test_changes_of_one_moment_go_in_one_request_with_every_members_epoch() -> None:
    play = Play()
    play.submit(TOPIC, 0)
    play.submit(TOPIC, 4)
    play.submit(OTHER, 1)
    play.run_ms(20)
    (request,) = play.requests
    assert (request.broker_id, request.broker_epoch) == (1, 11)
    assert [(t.topic_id, [p.partition_index for p in t.partitions]) for t in request.topics] == [
        (TOPIC, [0, 4]),
        (OTHER, [1]),
    ]
    first = request.topics[0].partitions[0]
    assert (first.leader_epoch, first.partition_epoch, first.leader_recovery_state) == (3, 7, 0)
    assert [(m.broker_id, m.broker_epoch) for m in first.new_isr_with_epochs] == [(1, 11), (2, 12)]
    assert play.outcomes == [(index, IsrAnswer(3, (1, 2), 8)) for index in (0, 4, 1)]
    assert len(play.changes) == 0


def test_one_request_is_under_way_and_what_comes_meanwhile_follows_it() -> None:
    play = Play()
    play.submit(TOPIC, 0)
    play.run_ms(2)
    play.submit(TOPIC, 1)
    play.submit(TOPIC, 0)
    assert play.outcomes == [(0, OperationNotAttempted)], "its first change is still on its way"
    play.run_ms(2)
    assert len(play.requests) == 1
    play.run_ms(20)
    assert [[p.partition_index for p in r.topics[0].partitions] for r in play.requests] == [[0], [1]]


def test_a_request_without_an_answer_is_sent_again_with_the_epoch_of_then() -> None:
    play = Play()
    stale = AlterPartitionResponse(error_code=StaleBrokerEpoch.code)
    play.answers = [NetworkException(), ConnectionResetError(), NotController(), lambda request: stale]
    play.submit(TOPIC, 0)
    play.run_ms(3 * (RETRY_MS + 5))
    play.broker_epoch = 23
    play.run_ms(4 * RETRY_MS)
    assert [request.broker_epoch for request in play.requests] == [11, 11, 11, 23, 23]
    assert [later - sooner for sooner, later in zip(play.sent_ms, play.sent_ms[1:], strict=False)] == [RETRY_MS + 5] * 4
    assert play.outcomes == [(0, IsrAnswer(3, (1, 2), 8))]


def test_each_partition_gets_its_own_error_and_one_left_unanswered_is_sent_again() -> None:
    play = Play()

    def partly(request: AlterPartitionRequest) -> AlterPartitionResponse:
        response = made(request)
        response.topics[0].partitions[0].error_code = IneligibleReplica.code
        del response.topics[0].partitions[2]
        return response

    play.answers = [partly]
    for index in range(3):
        play.submit(TOPIC, index)
    play.run_ms(200)
    assert play.outcomes == [(0, IneligibleReplica), (1, IsrAnswer(3, (1, 2), 8)), (2, IsrAnswer(3, (1, 2), 8))]
    assert [len(request.topics[0].partitions) for request in play.requests] == [3, 1]


def test_a_partition_that_asks_again_in_its_outcome_waits_a_moment() -> None:
    """An error that is no reason to give up is asked for again, and must not become a storm of requests."""
    play = Play()

    def refused(request: AlterPartitionRequest) -> AlterPartitionResponse:
        response = made(request)
        response.topics[0].partitions[0].error_code = -1
        return response

    play.answers = [refused] * 3

    def again(outcome: object) -> None:
        play.outcomes.append((0, outcome))
        if not isinstance(outcome, IsrAnswer):
            play.changes.submit(TOPIC, 0, CHANGE, again)

    play.changes.submit(TOPIC, 0, CHANGE, again)
    play.run_ms(4 * (RETRY_MS + 5))
    assert len(play.requests) == 4
    assert play.outcomes[-1] == (0, IsrAnswer(3, (1, 2), 8))


def test_a_node_that_stops_sends_no_more_and_tells_nobody() -> None:
    play = Play()
    play.answers = [NetworkException()]
    play.submit(TOPIC, 0)
    play.run_ms(10)
    play.changes.stop()
    play.submit(TOPIC, 1)
    play.run_ms(500)
    assert len(play.requests) == 1
    assert play.outcomes == []

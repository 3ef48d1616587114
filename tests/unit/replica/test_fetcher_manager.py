"""The fetchers of a node: who fetches what from whom, over a way that may fail."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import BrokerNotAvailable, KafkaError, NetworkException
from ottla.net import ConnectionRefused, OnAnswer
from ottla.net.request import Subject, tell
from ottla.replica.fetcher import FetcherSettings
from ottla.replica.fetcher_manager import FetcherManager, fetcher_of, java_abs, java_hash
from ottla.sim import VirtualWorld, virtual_node_world
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tests.support.logs import make_batch
from tests.unit.replica.follower import FollowerLogs
from tests.unit.replica.node import topic_id

WAIT_MS = 100
SUBJECT = Subject("test", logging.getLogger(__name__))


class Leaders:
    """Brokers that hold nothing, and answer each fetch after a while; unless the test says otherwise."""

    def __init__(self, tasks: Any) -> None:
        self._tasks = tasks
        self.requests: list[tuple[int, FetchRequest]] = []
        self.under_way: dict[int, int] = {}
        self.most_under_way = 0
        self.lanes: set[tuple[int, str]] = set()
        self.answer: Callable[[int, FetchRequest], FetchResponse | KafkaError] = empty
        self.refusal: KafkaError | None = None
        """What a request is told before `send_then` returns, while nobody can be asked."""

    def send_then(
        self, node_id: int, request: Message, on_answer: OnAnswer, /, *, timeout_ms: float, lane: str
    ) -> None:
        assert isinstance(request, FetchRequest)
        assert timeout_ms == 7_000
        self.requests.append((node_id, request))
        self.lanes.add((node_id, lane))
        if self.refusal is not None:
            on_answer(None, self.refusal)
            return
        self.under_way[node_id] = self.under_way.get(node_id, 0) + 1
        self.most_under_way = max(self.most_under_way, self.under_way[node_id])
        self._tasks.later(WAIT_MS, lambda: self._finish(on_answer, node_id, request))

    def _finish(self, on_answer: OnAnswer, node_id: int, request: FetchRequest) -> None:
        self.under_way[node_id] -= 1
        answer = self.answer(node_id, request)
        if isinstance(answer, KafkaError):
            tell(on_answer, None, answer, "Fetch", SUBJECT)
        else:
            tell(on_answer, answer, None, "Fetch", SUBJECT)

    def named(self, node_id: int) -> list[list[int]]:
        """The partitions that each request to a leader names."""
        return [
            [one.partition for topic in request.topics for one in topic.partitions]
            for to, request in self.requests
            if to == node_id
        ]


def empty(node_id: int, request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        session_id=node_id,
        responses=[
            FetchableTopicResponse(
                "", topic.topic_id, [PartitionData(one.partition, 0, 0, 0, 0, records=b"") for one in topic.partitions]
            )
            for topic in request.topics
        ],
    )


class Play:
    def __init__(self, fetcher_count: int = 1, *, backoff_ms: int = 1_000) -> None:
        self.world = virtual_node_world(1)
        self.leaders = Leaders(self.world.tasks)
        self.logs = FollowerLogs(VirtualWorld(self.world.clock, self.world.disk, random.Random(1)))
        self.manager = FetcherManager(
            self.world,
            self.logs,
            self.leaders,
            FetcherSettings(1, backoff_ms=backoff_ms),
            broker_epoch=lambda: 5,
            fetcher_count=fetcher_count,
            timeout_ms=7_000,
        )

    def follow(self, index: int, leader_id: int = 2, *, leader_epoch: int = 0, topic: str = "t") -> None:
        name = TopicPartition(topic, index)
        if self.logs.log_of(name) is None:
            self.logs.manager.create(name)
        self.manager.follow(name, topic_id(topic), leader_id=leader_id, leader_epoch=leader_epoch)

    def unfollow(self, index: int, topic: str = "t") -> None:
        self.manager.unfollow(TopicPartition(topic, index), topic_id(topic))

    def run_ms(self, duration_ms: float) -> None:
        self.world.loop.run_until_complete(self.world.tasks.sleep_ms(duration_ms))


def test_partitions_of_one_moment_go_in_one_request_to_each_leader() -> None:
    play = Play()
    for index in range(4):
        play.follow(index, 2 + index % 2)
    play.run_ms(WAIT_MS // 2)
    assert play.leaders.named(2) == [[0, 2]]
    assert play.leaders.named(3) == [[1, 3]]


def test_a_fetcher_has_one_request_under_way_and_fetches_on() -> None:
    play = Play()
    play.follow(0)
    play.run_ms(10 * WAIT_MS)
    assert play.leaders.named(2)[:3] == [[0], [], []]
    assert 9 <= len(play.leaders.requests) <= 11
    assert play.leaders.most_under_way == 1


def test_a_partition_moves_with_its_leader_and_leaves_the_old_session() -> None:
    play = Play()
    play.follow(0)
    play.follow(1)
    play.run_ms(WAIT_MS / 2)
    play.follow(1, 3, leader_epoch=1)
    play.run_ms(2 * WAIT_MS)
    assert play.leaders.named(3)[0] == [1]
    request = play.leaders.requests[2][1]
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(topic_id("t"), [1])]


def test_a_fetcher_without_partitions_ends() -> None:
    play = Play()
    play.follow(0)
    play.run_ms(WAIT_MS / 2)
    play.unfollow(0)
    play.run_ms(5 * WAIT_MS)
    assert play.manager.fetchers == {}
    count = len(play.leaders.requests)
    play.run_ms(5_000)
    assert len(play.leaders.requests) == count
    play.follow(0)
    play.run_ms(WAIT_MS / 2)
    assert play.leaders.named(2)[-1] == [0], "and another takes its place"


@pytest.mark.parametrize("error", [NetworkException(), ConnectionRefused("refused")])
def test_a_leader_that_does_not_answer_is_tried_again_every_backoff(error: KafkaError) -> None:
    play = Play()
    play.leaders.answer = lambda node_id, request: error
    play.follow(0)
    play.run_ms(3 * (WAIT_MS + 1_000) + 50)
    assert play.leaders.named(2) == [[0]] * 4
    play.leaders.answer = empty
    play.run_ms(1_000 + 2 * WAIT_MS)
    assert play.leaders.named(2)[-1] == []


def test_without_a_backoff_a_leader_that_refuses_at_once_is_asked_once_a_millisecond() -> None:
    """`replica.fetch.backoff.ms=0`, and a leader whose listener the metadata does not name."""
    play = Play(backoff_ms=0)
    play.leaders.refusal = BrokerNotAvailable()
    play.follow(0)
    play.run_ms(19.5)
    assert play.leaders.named(2) == [[0]] * 20
    play.leaders.refusal = None
    play.run_ms(WAIT_MS + 10)
    assert play.leaders.named(2)[20:] == [[0], []]


def test_a_partition_that_was_delayed_is_fetched_again_when_its_time_has_come() -> None:
    play = Play()

    def not_leader(node_id: int, request: FetchRequest) -> FetchResponse:
        response = empty(node_id, request)
        for topic in response.responses:
            for one in topic.partitions:
                one.error_code = 6
        return response

    play.leaders.answer = not_leader
    play.follow(0)
    play.run_ms(WAIT_MS + 50)
    play.leaders.answer = empty
    play.run_ms(1_000 + WAIT_MS)
    named = play.leaders.named(2)
    assert named[:2] == [[0], []], "it is forgotten first"
    assert [0] in named[2:]


def test_an_answer_that_nobody_foresaw_is_an_error_and_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    play = Play()
    play.leaders.answer = lambda node_id, request: FetchResponse(responses=[None])  # type: ignore[list-item]
    play.follow(0)
    play.run_ms(WAIT_MS + 50)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "AttributeError" in caplog.text
    play.leaders.answer = empty
    play.run_ms(1_000 + WAIT_MS)
    assert play.leaders.named(2)[:3] == [[0], [0], []]


def test_a_bug_in_one_partition_is_an_error_line_and_its_neighbour_is_fetched_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play()
    for index in range(2):
        play.follow(index)
    log = play.logs.log_of(TopicPartition("t", 0))
    assert log is not None
    monkeypatch.setattr(log.watermarks, "_log", None)
    play.run_ms(5 * WAIT_MS)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "Partition t-0 marked as failed" in caplog.text
    assert "Traceback" in caplog.text
    assert play.manager.failed_count == 1
    assert play.leaders.named(2)[:3] == [[0, 1], [], []]
    assert [one.partitions for one in play.leaders.requests[1][1].forgotten_topics_data] == [[0]]


def test_records_are_appended_and_whoever_waits_is_told() -> None:
    play = Play()

    def one_batch(node_id: int, request: FetchRequest) -> FetchResponse:
        response = empty(node_id, request)
        for topic in response.responses:
            topic.partitions[0].high_watermark = 1
            if request.session_epoch == 0:
                topic.partitions[0].records = make_batch(b"a")
        return response

    play.leaders.answer = one_batch
    play.follow(0)
    play.run_ms(3 * WAIT_MS)
    log = play.logs.log_of(TopicPartition("t", 0))
    assert log is not None
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    assert play.logs.fetched[0] == (TopicPartition("t", 0), log.size)


def test_another_number_of_fetchers_takes_over_every_partition() -> None:
    play = Play(1)
    for index in range(6):
        play.follow(index)
    play.run_ms(WAIT_MS / 2)
    assert list(play.manager.fetchers) == [(2, 0)]
    play.manager.resize(3)
    play.run_ms(3 * WAIT_MS)
    assert sorted(play.manager.fetchers) == [(2, 0), (2, 1), (2, 2)]
    assert play.leaders.lanes == {(2, f"fetcher-{id}") for id in range(3)}, "none waits behind another"
    positions = [one for running in play.manager.fetchers.values() for one in running.core.positions]
    assert sorted(positions) == [(topic_id("t"), index) for index in range(6)]
    play.manager.resize(1)
    play.run_ms(3 * WAIT_MS)
    assert list(play.manager.fetchers) == [(2, 0)]


def test_stopping_ends_every_fetcher() -> None:
    play = Play()
    play.follow(0)
    play.follow(1, 3)
    play.run_ms(WAIT_MS / 2)
    play.manager.stop()
    count = len(play.leaders.requests)
    play.run_ms(5_000)
    assert len(play.leaders.requests) == count


def test_partitions_are_spread_by_javas_hash() -> None:
    assert java_hash("topic") == 110546223
    assert java_hash("") == 0
    assert java_hash("polygenelubricants") == -(2**31)
    assert java_abs(-(2**31)) == 0
    assert java_abs(2**31 + 5) == 2**31 - 5
    assert [fetcher_of(TopicPartition("topic", index), 4) for index in range(5)] == [
        (31 * 110546223 % 2**32 - 2**32 + index) * -1 % 4 for index in range(5)
    ]

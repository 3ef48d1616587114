"""Questions for other brokers: one request under way for each, the others gathered, and every one answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.errors import KafkaError, NetworkException, UnknownServerError
from ottla.server import broker_requests
from ottla.server.broker_requests import BrokerRequests
from ottla.sim import virtual_node_world
from ottla.wire import Message
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.world import Promise
from tests.unit.replica.node import OtherBrokers


class Fixture:
    """Questions are names of topics, `scope:name`; an answer is the topic's error code."""

    def __init__(self) -> None:
        self.world = virtual_node_world(1)
        self.peers = OtherBrokers(self.world)
        self.requests: BrokerRequests[str, int] = BrokerRequests(
            self.peers,
            self.world.tasks,
            lane="test",
            timeout_ms=lambda: 1000,
            subject=lambda question: question.removesuffix("'"),
            request=_request,
            answers=_answers,
            scope=lambda question: question.partition(":")[0],
        )

    def turn(self) -> None:
        self.world.loop.run_until_complete(self.world.tasks.sleep_ms(1))

    @property
    def sent(self) -> list[tuple[int, list[str]]]:
        return [(broker_id, _names(request)) for broker_id, request, _ in self.peers.sent]

    def answer(self, place: int, *codes: int) -> None:
        _, request, promise = self.peers.sent[place]
        topics = [
            MetadataResponseTopic(name=name, error_code=code) for name, code in zip(_names(request), codes, strict=True)
        ]
        promise.set_result(MetadataResponse(topics=topics))
        self.turn()


def _names(request: Message) -> list[str]:
    assert isinstance(request, MetadataRequest)
    return [topic.name or "" for topic in request.topics or ()]


def _request(questions: Sequence[str]) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in questions])


def _answers(questions: Sequence[str], response: Message) -> list[int]:
    assert isinstance(response, MetadataResponse)
    codes = {topic.name: topic.error_code for topic in response.topics}
    return [codes[name] for name in questions]


def outcome(promise: Promise[Any]) -> Any:
    assert promise.done()
    try:
        return promise.result()
    except KafkaError as error:
        return type(error)


def test_what_is_asked_in_one_turn_goes_out_together_and_the_rest_when_that_is_answered() -> None:
    fixture = Fixture()
    first = [fixture.requests.ask(2, name) for name in ("a:1", "a:2")]
    other = fixture.requests.ask(3, "a:1")
    fixture.turn()
    late = [fixture.requests.ask(2, name) for name in ("a:3", "a:4")]
    fixture.turn()
    assert fixture.sent == [(2, ["a:1", "a:2"]), (3, ["a:1"])]
    fixture.answer(0, 0, 7)
    assert [outcome(one) for one in first] == [0, 7]
    assert fixture.sent[2:] == [(2, ["a:3", "a:4"])]
    assert not other.done()
    fixture.answer(2, 1, 2)
    assert [outcome(one) for one in late] == [1, 2]


def test_two_questions_of_one_subject_are_not_in_one_request_and_other_scopes_wait_for_nobody() -> None:
    fixture = Fixture()
    asked = [fixture.requests.ask(2, name) for name in ("a:1", "a:1'", "a:2", "b:1")]
    fixture.turn()
    assert fixture.sent == [(2, ["a:1", "a:2"]), (2, ["b:1"])]
    fixture.answer(0, 1, 2)
    fixture.answer(1, 3)
    assert fixture.sent[2:] == [(2, ["a:1'"])]
    fixture.answer(2, 4)
    assert [outcome(one) for one in asked] == [1, 4, 2, 3]


def test_a_request_that_fails_fails_its_questions_and_no_others() -> None:
    fixture = Fixture()
    lost = [fixture.requests.ask(2, name) for name in ("a:1", "a:2")]
    fixture.turn()
    later = fixture.requests.ask(2, "a:3")
    fixture.peers.sent[0][2].set_exception(NetworkException("gone"))
    fixture.turn()
    assert [outcome(one) for one in lost] == [NetworkException, NetworkException]
    fixture.peers.sent[1][2].set_result(MetadataResponse(topics=[]))
    fixture.turn()
    assert outcome(later) is UnknownServerError, "a response without the answer"
    again = fixture.requests.ask(2, "a:4")
    fixture.turn()
    fixture.answer(2, 0)
    assert outcome(again) == 0


def test_questions_are_bounded_in_a_request_and_in_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_requests, "BATCH_MAX", 2)
    monkeypatch.setattr(broker_requests, "WAITING_MAX", 3)
    fixture = Fixture()
    asked = [fixture.requests.ask(2, f"a:{number}") for number in range(4)]
    assert outcome(asked[3]) is NetworkException
    fixture.turn()
    assert fixture.sent == [(2, ["a:0", "a:1"])]
    fixture.answer(0, 0, 0)
    assert fixture.sent[1:] == [(2, ["a:2"])]

"""`ottla/node/controller_channel.py`, on virtual time: who is asked, when again, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.errors import (
    KafkaError,
    NetworkException,
    NotController,
    RequestTimedOut,
    UnknownServerError,
    UnsupportedVersion,
)
from ottla.node.controller_channel import LOOK_MS, PAUSE_MS, PENDING_MAX, ControllerChannel
from ottla.node.shared import Shared
from ottla.raft import VoterSet
from ottla.server import BrokerContext, Connection, ControllerContext, ControllerServices, Dispatcher, Principal
from ottla.server.envelope import open_request, wrap_answer
from ottla.sim import VirtualNodeWorld, virtual_node_world
from ottla.wire import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.world import Address, Promise
from tests.unit.replica.node import TestNode
from tests.unit.server.fake_handlers import route
from tests.unit.server.nodes import FakeController, Server, serve

ALICE = Principal("User", "alice")
CREATE = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
RETRY_MS = 1_000


class Quorum:
    """Voters 1 to `count`, and a leader that the test chooses."""

    kraft_version = 0

    def __init__(self, count: int, leader_id: int) -> None:
        self.leader_id = leader_id
        self.voters = VoterSet.static("CONTROLLER", {id: Address(f"c{id}", 9093) for id in range(1, count + 1)})


class Peer:
    """A link to another controller, which answers as the test says."""

    def __init__(self, play: Play, node_id: int, address: Address) -> None:
        self.play = play
        self.node_id = node_id
        self.address = address
        self.is_closed = False
        self.waiting: list[Promise[Message]] = []

    def send(self, request: Message, *, timeout_ms: float) -> Promise[Message]:
        assert not self.is_closed, "nothing is sent over a link that was closed"
        assert 0 < timeout_ms <= RETRY_MS
        self.play.sent.append((self.node_id, request))
        promise: Promise[Message] = self.play.world.tasks.promise()
        answer = self.play.answer(self.node_id, request)
        if isinstance(answer, KafkaError):
            promise.set_exception(answer)
        elif answer is not None:
            promise.set_result(answer)
        else:
            self.play.world.tasks.later(timeout_ms, lambda: self._fail(promise, RequestTimedOut()))
            self.waiting.append(promise)
        return promise

    def _fail(self, promise: Promise[Message], error: KafkaError) -> None:
        if not promise.done():
            promise.set_exception(error)

    def close(self) -> None:
        self.is_closed = True
        for promise in self.waiting:
            self._fail(promise, NetworkException("closed"))


class Play:
    """A channel of node 1, whose own controller is there or not."""

    def __init__(self, quorum: Quorum, *, has_controller: bool = False) -> None:
        self.world: VirtualNodeWorld = virtual_node_world(1)
        self.quorum = quorum
        self.sent: list[tuple[int, Message]] = []
        self.peers: list[Peer] = []
        self.answer: Callable[[int, Message], Message | KafkaError | None] = lambda node_id, request: None
        self.own: Callable[[Message], Message | KafkaError] = lambda request: CreateTopicsResponse()
        self.node = TestNode(world=self.world)
        self.decided: list[Message] = []
        services = ControllerServices(self.node.context, self, quorum)  # type: ignore[arg-type]  # raft is not asked
        self.dispatcher = Dispatcher(services)
        self.channel = ControllerChannel(
            self.world,
            quorum,
            name="forwarding",
            node_id=1,
            listener_name="CONTROLLER",
            connect=self.connect,
            local=self.dispatcher if has_controller else None,
            retry_ms=RETRY_MS,
        )

    def connect(self, node_id: int, address: Address) -> Peer:
        self.peers.append(Peer(self, node_id, address))
        return self.peers[-1]

    async def handle(self, request: Message, *, version: int) -> Message:
        """As the controller of this node."""
        self.decided.append(request)
        answer = self.own(request)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    @property
    def context(self) -> BrokerContext:
        connection = Connection(self.node.dispatcher, "PLAINTEXT", Address("10.0.0.9", 5), ALICE)
        return BrokerContext(7, 77, "the-client", connection, self.node.context, self.node.broker)

    def run(self, answer: Awaitable[Message]) -> Any:
        return self.world.loop.run_until_complete(answer)

    @property
    def now_ms(self) -> float:
        return self.world.clock.monotonic_ms()


def in_envelope(node_id: int, request: Message) -> Message:
    """As an active controller answers."""
    assert isinstance(request, EnvelopeRequest), request
    inside = open_request(request.request_data)
    return wrap_answer(CreateTopicsResponse(), inside.header.correlation_id, version=inside.version)


def test_a_request_goes_in_an_envelope_to_the_leader_and_the_answer_comes_out_of_it() -> None:
    play = Play(Quorum(3, leader_id=2))
    play.answer = in_envelope
    assert play.run(play.channel.forward(play.context, CREATE)) == CreateTopicsResponse()
    ((node_id, request),) = play.sent
    assert node_id == 2
    assert isinstance(request, EnvelopeRequest)
    assert Principal.from_bytes(request.request_principal) == ALICE
    assert bytes(request.client_host_address) == b"\x0a\0\0\x09"
    assert open_request(request.request_data).body == CREATE
    assert play.channel.pending_count == 0


def test_a_nodes_own_request_goes_as_it_is() -> None:
    play = Play(Quorum(3, leader_id=3))
    play.answer = lambda node_id, request: BrokerHeartbeatResponse(is_caught_up=True)
    told = play.run(play.channel.send(BrokerHeartbeatRequest(1), version=2))
    assert told == BrokerHeartbeatResponse(is_caught_up=True)
    assert play.sent == [(3, BrokerHeartbeatRequest(1))]
    assert [str(peer.address) for peer in play.peers] == ["c3:9093"]


@pytest.mark.parametrize("count", [1, 3])
def test_while_this_node_leads_its_controller_is_called_with_the_clients_principal(count: int) -> None:
    play = Play(Quorum(count, leader_id=1), has_controller=True)
    seen: list[Principal] = []
    route = play.dispatcher.find(19, 7)
    handle = route.handle

    def seen_by(context: ControllerContext, request: Message) -> Any:
        seen.append(context.principal)
        return handle(context, request)

    route.handle = seen_by
    assert play.run(play.channel.forward(play.context, CREATE)) == CreateTopicsResponse()
    assert (play.decided, play.sent, seen) == ([CREATE], [], [ALICE])
    play.run(play.channel.send(BrokerHeartbeatRequest(1), version=2))
    assert play.decided == [CREATE, BrokerHeartbeatRequest(1)]


def test_a_quorum_of_one_is_asked_once() -> None:
    play = Play(Quorum(1, leader_id=-1), has_controller=True)
    play.own = lambda request: NotController()
    for ask in (play.channel.send(CREATE, version=7), play.channel.forward(play.context, CREATE)):
        with pytest.raises(NotController):
            play.run(ask)
    assert (len(play.decided), play.now_ms) == (2, 0)


@pytest.mark.parametrize("error", [EnvelopeResponse(error_code=NotController.code), NetworkException()])
def test_a_leader_that_leads_no_more_or_is_gone_is_followed_by_the_next(error: EnvelopeResponse | KafkaError) -> None:
    play = Play(Quorum(3, leader_id=2))

    def answer(node_id: int, request: Message) -> Message | KafkaError:
        if node_id == 2:
            play.quorum.leader_id = 3
            return error
        return in_envelope(node_id, request)

    play.answer = answer
    assert play.run(play.channel.forward(play.context, CREATE)) == CreateTopicsResponse()
    assert [node_id for node_id, _ in play.sent] == [2, 3]
    assert [peer.is_closed for peer in play.peers] == [True, False]
    assert play.now_ms == PAUSE_MS


def test_not_controller_in_an_answer_to_a_nodes_own_request_is_tried_again() -> None:
    play = Play(Quorum(3, leader_id=2))
    answers = iter([BrokerHeartbeatResponse(error_code=NotController.code), BrokerHeartbeatResponse()])
    play.answer = lambda node_id, request: next(answers)
    assert play.run(play.channel.send(BrokerHeartbeatRequest(1), version=2)) == BrokerHeartbeatResponse()
    assert len(play.sent) == 2


def test_this_node_takes_over_while_a_request_waits() -> None:
    play = Play(Quorum(3, leader_id=2), has_controller=True)

    def answer(node_id: int, request: Message) -> KafkaError:
        play.quorum.leader_id = 1
        return NetworkException()

    play.answer = answer
    assert play.run(play.channel.forward(play.context, CREATE)) == CreateTopicsResponse()
    assert play.decided == [CREATE]


def test_a_leader_that_hangs_is_given_up_when_another_one_leads() -> None:
    """A process that was stopped (SIGSTOP) keeps its connections, and answers nothing."""
    play = Play(Quorum(3, leader_id=2))
    play.answer = lambda node_id, request: None if node_id == 2 else CreateTopicsResponse(throttle_time_ms=node_id)
    # At first nobody else leads: that is no reason to disconnect.
    play.world.tasks.later(RETRY_MS / 4, lambda: setattr(play.quorum, "leader_id", -1))
    play.world.tasks.later(RETRY_MS / 2, lambda: setattr(play.quorum, "leader_id", 3))
    begun_ms = play.now_ms
    assert play.run(play.channel.send(CREATE, version=7)) == CreateTopicsResponse(throttle_time_ms=3)
    assert RETRY_MS / 2 <= play.now_ms - begun_ms <= RETRY_MS / 2 + LOOK_MS + PAUSE_MS
    assert [node_id for node_id, _ in play.sent] == [2, 3]
    assert [peer.is_closed for peer in play.peers] == [True, False]


@pytest.mark.parametrize("leader_id", [-1, 2, 9])
def test_without_a_leader_that_answers_a_request_ends_in_time(leader_id: int) -> None:
    play = Play(Quorum(3, leader_id))
    with pytest.raises(RequestTimedOut):
        play.run(play.channel.forward(play.context, CREATE))
    assert RETRY_MS - PAUSE_MS <= play.now_ms <= RETRY_MS + PAUSE_MS
    assert play.channel.pending_count == 0


def test_a_controller_that_does_not_know_the_request_is_an_unknown_error_for_the_client() -> None:
    play = Play(Quorum(3, leader_id=2))
    play.answer = lambda node_id, request: UnsupportedVersion()
    with pytest.raises(UnknownServerError):
        play.run(play.channel.forward(play.context, CREATE))
    assert play.now_ms == 0


def test_more_requests_than_may_wait_are_refused_at_once() -> None:
    play = Play(Quorum(3, leader_id=-1))

    async def main() -> list[Any]:
        asked = [play.channel.send(CREATE, version=7) for _ in range(PENDING_MAX + 1)]
        return await asyncio.gather(*asked, return_exceptions=True)

    ended = play.run(main())  # type: ignore[arg-type]
    assert [str(error) for error in ended if "already" in str(error)] == [
        f"{PENDING_MAX} requests wait for the controller already"
    ]
    assert all(isinstance(error, RequestTimedOut) for error in ended)


def test_a_channel_that_is_closed_lets_nobody_wait() -> None:
    play = Play(Quorum(3, leader_id=2))
    play.answer = in_envelope
    play.run(play.channel.forward(play.context, CREATE))
    play.channel.close()
    assert play.peers[0].is_closed
    with pytest.raises(RequestTimedOut):
        play.run(play.channel.forward(play.context, CREATE))
    assert play.now_ms == 0


def test_over_a_real_connection_the_leader_serves_the_client_in_its_name(tmp_path: Path) -> None:
    """The whole way: a channel as a node makes it, a link, a session, the handlers of both requests."""
    seen: list[ControllerContext] = []

    async def test(server: Server) -> tuple[Message, Message]:
        async def create(context: ControllerContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
            seen.append(context)
            return CreateTopicsResponse(throttle_time_ms=5)

        route(server, "CreateTopics", 7, create)
        settings = {
            "process.roles": "broker",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"2@127.0.0.1:{server.port}",
            "listeners": "PLAINTEXT://localhost:9092",
            "log.dirs": str(tmp_path),
        }
        shared = Shared(BrokerConfig(settings), server.node.world)
        quorum = Quorum(2, leader_id=2)
        quorum.voters = VoterSet.static("CONTROLLER", {2: Address("127.0.0.1", server.port)})
        shared.raft = quorum  # type: ignore[assignment]  # a test's
        channel = shared.channel("forwarding")
        node = TestNode()
        connection = Connection(node.dispatcher, "PLAINTEXT", Address("10.0.0.9", 5), ALICE)
        context = BrokerContext(7, 77, "the-client", connection, node.context, node.broker)
        beat = BrokerHeartbeatRequest(1, 4)
        answers = await channel.forward(context, CREATE), await channel.send(beat, version=2)
        await shared.stop()
        return answers

    controller = FakeController(answer=lambda request, version: BrokerHeartbeatResponse(is_caught_up=True))
    created, beaten = serve(test, role="controller", controller=controller)
    assert created == CreateTopicsResponse(throttle_time_ms=5)
    assert beaten == BrokerHeartbeatResponse(is_caught_up=True)
    ((broker_id, epoch, carrier),) = controller.heard
    assert (broker_id, epoch, carrier.is_closed) == (1, 4, True), "the channel has disconnected since"
    assert [(one.principal, one.peer.host, one.client_id) for one in seen] == [(ALICE, "10.0.0.9", "the-client")]

"""A link to a peer that refuses, falls silent, breaks off at any byte and comes back: each request is answered once."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from ottla.errors import (
    ClusterAuthorizationFailed,
    InternalError,
    InvalidRequest,
    KafkaError,
    NetworkException,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.net import BadAnswer, Build, Link, LinkObserver
from ottla.sim import Pace
from ottla.wire import Message
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.world import Promise
from tests.unit.net.peer import Peer, Session, metadata


class Answers:
    """What callbacks were told, each by its own name."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def of(self, name: str) -> Any:
        def answered(response: Message | None, error: KafkaError | None) -> None:
            self.told.append((name, type(response or error).__name__))

        return answered


async def outcome(promise: Promise[Any]) -> Any:
    """The response, or the error itself."""
    try:
        return await promise
    except KafkaError as error:
        return error


# What a link is for


def test_a_request_is_answered_in_the_highest_common_version_and_versions_are_asked_once() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link()
        for _ in range(3):
            assert (await link.send(metadata(), timeout_ms=1000)).cluster_id == "virtual"
        assert link.is_ready
        assert link.versions is not None
        assert link.versions.usable(3) == 13
        assert link.load == 0

    peer.run(main())
    assert peer.asked() == ["ApiVersions", "Metadata", "Metadata", "Metadata"]
    assert {request.version for request in peer.requests[1:]} == {13}
    assert peer.requests[0].header.client_id == "test"


def test_a_request_is_built_for_the_version_that_is_spoken() -> None:
    peer = Peer()
    built = []

    def make(version: int) -> Message:
        built.append(version)
        return metadata()

    async def main() -> None:
        link = peer.link()
        await link.send(Build(3, make), timeout_ms=1000)
        await link.send(Build(3, make, version_max=9), timeout_ms=1000)
        with pytest.raises(UnsupportedVersion, match="has no version of Metadata"):
            await link.send(Build(3, make, version_min=14), timeout_ms=1000)
        with pytest.raises(UnsupportedVersion, match="has no version of ListGroups"):
            await link.send(ListGroupsRequest(), timeout_ms=1000)

    peer.run(main())
    assert built == [13, 9]


def test_requests_go_out_in_order_and_no_more_wait_for_answers_than_may() -> None:
    peer = Peer()
    held: list[Any] = []
    most = 0

    def hold(session: Session, request: Any) -> None:
        nonlocal most
        if request.header.request_api_key == 18:
            session.answer(request)
            return
        held.append(request)
        most = max(most, len(held))
        peer.loop.call_later(0.05, lambda: session.answer(held.pop(0)))

    peer.on_request = hold

    async def main() -> None:
        link = peer.link(in_flight_max=3)
        answers = Answers()
        for index in range(20):
            link.send_then(metadata(), 5000, answers.of(str(index)))
        assert link.load == 20
        while link.load:
            await peer.here.tasks.sleep_ms(10)
        assert answers.told == [(str(index), "MetadataResponse") for index in range(20)]

    peer.run(main())
    assert most == 3


def test_a_request_without_an_answer_is_sent_and_does_not_wait() -> None:
    peer = Peer()
    peer.on_request = lambda session, request: session.answer(request) if request.header.request_api_key == 18 else None

    async def main() -> None:
        link = peer.link()
        error = link.send_only(metadata())
        assert isinstance(error, NetworkException)
        link.connect()
        while not link.is_ready:
            await peer.here.tasks.sleep_ms(1)
        assert link.send_only(metadata()) is None
        assert isinstance(link.send_only(ListGroupsRequest()), UnsupportedVersion)
        assert link.load == 0
        await peer.here.tasks.sleep_ms(1000)
        assert link.is_ready

    peer.run(main())
    assert peer.asked() == ["ApiVersions", "Metadata"]


# Peers that are away


def test_a_peer_that_refuses_fails_the_request_at_once_and_is_found_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    peer.listener.close()

    async def main() -> None:
        link = peer.link()
        with pytest.raises(NetworkException, match=r"no connection to peer:9092 \(id: 7\): connection refused"):
            await link.send(metadata(), timeout_ms=30_000)
        assert peer.now_ms < 1000
        assert link.failures == 1
        assert 0 < link.retry_in_ms() <= 60
        peer.listen_again()
        # Sent during the backoff, it waits for its end and is then carried out.
        assert (await link.send(metadata(), timeout_ms=1000)).cluster_id == "virtual"
        assert link.failures == 0

    with caplog.at_level(logging.WARNING, "ottla.net"):
        peer.run(main())
    said = "[Test] Connection to node 7 (peer:9092) could not be established: connection refused. Is a broker running"
    assert said in caplog.text


def test_the_backoff_doubles_up_to_its_maximum_and_is_begun_again_by_a_connection() -> None:
    peer = Peer()
    peer.listener.close()

    async def main() -> None:
        link = peer.link(reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000)
        waits = []
        for _ in range(7):
            assert isinstance(await outcome(link.send(metadata(), timeout_ms=30_000)), NetworkException)
            waits.append(link.retry_in_ms())
        for wait, base in zip(waits, (100, 200, 400, 800, 1000, 1000, 1000), strict=True):
            assert 0.8 * base <= wait <= 1.2 * base + 1
        assert len({wait / base for wait, base in zip(waits, (100, 200, 400, 800, 1000, 1000, 1000), strict=True)}) > 1
        peer.listen_again()
        await link.send(metadata(), timeout_ms=5000)
        peer.sessions[-1].close()
        while link.is_ready:
            await peer.here.tasks.sleep_ms(10)
        assert link.retry_in_ms() <= 120

    peer.run(main())


def test_a_dark_peer_is_given_the_time_to_connect_and_longer_each_time() -> None:
    peer = Peer()
    peer.network.lose_power(peer.host)

    async def main() -> None:
        link = peer.link(connect_timeout_ms=1000, connect_timeout_max_ms=3000, reconnect_backoff_ms=0)
        for base in (1000, 2000, 3000, 3000):
            begun = peer.now_ms
            with pytest.raises(NetworkException, match="not set up within"):
                await link.send(metadata(), timeout_ms=60_000)
            assert 0.8 * base <= peer.now_ms - begun <= 1.2 * base + 5

    peer.run(main())


def test_a_peer_that_takes_the_connection_and_says_nothing_is_given_up_in_the_same_time() -> None:
    peer = Peer()
    peer.on_request = lambda session, request: None

    async def main() -> None:
        link = peer.link(connect_timeout_ms=1000, connect_timeout_max_ms=1000)
        with pytest.raises(NetworkException, match="not set up within"):
            await link.send(metadata(), timeout_ms=60_000)
        assert peer.now_ms <= 1300
        await peer.here.tasks.sleep_ms(100)
        assert peer.sessions[0].is_closed

    peer.run(main())


def test_a_request_does_not_wait_longer_for_the_connection_than_it_may() -> None:
    peer = Peer()
    peer.network.lose_power(peer.host)

    async def main() -> None:
        link = peer.link()
        late = link.send(metadata(), timeout_ms=500)
        later = link.send(metadata(), timeout_ms=900)
        with pytest.raises(RequestTimedOut, match=r"Metadata was not sent: not connected to peer:9092 .* 500 ms"):
            await late
        assert 500 <= peer.now_ms <= 502
        assert link.is_slow
        with pytest.raises(RequestTimedOut):
            await later
        assert 900 <= peer.now_ms <= 902
        assert link.is_connecting

    peer.run(main())


def test_a_refusal_in_the_handshake_is_told_as_it_was_said() -> None:
    peer = Peer()
    refusal = ApiVersionsResponse(error_code=ClusterAuthorizationFailed.code)
    peer.on_request = lambda session, request: session.answer(request, refusal)

    async def main() -> None:
        link = peer.link()
        with pytest.raises(ClusterAuthorizationFailed):
            await link.send(metadata(), timeout_ms=5000)
        assert not link.is_ready
        assert link.retry_in_ms() > 0

    peer.run(main())


# Connections that break


@pytest.mark.parametrize("how", ["close", "abort", "silence"])
def test_wherever_the_answers_break_off_each_request_is_answered_once_and_in_time(how: str) -> None:
    """After every byte of the handshake's answer and of the first response."""
    whole = Peer()

    async def measure() -> None:
        await whole.link().send(metadata(), timeout_ms=1000)

    whole.run(measure())
    total = whole.sessions[0].sent_bytes
    assert total > 40
    for bytes_max in range(total + 1):
        peer = Peer(seed=bytes_max)
        peer.bytes_max = bytes_max
        if how == "close":
            peer.on_exhausted = Session.close
        elif how == "abort":
            peer.on_exhausted = Session.abort
        answers = Answers()

        async def main(peer: Peer = peer, answers: Answers = answers) -> None:
            link = peer.link(connect_timeout_ms=1000, connect_timeout_max_ms=1000)
            for name in ("first", "second"):
                link.send_then(metadata(), 3000, answers.of(name))
            await peer.here.tasks.sleep_ms(3010)
            assert link.load == 0
            # And it is as good as new when the peer is.
            peer.bytes_max = 1 << 30
            assert (await link.send(metadata(), timeout_ms=5000)).cluster_id == "virtual"

        peer.run(main())
        assert [name for name, _ in answers.told] == ["first", "second"]
        failures = {"NetworkException", "RequestTimedOut"}
        assert answers.told[1][1] in failures
        assert answers.told[0][1] in (failures | ({"MetadataResponse"} if bytes_max == total else set()))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_each_request_is_answered_once_and_in_time(seed: int) -> None:
    """Resets, silence, cables pulled, refusals and answers that come late or never, while requests keep coming."""
    peer = Peer(seed)
    peer.network.pace = Pace
    chance = Random(seed)
    told: dict[int, list[tuple[str, int]]] = {}
    due_ms: dict[int, float] = {}

    def whimsical(session: Session, request: Any) -> None:
        whim = chance.random()
        if whim < 0.02:
            session.abort()
        elif whim < 0.04:
            session.close()
        elif whim < 0.05:
            session.peer.network.silence(chance.choice(peer.network.open_connections()))
        elif whim > 0.06:  # else it is forgotten, and the next answer is out of order
            session.answer(request)

    def go_wrong() -> None:
        match chance.randrange(5):
            case 0 if peer.network.open_connections():
                peer.network.reset(chance.choice(peer.network.open_connections()))
            case 1 if peer.network.open_connections():
                peer.network.open_half(chance.choice(peer.network.open_connections()), told=chance.randrange(2))
            case 2:
                peer.network.isolate(peer.host)
            case 3:
                peer.network.refuse_chance = 0.7
            case _:
                peer.network.connect_again(peer.host)
                peer.network.heal()

    peer.on_request = whimsical

    def ask(link: Link, index: int) -> None:
        timeout_ms = chance.choice((50, 500, 2000, 5000))
        due_ms[index] = peer.now_ms + timeout_ms
        told[index] = []

        def answered(response: Message | None, error: KafkaError | None) -> None:
            told[index].append((type(response or error).__name__, peer.now_ms))

        link.send_then(metadata(), timeout_ms, answered)

    async def main() -> None:
        link = peer.link(connect_timeout_ms=1000, connect_timeout_max_ms=2000, in_flight_max=4, idle_ms=3000)
        for index in range(300):
            ask(link, index)
            if chance.random() < 0.1:
                go_wrong()
            if chance.random() < 0.7:
                await peer.here.tasks.sleep_ms(chance.choice((0, 1, 20, 200, 4000)))
        peer.network.connect_again(peer.host)
        peer.network.heal()
        peer.on_request = lambda session, request: session.answer(request)
        await peer.here.tasks.sleep_ms(6000)
        assert link.load == 0
        for _ in range(10):
            if not isinstance(await outcome(link.send(metadata(), timeout_ms=5000)), KafkaError):
                break
        else:
            pytest.fail("the link did not come back")

    peer.run(main())
    assert [len(answers) for answers in told.values()] == [1] * 300
    # The virtual clock is looked at in whole milliseconds, and so is the timer.
    assert all(at_ms <= due_ms[index] + 2 for index, ((_, at_ms),) in told.items())
    failures = {"NetworkException", "ConnectionRefused", "RequestTimedOut", "BadAnswer"}
    assert {name for ((name, _),) in told.values()} <= {"MetadataResponse", *failures}
    assert sum(name == "MetadataResponse" for ((name, _),) in told.values()) > 20


def test_a_half_open_connection_cannot_hold_a_request_beyond_its_time_out() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link()
        await link.send(metadata(), timeout_ms=1000)
        (ends,) = peer.network.open_connections()
        peer.network.silence(ends)
        begun = peer.now_ms
        late, behind = link.send(metadata(), timeout_ms=700), link.send(metadata(), timeout_ms=5000)
        with pytest.raises(RequestTimedOut, match=r"Metadata \(correlation id 2\) was not answered within 700 ms"):
            await late
        assert 700 <= peer.now_ms - begun <= 702
        assert isinstance(await outcome(behind), RequestTimedOut), "nothing behind it will be answered either"
        assert not link.is_ready
        assert (await link.send(metadata(), timeout_ms=1000)).cluster_id == "virtual"

    peer.run(main())


def test_a_deadline_that_comes_earlier_than_those_before_it_is_kept() -> None:
    peer = Peer()
    peer.on_request = lambda session, request: session.answer(request) if request.header.request_api_key == 18 else None

    async def main() -> None:
        link = peer.link()
        first = link.send(metadata(), timeout_ms=20_000)
        while not link.is_ready:
            await peer.here.tasks.sleep_ms(1)
        begun = peer.now_ms
        second = link.send(metadata(), timeout_ms=300)
        assert isinstance(await outcome(second), RequestTimedOut)
        assert 300 <= peer.now_ms - begun <= 302
        assert isinstance(await outcome(first), RequestTimedOut)

    peer.run(main())


def test_a_peer_that_answers_out_of_order_is_disconnected_and_nobody_gets_the_wrong_answer() -> None:
    peer = Peer()

    def swap(session: Session, request: Any) -> None:
        id_ = request.header.correlation_id
        session.answer(request, correlation_id=id_ + 1 if id_ == 1 else id_)

    peer.on_request = swap

    async def main() -> None:
        link = peer.link()
        first, second = (link.send(metadata(), timeout_ms=1000) for _ in range(2))
        assert isinstance(await outcome(first), BadAnswer)
        assert isinstance(await outcome(second), BadAnswer)
        assert not link.is_ready
        await peer.here.tasks.sleep_ms(100)
        assert peer.sessions[0].is_closed

    peer.run(main())


def test_an_answer_to_what_was_not_asked_ends_an_idle_connection() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link()
        await link.send(metadata(), timeout_ms=1000)
        peer.sessions[0].answer(peer.requests[-1])
        while link.is_ready:
            await peer.here.tasks.sleep_ms(10)
        assert peer.now_ms < 1000

    peer.run(main())


# Bounds


def test_a_full_queue_refuses_at_once_and_those_in_it_are_still_answered() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link(queue_max=3)
        answers = Answers()
        for index in range(4):
            link.send_then(metadata(), 1000, answers.of(str(index)))
        assert answers.told == [("3", "NetworkException")]
        while link.load:
            await peer.here.tasks.sleep_ms(10)
        assert answers.told[1:] == [(str(index), "MetadataResponse") for index in range(3)]

    peer.run(main())


def test_a_request_waits_for_room_in_flight_no_longer_than_it_may() -> None:
    peer = Peer()
    peer.on_request = lambda session, request: session.answer(request) if request.header.request_api_key == 18 else None

    async def main() -> None:
        link = peer.link(in_flight_max=1)
        link.connect()
        while not link.is_ready:
            await peer.here.tasks.sleep_ms(1)
        begun = peer.now_ms
        first = link.send(metadata(), timeout_ms=2000)
        with pytest.raises(
            RequestTimedOut, match=r"not sent: too many requests before it were not answered by peer:9092 .* 400 ms"
        ):
            await link.send(metadata(), timeout_ms=400)
        assert 400 <= peer.now_ms - begun <= 402
        assert not link.is_slow
        assert link.is_ready
        assert isinstance(await outcome(first), RequestTimedOut)

    peer.run(main())


def test_a_response_larger_than_allowed_ends_the_connection() -> None:
    peer = Peer()
    large = MetadataResponse(cluster_id="x" * 1000)
    peer.on_request = lambda session, request: session.answer(
        request, None if request.header.request_api_key == 18 else large
    )

    async def main() -> None:
        link = peer.link(frame_max=500)
        with pytest.raises(BadAnswer, match="it must have 0 to 500"):
            await link.send(metadata(), timeout_ms=1000)

    peer.run(main())


def test_an_idle_connection_is_closed_and_made_again_without_a_backoff() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link(idle_ms=5000)
        await link.send(metadata(), timeout_ms=30_000)
        for _ in range(4):  # whoever uses it keeps it
            await peer.here.tasks.sleep_ms(3000)
            await link.send(metadata(), timeout_ms=30_000)
        assert len(peer.sessions) == 1
        await peer.here.tasks.sleep_ms(4900)
        assert link.is_ready
        await peer.here.tasks.sleep_ms(200)
        assert link.versions is None
        assert peer.sessions[0].is_closed
        assert link.retry_in_ms() == 0
        await link.send(metadata(), timeout_ms=1000)
        assert len(peer.sessions) == 2

    peer.run(main())


def test_a_connection_that_only_carries_requests_without_answers_is_not_idle() -> None:
    """A producer with acks=0 was disconnected every nine minutes."""
    peer = Peer()
    peer.on_request = lambda session, request: session.answer(request) if request.header.request_api_key == 18 else None

    async def main() -> None:
        link = peer.link(idle_ms=2000)
        link.connect()
        for _ in range(10):
            await peer.here.tasks.sleep_ms(1000)
            assert link.send_only(metadata()) is None

    peer.run(main())
    assert len(peer.sessions) == 1


def test_a_connection_on_which_a_request_waits_is_not_idle() -> None:
    peer = Peer()

    def slowly(session: Session, request: Any) -> None:
        delay = 0 if request.header.request_api_key == 18 else 8
        peer.loop.call_later(delay, lambda: session.answer(request))

    peer.on_request = slowly

    async def main() -> None:
        link = peer.link(idle_ms=2000)
        assert (await link.send(metadata(), timeout_ms=30_000)).cluster_id == "virtual"
        assert peer.now_ms >= 8000
        assert link.is_ready
        await peer.here.tasks.sleep_ms(2100)
        assert link.versions is None

    peer.run(main())


def test_a_throttled_link_sends_nothing_until_it_may() -> None:
    peer = Peer()
    told = MetadataResponse(throttle_time_ms=2000)
    peer.on_request = lambda session, request: session.answer(
        request, None if request.header.request_api_key == 18 else told
    )

    async def main() -> None:
        link = peer.link()
        await link.send(metadata(), timeout_ms=1000)
        begun = peer.now_ms
        await link.send(metadata(), timeout_ms=5000)
        assert 2000 <= peer.now_ms - begun <= 2200
        with pytest.raises(RequestTimedOut, match=r"a throttle of peer:9092 .* did not end within 500 ms"):
            await link.send(metadata(), timeout_ms=500)

    peer.run(main())


# Closing


@pytest.mark.parametrize("when", ["new", "connecting", "shaking hands", "ready", "in flight", "backing off", "dark"])
def test_closing_in_any_state_fails_what_waits_and_what_comes(when: str) -> None:
    peer = Peer()
    if when == "shaking hands":
        peer.on_request = lambda session, request: None
    elif when == "in flight":
        peer.on_request = lambda session, request: (
            session.answer(request) if request.header.request_api_key == 18 else None
        )
    elif when == "backing off":
        peer.listener.close()
    elif when == "dark":
        peer.network.lose_power(peer.host)
    reason = KafkaError("it is over")

    async def main() -> None:
        link = peer.link()
        match when:
            case "connecting" | "dark":
                link.connect()
            case "shaking hands":
                link.connect()
                await peer.here.tasks.sleep_ms(300)
                assert link.is_connecting
                assert peer.sessions
            case "ready" | "in flight":
                link.connect()
                while not link.is_ready:
                    await peer.here.tasks.sleep_ms(1)
            case "backing off":
                await outcome(link.send(metadata(), timeout_ms=1000))
                assert link.retry_in_ms() > 0
        waiting = link.send(metadata(), timeout_ms=60_000)
        if when == "in flight":
            await peer.here.tasks.sleep_ms(100)
        link.close(reason)
        assert await outcome(waiting) is reason
        assert await outcome(link.send(metadata(), timeout_ms=1000)) is reason
        link.connect()
        link.close()  # a second time: nothing
        await peer.here.tasks.sleep_ms(60_000)
        assert not link.is_ready
        assert not link.is_connecting
        assert all(session.is_closed for session in peer.sessions), "nothing is left open, nor opened afterwards"

    peer.run(main())


def test_closing_from_inside_a_callback_ends_the_link_and_tells_the_rest() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link()
        answers = Answers()

        def close(response: Message | None, error: KafkaError | None) -> None:
            answers.of("first")(response, error)
            link.close()

        link.send_then(metadata(), 1000, close)
        link.send_then(metadata(), 1000, answers.of("second"))
        await peer.here.tasks.sleep_ms(500)
        assert answers.told == [("first", "MetadataResponse"), ("second", "NetworkException")]

    peer.run(main())


# Callers that fail


def test_a_callback_that_raises_on_its_response_is_told_so_and_the_others_hear_of_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    told: list[Any] = []

    def raising(response: Message | None, error: KafkaError | None) -> None:
        told.append(error)
        raise ZeroDivisionError("a bug")

    async def main() -> None:
        link = peer.link()
        link.send_then(metadata(), 1000, raising)
        assert (await link.send(metadata(), timeout_ms=1000)).cluster_id == "virtual"

    with caplog.at_level(logging.ERROR):
        peer.run(main())
    assert told[0] is None
    assert isinstance(told[1], InternalError)
    assert isinstance(told[1].__cause__, ZeroDivisionError)
    assert len(told) == 2
    assert "[Test] The callback for the failure of Metadata" in caplog.text


def test_a_request_that_cannot_be_built_or_encoded_fails_and_the_connection_is_as_good_as_before() -> None:
    peer = Peer()

    def raising(version: int) -> Message:
        raise ZeroDivisionError("a bug")

    async def main() -> None:
        link = peer.link()
        for _ in range(2):  # while there is no connection, and once there is
            with pytest.raises(InternalError, match="The Metadata request could not be built"):
                await link.send(Build(3, raising), timeout_ms=1000)
            with pytest.raises(InvalidRequest):
                await link.send(MetadataRequest(topics=7), timeout_ms=1000)  # type: ignore[arg-type]
            old = Build(3, lambda version: MetadataRequest(include_topic_authorized_operations=True), version_max=2)
            with pytest.raises(UnsupportedVersion):
                await link.send(old, timeout_ms=1000)
        assert (await link.send(metadata(), timeout_ms=1000)).cluster_id == "virtual"

    peer.run(main())
    assert len(peer.sessions) == 1


def test_a_caller_who_is_gone_does_not_disturb_the_answer_of_the_next() -> None:
    peer = Peer()

    async def main() -> None:
        link = peer.link()

        async def ask() -> Any:
            return await link.send(metadata(), timeout_ms=1000)

        gone, other = peer.here.tasks.spawn(ask(), "gone"), peer.here.tasks.spawn(ask(), "other")
        peer.here.tasks.soon(gone.cancel)
        assert (await other).cluster_id == "virtual"

    peer.run(main())


# Observers


def test_an_observer_is_told_what_happens_in_order() -> None:
    peer = Peer()
    seen: list[str] = []

    class Observer(LinkObserver):
        def connecting(self) -> None:
            seen.append("connecting")

        def opened(self) -> None:
            seen.append("opened")

        def ready(self) -> None:
            seen.append("ready")

        def sent(self, size: int, now_ms: float) -> None:
            seen.append("sent")

        def received(self, size: int, sent_ms: float, now_ms: float) -> None:
            assert sent_ms <= now_ms
            seen.append("received")

        def closed(self, error: KafkaError) -> None:
            seen.append(f"closed: {error}")

        def failed(self, error: NetworkException, reason: str) -> KafkaError:
            seen.append(f"failed: {reason}")
            return ClusterAuthorizationFailed("as the observer sees it")

        def lost(self) -> None:
            seen.append("lost")

    async def main() -> None:
        link = peer.link(Observer())
        await link.send(metadata(), timeout_ms=1000)
        peer.listener.close()
        peer.sessions[0].close()
        while link.is_ready:
            await peer.here.tasks.sleep_ms(10)
        with pytest.raises(ClusterAuthorizationFailed):
            await link.send(metadata(), timeout_ms=1000)

    peer.run(main())
    assert seen[:7] == ["connecting", "opened", "sent", "received", "ready", "sent", "received"]
    assert seen[7].startswith("closed: ")
    assert seen[8:] == ["lost", "connecting", "failed: connection refused", "lost"]

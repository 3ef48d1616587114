"""What a simulated client takes for a violation: a node that breaks the protocol, never a connection that breaks."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.sim.clients import Client
from ottla.sim.history import History
from ottla.wire.frames import Request
from ottla.wire.messages.api_versions import ApiVersionsResponse
from tests.unit.net.peer import PORT, Peer, Session


class Asker(Client):
    """Asks for the topics three times."""

    request_timeout_ms = 1000.0

    async def work(self) -> None:
        for _ in range(3):
            await self.topics([])


def violations_of(peer: Peer) -> list[str]:
    """What an asker complains of, until it is done or for ten seconds."""
    history = History(lambda line: None, is_synced=False)
    asker = Asker(peer.here, Random(1), "asker", history, address=("peer", PORT), trace=lambda line: None)

    async def main() -> None:
        asker.start()
        for _ in range(1000):
            await peer.here.tasks.sleep_ms(10)
            if asker.is_done or history.violations:
                return

    peer.run(main())
    assert asker.is_done or history.violations
    return [str(violation) for violation in history.violations]


def is_metadata(request: Request) -> bool:
    return request.header.request_api_key == 3


def swapped(session: Session, request: Request) -> None:
    session.answer(request, correlation_id=request.header.correlation_id + is_metadata(request))


def twice(session: Session, request: Request) -> None:
    session.answer(request)
    if is_metadata(request):
        session.answer(request)


def damaged(session: Session, request: Request) -> None:
    if is_metadata(request):
        session.send(b"\0\0\0\5" + request.header.correlation_id.to_bytes(4, "big") + b"\xff")
    else:
        session.answer(request)


def too_long(session: Session, request: Request) -> None:
    send = session.send
    if is_metadata(request):
        session.send = lambda data: send((len(data) - 3).to_bytes(4, "big") + data[4:] + b"\0")  # type: ignore[method-assign]
    session.answer(request)


def refusing(session: Session, request: Request) -> None:
    if is_metadata(request):
        session.answer(request)
    else:
        session.answer(request, ApiVersionsResponse(error_code=31))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (swapped, r"BadAnswer: the broker answers request 2 and not 1"),
        (twice, r"BadAnswer: the broker answers request 1 and not 2"),
        (damaged, r"BadAnswer: the broker's answer to Metadata v12 is damaged"),
        (too_long, r"BadAnswer: the broker's answer to Metadata v12 is followed by 1 bytes"),
        (refusing, r"ClusterAuthorizationFailed: ApiVersions is refused"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_node_that_breaks_the_protocol_is_a_violation(how: Any, said: str) -> None:
    peer = Peer()
    peer.on_request = how
    found = violations_of(peer)
    assert found
    assert found[0].startswith(f"asker: {said}")


def test_a_connection_that_breaks_is_no_violation_and_the_client_goes_on() -> None:
    for bytes_max in range(0, 200, 7):
        peer = Peer(seed=bytes_max)
        peer.bytes_max = bytes_max

        def exhausted(session: Session, peer: Peer = peer) -> None:
            session.abort()
            peer.bytes_max = 1 << 30

        peer.on_exhausted = exhausted
        assert violations_of(peer) == []
        assert peer.asked().count("Metadata") >= 3


def test_a_request_that_is_not_answered_is_no_violation_either() -> None:
    peer = Peer()
    lost: list[Request] = []

    def lose_one(session: Session, request: Request) -> None:
        if is_metadata(request) and not lost:
            lost.append(request)
        else:
            session.answer(request)

    peer.on_request = lose_one
    assert violations_of(peer) == []
    assert peer.asked().count("Metadata") == 4
    assert len(peer.sessions) == 2

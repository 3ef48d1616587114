"""Requests to other brokers go where the metadata says, each lane over its own connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.errors import BrokerNotAvailable, KafkaError, NetworkException
from ottla.metadata import BrokerImage, Endpoint, Image, between
from ottla.server import NodeContext, Peers
from ottla.types import Uuid
from ottla.wire.messages.metadata import MetadataResponse
from ottla.world import Promise
from tests.unit.net.peer import PORT, Peer, metadata
from tests.unit.server.nodes import FakeQuorum, fake_config


def image_of(*brokers: BrokerImage) -> Image:
    return Image(cluster_id="virtual", brokers={one.id: one for one in brokers})


def broker(host: str = "peer", *, listener: str = "PLAINTEXT", epoch: int = 1) -> BrokerImage:
    return BrokerImage(7, epoch, Uuid(bytes(16)), {listener: Endpoint(listener, host, PORT, 0)}, is_fenced=False)


class Fixture:
    """Broker 1 on the host `here`, and broker 7, which the peer plays."""

    def __init__(self, image: Image) -> None:
        self.peer = Peer()
        self.node = NodeContext(
            config=fake_config(),
            world=self.peer.here,
            node_id=1,
            cluster_id="virtual",
            image=image,
            quorum=FakeQuorum(),
        )
        self.peers = Peers(self.node)

    def publish(self, image: Image) -> None:
        delta = between(self.node.image, image)
        self.node.on_metadata(delta, image)
        self.peers.on_metadata(delta, image)


async def outcome(promise: Promise[Any]) -> Any:
    try:
        return await promise
    except KafkaError as error:
        return error


def test_a_broker_is_asked_at_its_inter_broker_listener_and_each_lane_has_a_connection_of_its_own() -> None:
    fixture = Fixture(image_of(broker()))

    async def main() -> None:
        for lane in ("", "fetcher-0", "fetcher-0", ""):
            answer = await fixture.peers.send(7, metadata(), timeout_ms=1000, lane=lane)
            assert isinstance(answer, MetadataResponse)
        fixture.peers.close()

    fixture.peer.run(main())
    assert len(fixture.peer.sessions) == 2
    assert [one.header.client_id for one in fixture.peer.requests if one.header.request_api_key == 3] == [
        "broker-1",
        "broker-1-fetcher-0",
        "broker-1-fetcher-0",
        "broker-1",
    ]


def test_a_broker_that_the_metadata_does_not_know_or_not_by_this_listener_is_not_available() -> None:
    fixture = Fixture(image_of(broker(listener="EXTERNAL")))

    async def main() -> None:
        assert isinstance(await outcome(fixture.peers.send(7, metadata(), timeout_ms=1000)), BrokerNotAvailable)
        assert isinstance(await outcome(fixture.peers.send(8, metadata(), timeout_ms=1000)), BrokerNotAvailable)

    fixture.peer.run(main())
    assert not fixture.peer.sessions


def test_who_waits_for_a_broker_that_has_moved_or_is_gone_is_told_at_once() -> None:
    """The peer never answers, and the time-out is far away."""
    fixture = Fixture(image_of(broker()))
    fixture.peer.on_request = lambda session, request: (
        session.answer(request) if request.header.request_api_key == 18 else None
    )

    async def main() -> None:
        for changed in (image_of(broker("elsewhere", epoch=2)), image_of()):
            fixture.publish(image_of(broker()))
            waiting = fixture.peers.send(7, metadata(), timeout_ms=1_000_000)
            await fixture.peer.here.tasks.sleep_ms(100)
            assert not waiting.done()
            began_ms = fixture.peer.clock.monotonic_ms()
            fixture.publish(changed)
            assert isinstance(await outcome(waiting), NetworkException)
            assert fixture.peer.clock.monotonic_ms() - began_ms <= 1

    fixture.peer.run(main())


def test_a_new_life_of_a_broker_at_the_same_place_keeps_the_connection() -> None:
    fixture = Fixture(image_of(broker()))

    async def main() -> None:
        await fixture.peers.send(7, metadata(), timeout_ms=1000)
        fixture.publish(image_of(replace(broker(), epoch=2)))
        await fixture.peers.send(7, metadata(), timeout_ms=1000)

    fixture.peer.run(main())
    assert len(fixture.peer.sessions) == 1


def test_nothing_is_sent_after_the_end() -> None:
    fixture = Fixture(image_of(broker()))

    async def main() -> None:
        fixture.peers.close()
        assert isinstance(await outcome(fixture.peers.send(7, metadata(), timeout_ms=1000)), BrokerNotAvailable)

    fixture.peer.run(main())
    assert not fixture.peer.sessions

"""What a client's connections measure is what went over them, on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import pytest

from ottla.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Consumer,
    Producer,
    ShareConsumer,
)
from ottla.client.metrics import Metrics, MetricValues
from ottla.client.network import COORDINATOR, NetworkClient
from ottla.errors import NetworkException
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.world import ClientWorld, Network, Stream, StreamHandler
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Meddling
from tests.unit.client.metrics.test_metrics import KINDS
from tests.unit.client.network.test_network import Client, offsets_of, run


class Wire:
    """A network that counts the bytes that pass, from below the clients."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.sent_bytes = self.received_bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def connect(self, host: str, port: int, on_connected: Callable[[Stream | OSError], StreamHandler | None]) -> None:
        def counted(result: Stream | OSError) -> StreamHandler | None:
            if isinstance(result, OSError):
                return on_connected(result)
            handler = on_connected(CountedStream(self, result))
            return None if handler is None else CountedHandler(self, handler)

        self._network.connect(host, port, counted)


class CountedStream:
    def __init__(self, wire: Wire, stream: Stream) -> None:
        self._wire, self._stream = wire, stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def send(self, parts: Sequence[Any]) -> Any:
        self._wire.sent_bytes += sum(map(len, parts))
        return self._stream.send(parts)


class CountedHandler:
    def __init__(self, wire: Wire, handler: StreamHandler) -> None:
        self._wire, self._handler = wire, handler

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    def on_received(self, count: int) -> None:
        self._wire.received_bytes += count
        self._handler.on_received(count)


def measured(network: NetworkClient) -> MetricValues:
    return network.measured.metrics.snapshot()


def node(node_id: int) -> dict[str, str]:
    return {"node-id": f"node-{node_id}"}


def test_the_bytes_that_are_counted_are_those_on_the_wire() -> None:
    cluster = BrokerCluster(1, broker_count=2)
    cluster.create_topic("a", 2)

    async def main(world: ClientWorld) -> None:
        wire = Wire(world.network)
        client = Client(ClientWorld(world.clock, world.random, world.tasks, wire), cluster)
        try:
            await client.metadata.topic("a", 1000)
            for broker in (1, 2):
                await client.network.send(broker, offsets_of("a"))
            found = measured(client.network)
            requests = len(cluster.requests)
            assert requests > 4
            assert found.value("request-total") == found.value("response-total") == requests
            assert found.value("network-io-total") == 2 * requests
            assert found.value("outgoing-byte-total") == wire.sent_bytes > 0
            assert found.value("incoming-byte-total") == wire.received_bytes > 0
            nodes = {one.tag("node-id") for one in found} - {None}
            assert nodes > {"node-1", "node-2"}
            for name in ("request-total", "outgoing-byte-total", "incoming-byte-total"):
                assert sum(found.value(name, tags={"node-id": str(one)}) for one in nodes) == found.value(name)
        finally:
            client.close()

    cluster.run(main)


def test_connections_are_counted_when_they_are_made_and_when_they_end() -> None:
    cluster = BrokerCluster(2, broker_count=2)

    async def main(client: Client) -> None:
        network = client.network
        cluster.brokers[2].kill()
        with pytest.raises(NetworkException):
            await network.send(-2, MetadataRequest())
        found = measured(network)
        assert found.value("connection-creation-total") == 0, "an attempt is no connection"
        assert not any(one.tag("node-id") for one in found)
        for lane in ("", COORDINATOR):
            await network.send(-1, MetadataRequest(), lane=lane)
        assert measured(network).value("connection-count") == 2
        cluster.brokers[1].kill()
        await client.world.tasks.sleep_ms(1000)
        found = measured(network)
        assert found.value("connection-count") == 0
        assert found.value("connection-close-total") == found.value("connection-creation-total") == 2
        await cluster.brokers[1].start()
        await network.send(-1, MetadataRequest())
        network.close()
        network.close()
        found = measured(network)
        assert found.value("connection-count") == 0
        assert found.value("connection-close-total") == found.value("connection-creation-total") == 3

    run(cluster, main)


def test_a_slow_broker_is_seen_in_its_own_latency() -> None:
    cluster = BrokerCluster(3, broker_count=2)
    cluster.create_topic("a", 2)
    cluster.meddle = lambda broker, request: Meddling(
        delay_ms=400 if broker == 2 and isinstance(request.body, ListOffsetsRequest) else 0
    )

    async def main(client: Client) -> None:
        await client.metadata.topic("a", 1000)
        for broker in (1, 2):
            await client.network.send(broker, offsets_of("a"))
        found = measured(client.network)
        assert found.value("request-latency-max", tags=node(1)) < 100
        assert 400 <= found.value("request-latency-max", tags=node(2)) < 500
        assert 200 <= found.value("request-latency-avg", tags=node(2)) < 400, "the first question was what it speaks"

    run(cluster, main)


def test_a_request_without_an_answer_is_a_request_and_no_response() -> None:
    cluster = BrokerCluster(4, broker_count=1)
    cluster.meddle = lambda broker, request: Meddling(loses_answer=isinstance(request.body, ListOffsetsRequest))

    async def main(client: Client) -> None:
        with pytest.raises(NetworkException):
            await client.network.send(-1, offsets_of("a"))
        found = measured(client.network)
        assert (found.value("request-total"), found.value("response-total")) == (2, 1)
        assert found.value("connection-close-total") == 1

    run(cluster, main)


def test_every_client_shows_the_metrics_that_kafkas_has() -> None:
    """The names are held against Kafka's own clients in tests/unit/client/metrics."""
    cluster = BrokerCluster(5, broker_count=1)

    async def main(world: ClientWorld) -> None:
        address = cluster.bootstrap_servers
        clients: dict[str, Any] = {
            "producer": AsyncProducer(bootstrap_servers=address, world=world),
            "classic": AsyncConsumer(bootstrap_servers=address, group_id="g", group_protocol="classic", world=world),
            "consumer": AsyncConsumer(bootstrap_servers=address, group_id="g", group_protocol="consumer", world=world),
            "share": AsyncShareConsumer(bootstrap_servers=address, group_id="g", world=world),
            "admin": AsyncAdmin(bootstrap_servers=address, world=world),
        }
        for kind, client in clients.items():
            shown = client.metrics()
            assert isinstance(shown, MetricValues), kind
            assert {(one.group, one.name) for one in shown} == kafkas(kind), kind
            assert shown.value("connection-count") == 0
            await client.close()
            assert client.metrics().keys() >= shown.keys(), kind

    cluster.run(main)


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer, ShareConsumer])
def test_metrics_are_read_on_the_thread_that_records_them(kind: type[Any]) -> None:
    """Read on the caller's, they changed size meanwhile whenever a broker or a topic came to be known."""
    readers: list[int] = []

    def read(now_ms: float) -> float:
        readers.append(get_ident())
        return len(readers)

    with kind(bootstrap_servers="127.0.0.1:1", **({"group_id": "g"} if kind is ShareConsumer else {})) as client:
        core = client._admin._network if kind is Admin else client._core
        core.metrics.add("test", "read", read)
        assert client.metrics().value("read") == 1
    assert client.metrics().value("read") == 2, "and can still be read at the end"
    assert readers[0] != get_ident()


def kafkas(kind: str) -> set[tuple[str, str]]:
    metrics = Metrics("c", lambda: 0.0)
    KINDS[kind](metrics)
    return {(one.group, one.name) for one in metrics.names()}

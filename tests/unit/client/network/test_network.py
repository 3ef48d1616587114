"""Connections, metadata and coordinators of a client, against brokers that misbehave, on virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.config.common import CommonConfig
from ottla.client.errors import ClientClosed, KafkaTimeout
from ottla.client.network import Build, CoordinatorKind, Coordinators, Metadata, NetworkClient, Node
from ottla.client.network.network_client import bootstrap_nodes
from ottla.errors import (
    ClusterAuthorizationFailed,
    InvalidConfig,
    InvalidRequest,
    NetworkException,
    RequestTimedOut,
    UnsupportedVersion,
)
from ottla.types import TopicPartition
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.world import ClientWorld
from tests.support.broker_cluster import OFFSETS, BrokerCluster, leaders
from tests.support.wire import FINE, Meddling, only


class Client:
    """The network part of a client."""

    def __init__(self, world: ClientWorld, cluster: BrokerCluster, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        config = CommonConfig({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "test", **named})
        self.world = world
        self.network = NetworkClient(world, config, name="Test clientId=test")
        self.metadata = Metadata(self.network)
        self.coordinators = Coordinators(self.network)

    def close(self) -> None:
        self.metadata.close()
        self.network.close()


def run(cluster: BrokerCluster, main: Callable[[Client], Any], **settings: Any) -> Any:
    async def within_client(world: ClientWorld) -> Any:
        client = Client(world, cluster, **settings)
        try:
            return await main(client)
        finally:
            client.close()

    return cluster.run(within_client)


def offsets_of(topic: str) -> ListOffsetsRequest:
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])])


# Asking


def test_a_request_goes_out_in_the_highest_version_that_both_sides_know() -> None:
    cluster = BrokerCluster(1, versions={"ListOffsets": (1, 7)})
    cluster.create_topic("a")

    async def main(client: Client) -> Any:
        await client.metadata.topic("a", 1000)
        return await client.network.send(1, offsets_of("a"))

    assert run(cluster, main).topics[0].partitions[0].offset == 0
    assert only(cluster.requests, "ListOffsets") == [(1, 7)]


def test_a_broker_that_knows_only_old_api_versions_is_asked_again_in_one_it_knows() -> None:
    cluster = BrokerCluster(1, broker_count=1, versions={"ApiVersions": (0, 2)})
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        await client.metadata.topic("a", 1000)

    run(cluster, main)
    assert [version for _, version in only(cluster.requests, "ApiVersions")] == [4, 2]


def test_a_broker_that_refuses_the_connection_itself_is_not_taken_for_one_that_is_away() -> None:
    cluster = BrokerCluster(1, broker_count=1, versions={"ApiVersions": (0, 0)})
    refusal = ApiVersionsResponse(error_code=ClusterAuthorizationFailed.code)
    cluster.meddle = lambda broker, request: (
        Meddling(answer=refusal) if request.header.request_api_version == 0 else FINE
    )

    async def main(client: Client) -> None:
        with pytest.raises(ClusterAuthorizationFailed):
            await client.network.send(-1, MetadataRequest(topics=[]))

    run(cluster, main)


def test_a_request_in_no_common_version_is_refused_without_asking() -> None:
    cluster = BrokerCluster(1, broker_count=1)

    async def main(client: Client) -> None:
        with pytest.raises(UnsupportedVersion, match="has no version of ControllerRegistration"):
            await client.network.send(-1, ControllerRegistrationRequest())
        with pytest.raises(UnsupportedVersion, match="Metadata"):
            await client.network.send(-1, Build(3, lambda version: MetadataRequest(), version_min=100))

    run(cluster, main)
    assert only(cluster.requests, "Metadata") == []


def test_a_request_that_its_version_cannot_carry_fails_and_does_not_hang() -> None:
    cluster = BrokerCluster(16, broker_count=1, versions={"ListOffsets": (1, 1)})

    async def main(client: Client) -> None:
        request = offsets_of("a")
        request.isolation_level = 1
        for _ in range(2):  # while there is no connection, and once there is
            with pytest.raises(UnsupportedVersion, match="isolation_level"):
                await client.network.send(-1, request)
        request = offsets_of("a")
        request.topics[0].name = 7  # type: ignore[assignment]
        with pytest.raises(InvalidRequest):
            await client.network.send(-1, request)
        # And the connection is as good as before.
        assert (await client.network.send(-1, offsets_of("a"))).topics

    run(cluster, main)


def test_a_request_that_is_not_answered_fails_in_time_and_ends_the_connection() -> None:
    cluster = BrokerCluster(2, broker_count=1)
    cluster.meddle = lambda broker, request: Meddling(is_lost=isinstance(request.body, ListOffsetsRequest))

    async def main(client: Client) -> None:
        await client.network.send(-1, MetadataRequest(topics=[]))
        started = client.world.clock.monotonic_ms()
        with pytest.raises(RequestTimedOut, match=r"ListOffsets .* not answered within 700 ms"):
            await client.network.send(-1, offsets_of("a"), timeout_ms=700)
        assert 700 <= client.world.clock.monotonic_ms() - started < 1500
        assert not client.network.is_ready(-1)
        # And what is sent then goes over a new one.
        response = await client.network.send(-1, MetadataRequest(topics=[]))
        assert response.cluster_id == cluster.cluster_id

    run(cluster, main)


def test_a_broker_that_is_away_fails_the_request_with_a_retriable_error_and_is_found_again() -> None:
    cluster = BrokerCluster(3, broker_count=1)

    async def main(client: Client) -> None:
        broker = cluster.brokers[1]
        await client.network.send(-1, MetadataRequest(topics=[]))
        broker.kill()
        await client.world.tasks.sleep_ms(100)
        with pytest.raises(NetworkException):
            await client.network.send(-1, MetadataRequest(topics=[]))
        await broker.start()
        for _ in range(20):
            try:
                response = await client.network.send(-1, MetadataRequest(topics=[]))
                break
            except NetworkException:
                await client.world.tasks.sleep_ms(200)
        assert response.cluster_id == cluster.cluster_id

    run(cluster, main)


def test_a_broker_whose_power_is_gone_cannot_hold_a_request_beyond_its_time_out() -> None:
    cluster = BrokerCluster(4, broker_count=2)

    async def main(client: Client) -> None:
        await client.network.send(-1, MetadataRequest(topics=[]))
        cluster.brokers[1].crash()
        started = client.world.clock.monotonic_ms()
        for _ in range(3):  # over the half-open connection, and then for want of one
            with pytest.raises((RequestTimedOut, NetworkException)):
                await client.network.send(-1, MetadataRequest(topics=[]), timeout_ms=500)
        assert client.world.clock.monotonic_ms() - started < 3 * 1000

    run(cluster, main)


def test_a_broker_that_is_away_is_not_called_more_often_than_its_backoff_allows() -> None:
    cluster = BrokerCluster(5, broker_count=1)
    calls = 0

    async def main(client: Client) -> None:
        nonlocal calls
        cluster.brokers[1].kill()
        connect = client.world.network.connect

        def counted(*args: Any) -> None:
            nonlocal calls
            calls += 1
            connect(*args)

        object.__setattr__(client.network.world, "network", type("Counted", (), {"connect": staticmethod(counted)})())
        until = client.world.clock.monotonic_ms() + 10_000
        while client.world.clock.monotonic_ms() < until:
            with pytest.raises((NetworkException, RequestTimedOut)):
                await client.network.send(-1, MetadataRequest(topics=[]), timeout_ms=1000)

    run(cluster, main)
    # 50 ms, doubled up to 1 s: about 14 calls in 10 s, and not hundreds.
    assert 5 <= calls <= 25


def test_closing_fails_what_waits() -> None:
    cluster = BrokerCluster(6, broker_count=1)
    cluster.meddle = lambda broker, request: Meddling(is_lost=isinstance(request.body, ListOffsetsRequest))

    async def main(client: Client) -> None:
        await client.network.send(-1, MetadataRequest(topics=[]))
        waiting = client.network.send(-1, offsets_of("a"))
        update = client.metadata.next_update()
        client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await update
        with pytest.raises(ClientClosed):
            await client.network.send(-1, MetadataRequest(topics=[]))

    run(cluster, main)


def test_a_throttled_client_sends_nothing_until_it_may() -> None:
    cluster = BrokerCluster(7, broker_count=1)
    cluster.create_topic("a")

    async def main(client: Client) -> int:
        def throttle(answer: ListOffsetsResponse) -> None:
            answer.throttle_time_ms = 2000

        cluster.meddle = lambda broker, request: (
            Meddling(change=throttle) if isinstance(request.body, ListOffsetsRequest) else FINE
        )
        await client.network.send(-1, offsets_of("a"))
        started = client.world.clock.monotonic_ms()
        await client.network.send(-1, MetadataRequest(topics=[]))
        return client.world.clock.monotonic_ms() - started

    assert 2000 <= run(cluster, main) < 2500


# Metadata


def test_a_topic_that_comes_late_is_waited_for_without_a_flood_of_requests() -> None:
    cluster = BrokerCluster(8)

    async def main(client: Client) -> int:
        client.world.tasks.later(3000, lambda: client.world.tasks.spawn(cluster.make_topic("late", 2), "make it"))
        info = await client.metadata.topic("late", 10_000)
        return info.partition_count

    assert run(cluster, main) == 2
    assert 10 <= len(only(cluster.requests, "Metadata")) <= 40


def test_a_topic_that_never_comes_is_given_up_in_time_and_named() -> None:
    cluster = BrokerCluster(9)
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        with pytest.raises(KafkaTimeout, match="Topic never not present in metadata after 1500 ms"):
            await client.metadata.topic("never", 1500)
        with pytest.raises(KafkaTimeout, match="Partition 3 of a not present in metadata after 500 ms"):
            await client.metadata.topic("a", 500, partition=3)

    run(cluster, main)


def test_a_stale_broker_cannot_bring_an_old_leader_back() -> None:
    cluster = BrokerCluster(10)
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        metadata = client.metadata
        await metadata.topic("a", 1000)
        assert leaders(metadata.cluster, "a") == [1]
        assert metadata.update_leader(TopicPartition("a", 0), 3, 7, [Node(3, "broker3", 9092)])
        assert not metadata.update_leader(TopicPartition("a", 0), 2, 6, [Node(2, "broker2", 9092)])
        await metadata.next_update()  # the brokers still say leader 1, epoch 0
        assert leaders(metadata.cluster, "a") == [3]
        # Made again it is another topic, and everything about the old one is void.
        await cluster.remake_topic("a")
        await metadata.next_update()
        assert leaders(metadata.cluster, "a") == [1]

    run(cluster, main)


def test_metadata_grows_old_and_is_asked_for_again() -> None:
    cluster = BrokerCluster(11)
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        await client.metadata.topic("a", 1000)
        await cluster.move_leader("a", 0, 2)
        await client.world.tasks.sleep_ms(6000)
        assert leaders(client.metadata.cluster, "a") == [2]

    run(cluster, main, metadata_max_age_ms=5000)


def test_a_client_whose_brokers_have_all_moved_begins_again_with_the_bootstrap_servers() -> None:
    cluster = BrokerCluster(12)
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        await client.metadata.topic("a", 1000)
        # What it knows now are brokers that nobody can reach.
        gone = {index: Node(index, f"broker{index}", 1) for index in (1, 2, 3)}
        client.network.set_nodes(gone)
        await cluster.move_leader("a", 0, 3)
        client.metadata.request_update()
        for _ in range(100):
            await client.world.tasks.sleep_ms(100)
            if leaders(client.metadata.cluster, "a") == [3]:
                return
        pytest.fail("the bootstrap servers were not asked")

    run(cluster, main)


def test_a_broker_that_takes_too_long_to_connect_is_not_asked_again_before_the_others() -> None:
    cluster = BrokerCluster(17)
    cluster.create_topic("a")

    async def main(client: Client) -> None:
        # Two of three are dark: calls for a connection are not even refused.
        cluster.brokers[1].crash()
        cluster.brokers[2].crash()
        started = client.world.clock.monotonic_ms()
        await client.metadata.topic("a", 30_000)
        assert client.world.clock.monotonic_ms() - started < 5_000

    run(cluster, main, request_timeout_ms=1000)


# Coordinators


def test_a_coordinator_is_asked_for_once_by_many_and_again_when_it_has_moved() -> None:
    cluster = BrokerCluster(13)
    cluster.serve_groups()

    async def main(client: Client) -> None:
        found = [
            client.world.tasks.spawn(client.coordinators.find(CoordinatorKind.GROUP, "g", 1000), "find")
            for _ in range(5)
        ]
        assert [await one for one in found] == [1] * 5
        assert len(only(cluster.requests, "FindCoordinator")) == 1
        await cluster.move_leader(OFFSETS, 0, 2)
        client.coordinators.note(CoordinatorKind.GROUP, "g", 16)
        assert await client.coordinators.find(CoordinatorKind.GROUP, "g", 1000) == 2

    run(cluster, main)


def test_one_who_stops_waiting_for_a_coordinator_does_not_stop_the_others() -> None:
    cluster = BrokerCluster(15)
    cluster.serve_groups()
    cluster.meddle = lambda broker, request: Meddling(delay_ms=500)

    async def main(client: Client) -> None:
        find = client.coordinators.find
        one, other = (client.world.tasks.spawn(find(CoordinatorKind.GROUP, "g", 5000), "find") for _ in range(2))
        await client.world.tasks.sleep_ms(300)
        one.cancel()
        assert await other == 1

    run(cluster, main)


def test_a_coordinator_that_is_not_there_is_given_up_in_time_with_the_reason() -> None:
    cluster = BrokerCluster(14)

    async def main(client: Client) -> None:
        for broker in cluster.brokers.values():
            broker.kill()
        started = client.world.clock.monotonic_ms()
        with pytest.raises(KafkaTimeout, match="coordinator of group g was not found within 3000 ms"):
            await client.coordinators.find(CoordinatorKind.GROUP, "g", 3000)
        assert client.world.clock.monotonic_ms() - started <= 3500

    run(cluster, main)


# Addresses


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":9092", "localhost:abc", "localhost:70000", "a:0"])
def test_a_bootstrap_address_that_is_none_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(InvalidConfig, match="it must be host:port"):
        bootstrap_nodes((text,))


def test_bootstrap_addresses_take_names_ipv4_ipv6_and_a_protocol() -> None:
    found = bootstrap_nodes(("kafka:9092", "10.1.2.3:1", "[::1]:9093", "PLAINTEXT://other:9094"))
    assert [(node.host, node.port) for node in found.values()] == [
        ("kafka", 9092), ("10.1.2.3", 1), ("::1", 9093), ("other", 9094)
    ]  # fmt: skip
    assert list(found) == [-1, -2, -3, -4]

"""An admin on a network and with brokers that fail, on virtual time: it ends when it must, and tells the truth."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.admin import Admin, AsyncAdmin, OffsetSpec
from ottla.client.errors import KafkaTimeout
from ottla.client.network import NetworkClient
from ottla.errors import NotLeaderOrFollower
from ottla.types import TopicPartition
from ottla.wire.frames import Request
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import FINE, Meddling, only

PARTITIONS = [TopicPartition("a", index) for index in range(6)]
LATEST = dict.fromkeys(PARTITIONS, OffsetSpec.latest())


def run(cluster: BrokerCluster, main: Callable[[AsyncAdmin], Any], **settings: Any) -> Any:
    async def with_admin(world: Any) -> Any:
        async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world, **settings) as admin:
            return await main(admin)

    return cluster.run(with_admin)


def with_topic(seed: int, copies: int = 3) -> BrokerCluster:
    """Two partitions led by each of three brokers."""
    cluster = BrokerCluster(seed)
    cluster.create_topic("a", len(PARTITIONS), copies)
    return cluster


@pytest.mark.parametrize("seed", range(10))
def test_lost_late_and_refused_requests_are_tried_until_all_is_told(seed: int) -> None:
    cluster = with_topic(seed)

    def meddle(broker: int, request: Request) -> Meddling:
        chance = cluster.chance.random()
        if chance < 0.1:
            return Meddling(is_lost=True)
        if chance < 0.2:
            return Meddling(loses_answer=True)
        if chance < 0.3:
            return Meddling(delay_ms=cluster.chance.uniform(0, 3000))
        if chance < 0.4:
            cluster.move_leader_soon("a", cluster.chance.randrange(6), cluster.chance.randint(1, 3))
        if chance < 0.5 and isinstance(request.body, ListOffsetsRequest):
            return Meddling(answer=refused(request.body))
        return FINE

    cluster.meddle = meddle

    async def main(admin: AsyncAdmin) -> None:
        for _ in range(5):
            outcomes = await admin.list_offsets(LATEST, timeout=600)
            assert {key: found.offset for key, found in outcomes.all().items()} == dict.fromkeys(PARTITIONS, 0)
            assert list(await admin.list_topics(timeout=600)) == ["a"]

    run(cluster, main, request_timeout_ms=2000, default_api_timeout_ms=600_000)


def refused(request: ListOffsetsRequest) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                topic.name,
                [
                    ListOffsetsPartitionResponse(one.partition_index, NotLeaderOrFollower.code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_a_broker_without_power_holds_up_only_its_own_partitions() -> None:
    """Its connection hangs half open: nothing comes, and nothing says that nothing will come. Nobody has a copy."""
    cluster = with_topic(1, copies=1)

    async def main(admin: AsyncAdmin) -> None:
        (await admin.list_offsets(LATEST)).all()
        cluster.brokers[2].crash()
        clock = admin._network.world.clock
        begun_ms = clock.monotonic_ms()
        outcomes = admin.list_offsets(LATEST, timeout=10)
        for key in (PARTITIONS[0], PARTITIONS[2]):
            assert (await outcomes[key]).offset == 0
        # The leaders may first have been asked for at the broker that is gone: one request's time-out, and no more.
        assert clock.monotonic_ms() - begun_ms < 3500
        errors = (await outcomes).errors
        assert list(errors) == [PARTITIONS[1], PARTITIONS[4]]
        assert {type(error) for error in errors.values()} == {KafkaTimeout}
        assert 9_000 <= clock.monotonic_ms() - begun_ms <= 10_100
        await cluster.brokers[2].start()
        (await admin.list_offsets(LATEST, timeout=10)).all()

    run(cluster, main, request_timeout_ms=3000)


@pytest.mark.parametrize("timeout", [0.0, 0.05, 1.0, 45.0])
def test_no_call_takes_longer_than_its_time_whoever_is_silent(timeout: float) -> None:
    cluster = with_topic(2)

    async def main(admin: AsyncAdmin) -> None:
        cluster.nodes.pause()  # their systems take connections, and nothing comes of them
        clock = admin._network.world.clock
        for call in (admin.list_topics, admin.list_groups, admin.describe_metadata_quorum):
            begun_ms = clock.monotonic_ms()
            with pytest.raises(KafkaTimeout):
                await call(timeout=timeout)
            assert clock.monotonic_ms() - begun_ms <= timeout * 1000 + 10
        begun_ms = clock.monotonic_ms()
        assert len((await admin.list_offsets(LATEST, timeout=timeout)).errors) == 6
        assert clock.monotonic_ms() - begun_ms <= timeout * 1000 + 10

    run(cluster, main)


def test_brokers_that_are_gone_are_not_tried_for_ever_and_are_found_when_they_are_back() -> None:
    cluster = with_topic(3)

    async def main(admin: AsyncAdmin) -> None:
        await admin.list_topics()
        for broker in cluster.brokers.values():
            broker.kill()
        with pytest.raises(KafkaTimeout):
            await admin.list_topics(timeout=20)
        # Twenty seconds with a growing backoff, and not thousands of attempts.
        assert len(only(cluster.requests, "Metadata")) < 10
        await cluster.brokers[3].start()
        assert list(await admin.list_topics(timeout=20)) == ["a"]

    run(cluster, main)


def test_a_thousand_admins_leave_nothing_behind() -> None:
    cluster = with_topic(4)

    async def main(admin: AsyncAdmin) -> None:
        world = admin._network.world
        before = networks()
        for _ in range(1000):
            async with AsyncAdmin(bootstrap_servers=cluster.bootstrap_servers, world=world) as one:
                assert list(await one.list_topics()) == ["a"]
        del one
        await world.tasks.sleep_ms(1000)  # the last connection is still being closed
        assert networks() == before

    def networks() -> int:
        gc.collect()
        return sum(isinstance(one, NetworkClient) for one in gc.get_objects())

    run(cluster, main)


def test_a_closed_admin_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    for _ in range(20):
        with Admin(bootstrap_servers="127.0.0.1:1") as admin, pytest.raises(KafkaTimeout):
            admin.list_topics(timeout=0)
    assert set(threading.enumerate()) == before

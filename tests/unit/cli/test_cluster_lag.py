"""`ottla/cli/cluster_lag.py`: what brokers are asked for, and what is said of one that does not answer."""

from __future__ import annotations

import asyncio

from ottla.cli.cluster_lag import LagWatch
from ottla.client.admin import AsyncAdmin, AsyncFakeAdmin, FakeCluster, NewTopic
from ottla.errors import BrokerNotAvailable
from ottla.types import TopicPartition
from ottla.wire import Message
from ottla.wire.messages.list_offsets import ListOffsetsRequest

PARTITION_COUNT = 6


class Watched(FakeCluster):
    """Three brokers, and for how many log ends each of them was asked."""

    def __init__(self) -> None:
        super().__init__(3)
        self.asked: dict[int, int] = {}
        self.silent: int | None = None

    def answer(self, node_id: int, request: Message) -> Message:
        if isinstance(request, ListOffsetsRequest):
            if node_id == self.silent:
                raise BrokerNotAvailable
            self.asked[node_id] = self.asked.get(node_id, 0) + sum(len(one.partitions) for one in request.topics)
        return super().answer(node_id, request)


async def look(watch: LagWatch, admin: AsyncAdmin) -> dict[int, int | None]:
    topics = await admin.describe_topics(["t"])
    return await watch.look(admin, [1, 2, 3], topics.succeeded.values())


def test_followers_are_asked_once_while_nothing_is_written() -> None:
    """A cluster at rest costs a line for each partition, whatever its replication factor."""

    async def run() -> None:
        cluster, watch = Watched(), LagWatch()
        async with AsyncFakeAdmin(cluster) as admin:
            await admin.create_topics([NewTopic("t", PARTITION_COUNT, 3)])
            assert await look(watch, admin) == {1: 0, 2: 0, 3: 0}
            assert sum(cluster.asked.values()) == 3 * PARTITION_COUNT
            cluster.asked.clear()
            assert await look(watch, admin) == {1: 0, 2: 0, 3: 0}
            assert sum(cluster.asked.values()) == PARTITION_COUNT
            cluster.put_records(TopicPartition("t", 0), 10)
            cluster.asked.clear()
            assert await look(watch, admin) == {1: 0, 2: 0, 3: 0}
            assert sum(cluster.asked.values()) == PARTITION_COUNT + 2, "the followers of what was written to"

    asyncio.run(run())


def test_a_follower_that_does_not_answer_is_behind_by_what_was_written_since_it_did() -> None:
    async def run() -> None:
        cluster, watch = Watched(), LagWatch()
        async with AsyncFakeAdmin(cluster) as admin:
            await admin.create_topics([NewTopic("t", assignments={0: [1, 2], 1: [3, 2]})])
            cluster.silent = 2
            assert await look(watch, admin) == {1: 0, 2: None, 3: 0}, "nobody knows"
            cluster.silent = None
            assert await look(watch, admin) == {1: 0, 2: 0, 3: 0}
            cluster.silent = 2
            cluster.put_records(TopicPartition("t", 0), 10)
            cluster.put_records(TopicPartition("t", 1), 5)
            assert await look(watch, admin) == {1: 0, 2: 15, 3: 0}
            cluster.silent = None
            assert await look(watch, admin) == {1: 0, 2: 0, 3: 0}

    asyncio.run(run())


def test_a_broker_that_shares_no_partition_has_nothing_to_be_behind_in() -> None:
    async def run() -> None:
        cluster, watch = Watched(), LagWatch()
        async with AsyncFakeAdmin(cluster) as admin:
            await admin.create_topics([NewTopic("t", 3, 1)])
            assert await look(watch, admin) == {}
            assert cluster.asked == {}

    asyncio.run(run())

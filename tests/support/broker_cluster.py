"""Real brokers for clients, on virtual time: leaders that move, brokers that vanish, answers that go missing.

The nodes are those of `ottla server` (`ottla.sim.SimulatedCluster`): brokers 1 to n on hosts `broker1` to `brokern` and
a controller on a host of its own, so that brokers come and go and somebody elects. Clients live on the host `client`;
the test may look at each of their requests and let it be lost, answered late or answered with something else
(`tests.support.wire`). What the test does besides (topics, leaders, records) an operator does, from another host, over
a network that nobody meddles with.
"""

from __future__ import annotations

from asyncio import Task
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from random import Random
from typing import Any

from ottla.client import AsyncAdmin, AsyncProducer, NewTopic
from ottla.client.admin import ElectionType
from ottla.client.network import Cluster
from ottla.errors import ElectionNotNeeded, KafkaError
from ottla.node import Node
from ottla.records import batches
from ottla.sim import VirtualClock, VirtualLoop, VirtualNetwork, client_world
from ottla.sim.cluster import PORT, SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.sim.network import Host
from ottla.sim.node import SimulatedNode
from ottla.types import TopicPartition
from ottla.world import ClientWorld
from tests.support.wire import Meddler, WatchedNetwork

LOG_DIR = "/data/a"
OFFSETS = "__consumer_offsets"
SETTINGS = {
    "log.dirs": LOG_DIR,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1000",
}


class BrokerCluster:
    """The brokers, by number, and everything that a test does to them."""

    def __init__(
        self,
        seed: int,
        broker_count: int = 3,
        *,
        versions: dict[str, tuple[int, int]] | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.loop = VirtualLoop()
        self.chance = Random(f"{seed} cluster")
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.errors: list[str] = []
        """The nodes' ERROR lines."""
        self._logs = LogCapture(lambda line: None, self.errors.append)
        copies = str(min(3, broker_count))
        given = {
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
            **SETTINGS,
            **(settings or {}),
        }
        name = "broker" if broker_count > 1 else "broker1"
        self.nodes = SimulatedCluster(
            self.network,
            layout(broker_count, controller_count=1, settings=given, name=name),
            self._logs,
            lambda line: None,
            str(seed),
        )
        self.brokers = {number: Broker(self, self.nodes[f"broker{number}"]) for number in range(1, broker_count + 1)}
        self._client = client_world(self.network, "client", str(seed))
        self._operator = client_world(self.network, "operator", str(seed))
        hosts = {f"broker{number}": number for number in self.brokers}
        self._wire = WatchedNetwork(self._client, hosts, versions or {})
        self._set_up: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._admin: AsyncAdmin
        self._leaders: dict[str, list[int]] = {}
        """At the end of the run."""

    def client_world(self) -> ClientWorld:
        world = self._client
        return ClientWorld(world.clock, world.random, world.tasks, self._wire)

    @property
    def cluster_id(self) -> str:
        assert self._controller is not None
        return self._controller.context.cluster_id

    @property
    def client_host(self) -> Host:
        return self._client.network.host

    @property
    def clock(self) -> VirtualClock:
        """The client's."""
        return self._client.clock

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"broker{number}:{PORT}" for number in self.brokers)

    @property
    def meddle(self) -> Meddler:
        return self._wire.meddle

    @meddle.setter
    def meddle(self, meddler: Meddler) -> None:
        self._wire.meddle = meddler

    @property
    def requests(self) -> list[tuple[int, str, int]]:
        """Everything that clients asked: broker, API, version."""
        return self._wire.requests

    def run(self, main: Callable[[ClientWorld], Coroutine[Any, Any, Any]]) -> Any:
        """Start the brokers, set up what was asked for, then run a client's coroutine to its end."""
        world = self.client_world()

        async def prepared() -> None:
            await self.nodes.start()
            for one in self._set_up:
                await one()
            await self._operator.tasks.sleep_ms(1000)  # elections and replication have come to rest

        with self._logs:
            try:
                self._admin = self._make_admin()
                self.loop.run_until_complete(self.loop.create_task(prepared(), context=Context()))
                task = self.loop.create_task(main(world), context=self._client.life.context.copy())
                return self.loop.run_until_complete(task)
            finally:
                self._leaders = self._leaders_now()
                self._logs.is_muted = True
                self._client.life.end()
                self._operator.life.end()
                self.nodes.kill()
                self.loop.close()

    def _make_admin(self) -> AsyncAdmin:
        world = self._operator.as_client
        return AsyncAdmin(bootstrap_servers=self.bootstrap_servers, world=world, request_timeout_ms=3000)

    # What there is

    def create_topic(self, name: str, partition_count: int = 1, copies: int = 3, **configs: str) -> None:
        """Have a topic when the client begins; partition 0 is led by broker 1, the next by the next one."""
        self._set_up.append(lambda: self.make_topic(name, partition_count, copies, **configs))

    async def make_topic(self, name: str, partition_count: int = 1, copies: int = 3, **configs: str) -> None:
        numbers = list(self.brokers)
        assignments = {
            index: [numbers[(index + place) % len(numbers)] for place in range(min(copies, len(numbers)))]
            for index in range(partition_count)
        }
        named = {key.replace("_", "."): value for key, value in configs.items()}
        (await self._admin.create_topics([NewTopic(name, assignments=assignments, configs=named)])).all()

    def serve_groups(self) -> None:
        """Have a coordinator when the client begins: the leader of the only partition of `OFFSETS`, broker 1."""

        async def serve() -> None:
            await self._admin.describe_consumer_groups(["nobody"])  # the first who asks for a coordinator makes it
            await self.move_leader(OFFSETS, 0, 1)

        self._set_up.append(serve)

    async def remake_topic(self, name: str, partition_count: int = 1) -> None:
        (await self._admin.delete_topics([name])).all()
        await self.make_topic(name, partition_count)

    def append(self, count: int, partition: TopicPartition, start: int = 0) -> None:
        """Have records when the client begins."""
        self._set_up.append(lambda: self.write(count, partition, start))

    async def write(self, count: int, partition: TopicPartition, start: int = 0) -> None:
        """Write numbers as values, in batches of 10."""
        world = self._operator.as_client
        settings: dict[str, Any] = {"linger.ms": 60_000, "request.timeout.ms": 3000, "retry.backoff.ms": 20}
        async with AsyncProducer(settings, bootstrap_servers=self.bootstrap_servers, world=world) as producer:
            sent = []
            for number in range(start, start + count):
                sent.append(
                    await producer.send(
                        partition.topic, b"%d" % number, partition=partition.partition, timestamp_ms=1000
                    )
                )
                if len(sent) % 10 == 0:
                    await producer.flush()
            await producer.flush()
            for delivery in sent:
                delivery.result()

    @property
    def _controller(self) -> Node | None:
        return self.nodes[self.nodes.voters[0]].node

    def _leaders_now(self) -> dict[str, list[int]]:
        assert self._controller is not None
        topics = self._controller.context.image.topics.by_name
        return {name: [one.leader for _, one in sorted(topic.partitions.items())] for name, topic in topics.items()}

    def leader(self, partition: TopicPartition) -> int:
        """Who leads it, as the controller knows; -1 while nobody does."""
        return self._leaders_now()[partition.topic][partition.partition]

    async def move_leader(self, topic: str, index: int, to: int) -> None:
        """Make another replica the preferred one, and elect it; it stays as it is where that one cannot lead now."""
        partition = TopicPartition(topic, index)
        others = [number for number in self.brokers if number != to]
        (await self._admin.alter_partition_reassignments({partition: [to, *others][:3]})).all()
        outcomes = await self._admin.elect_leaders(ElectionType.PREFERRED, [partition])
        for error in outcomes.errors.values():
            if not isinstance(error, ElectionNotNeeded):
                raise error

    def move_leader_soon(self, topic: str, index: int, to: int) -> None:
        """The same, begun now and not waited for, and not at all where it cannot be done."""

        async def move() -> None:
            with suppress(KafkaError):
                await self.move_leader(topic, index, to)

        self._operator.tasks.spawn(move(), "move a leader")

    def values(self, topic: str) -> list[list[bytes | None]]:
        """What each partition of a topic holds on its leader's disk, also after the end of the run."""
        leaders = self._leaders if self._controller is None else self._leaders_now()
        return [self._values(TopicPartition(topic, index), leader) for index, leader in enumerate(leaders[topic])]

    def _values(self, partition: TopicPartition, leader: int) -> list[bytes | None]:
        disk = self.brokers[leader].node.disk
        paths = sorted(path for path in disk.peek_files(f"{LOG_DIR}/{partition}") if path.endswith(".log"))
        return [
            row.value
            for path in paths
            for batch in batches(memoryview(disk.peek(path)))
            if not batch.is_control
            for row in batch.records()
        ]


class Broker:
    """One broker: `kill` (its system closes its connections), `crash` (nobody is told), and start again."""

    def __init__(self, cluster: BrokerCluster, node: SimulatedNode) -> None:
        self._cluster = cluster
        self.node = node
        self.host = node.host

    @property
    def is_running(self) -> bool:
        return self.node.is_running

    def start(self) -> Task[None]:
        """Begins to start it unless it runs; awaited, it serves."""

        async def start() -> None:
            if not self.node.is_running:
                await self.node.start()

        return self._cluster.loop.create_task(start(), context=Context())

    def kill(self) -> None:
        self.node.kill(is_power_loss=False)

    def crash(self) -> None:
        """The machine is gone at once: connections hang half open. Its disk keeps what was written, synced or not."""
        self._cluster.network.lose_power(self.host)
        self.kill()


def leaders(cluster: Cluster, topic: str) -> list[int]:
    """Who leads each partition, as a client sees it."""
    return [info.leader for info in cluster.topics[topic].partitions.values()]

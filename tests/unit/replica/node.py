"""A broker's data side in a virtual world: metadata records in, partitions and handlers to try, time to move."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ottla.config import BrokerConfig
from ottla.coordinator.group import GroupCoordinator
from ottla.coordinator.transaction import TransactionCoordinator
from ottla.errors import KafkaError
from ottla.metadata import LATEST_METADATA_VERSION, METADATA_VERSION, Image, ImageBuilder
from ottla.net import Build, OnAnswer, Request
from ottla.replica import Partition, PartitionLog, ReplicaManager
from ottla.server import (
    BrokerContext,
    BrokerServices,
    Connection,
    Dispatcher,
    NodeContext,
    RequestContext,
    RoutedMarkers,
    take_producer_id,
)
from ottla.server.fetch_session import FetchSessions
from ottla.server.roles import BROKER
from ottla.sim import VirtualNodeWorld, virtual_node_world
from ottla.types import Uuid
from ottla.wire import APIS, Message, decode, encode, request_class
from ottla.wire.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.wire.metadata.brokers import BrokerEndpoint
from ottla.world import Address, NodeWorld, Promise

NODE_ID = 1
LISTENER = "PLAINTEXT"
TOPIC_CONFIG, BROKER_CONFIG = 2, 4


def topic_id(name: str) -> Uuid:
    """The id that a test's topic of that name has, unless the test gives another."""
    return Uuid((name.encode() + 16 * b"\1")[:16])


def directory_id(path: str) -> Uuid:
    return Uuid((path[::-1].encode() + 16 * b"\2")[:16])


class Quorum:
    """A quorum of this node alone."""

    leader_id = NODE_ID
    kraft_version = 0


class Controller:
    """Answers what a test has prepared, by the class of the request."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.answers: dict[type[Message], Callable[[Any], Message | KafkaError]] = {}

    def forward(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        return self.send(request, version=context.version)

    async def send(self, request: Message, *, version: int) -> Message:
        self.sent.append(request)
        answer = self.answers[type(request)](request)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


class OtherBrokers:
    """The way to other brokers: what is sent to each of them waits for the test to answer it."""

    def __init__(self, world: NodeWorld) -> None:
        self._world = world
        self.sent: list[tuple[int, Message, Promise[Message]]] = []

    def send(self, broker_id: int, request: Request, *, timeout_ms: float, lane: str = "") -> Promise[Message]:
        promise: Promise[Message] = self._world.tasks.promise()
        message = request.make(APIS[request.api_key].versions[1]) if isinstance(request, Build) else request
        self.sent.append((broker_id, message, promise))
        return promise

    def send_then(
        self, broker_id: int, request: Request, on_answer: OnAnswer, *, timeout_ms: float, lane: str = ""
    ) -> None:
        told(self.send(broker_id, request, timeout_ms=timeout_ms, lane=lane), on_answer)


def told(promise: Promise[Message], on_answer: OnAnswer) -> None:
    """Tells a callback what becomes of a promise."""

    def done(settled: Promise[Message]) -> None:
        try:
            response = settled.result()
        except KafkaError as error:
            on_answer(None, error)
        else:
            on_answer(response, None)

    promise.add_done_callback(done)


class TestNode:
    """One node's replicas, with handlers called as the session calls them: from bytes, with a lent frame."""

    __test__ = False

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        world: NodeWorld | None = None,
        directories: Iterable[str] = ("/logs",),
        image: Image | None = None,
    ) -> None:
        virtual = None
        if world is None:
            world = virtual = virtual_node_world(1)
        self.world = world
        self.virtual: VirtualNodeWorld | None = virtual
        self.directories = list(directories)
        self.config = BrokerConfig(
            {
                "node.id": NODE_ID,
                "process.roles": "broker,controller",
                "controller.quorum.voters": f"{NODE_ID}@localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
                "log.dirs": ",".join(self.directories),
                **(settings or {}),
            }
        )
        self.assigned: list[tuple[Uuid, int, Uuid]] = []
        self.failed_directories: list[str] = []
        self.replicas = ReplicaManager.create(
            world,
            self.config,
            NODE_ID,
            directory_ids={path: directory_id(path) for path in self.directories},
            on_assigned=lambda *told: self.assigned.append(told),
            on_directory_failed=lambda one: self.failed_directories.append(one.path),
        )
        self.controller = Controller()
        self.other_brokers = OtherBrokers(world)
        self.image = image or Image("cluster")
        self.groups = GroupCoordinator(
            world,
            NODE_ID,
            lambda: self.config,
            lambda index: PartitionLog.of(self.replicas, "__consumer_offsets", index),
            self.image,
        )
        self.replicas.watch("__consumer_offsets", self.groups)
        self.transactions = TransactionCoordinator(
            world,
            NODE_ID,
            lambda: self.config,
            lambda index: PartitionLog.of(self.replicas, "__transaction_state", index),
            self.image,
            markers=RoutedMarkers(lambda: self.broker),
            take_producer_id=lambda: take_producer_id(self.broker),
        )
        self.replicas.watch("__transaction_state", self.transactions)
        self.context = NodeContext(
            config=self.config, world=world, node_id=NODE_ID, cluster_id="cluster", image=self.image, quorum=Quorum()
        )
        self.broker = BrokerServices(
            node=self.context,
            replicas=self.replicas,
            controller=self.controller,
            peers=self.other_brokers,
            fetch_sessions=FetchSessions(world, self.config.max_incremental_fetch_session_cache_slots),
            groups=self.groups,
            transactions=self.transactions,
        )
        self.dispatcher = Dispatcher(self.broker)
        self.connection = Connection(self.dispatcher, LISTENER, Address("127.0.0.1", 4711))
        self.publish(
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION),
            RegisterBrokerRecord(
                broker_id=NODE_ID,
                broker_epoch=7,
                fenced=False,
                end_points=[BrokerEndpoint(LISTENER, "host-1", 9092, 0)],
            ),
            RegisterBrokerRecord(
                broker_id=2,
                broker_epoch=8,
                fenced=False,
                rack="r2",
                end_points=[BrokerEndpoint(LISTENER, "host-2", 9092, 0)],
            ),
        )

    # Metadata

    def publish(self, *records: Message) -> None:
        """Let these records be committed, and everybody told."""
        builder = ImageBuilder(self.image)
        builder.replay_all(records)
        delta, self.image = builder.build(
            offset=self.image.offset + len(records), epoch=1, timestamp_ms=self.world.clock.now_ms()
        )
        self.replicas.on_metadata(delta, self.image)
        self.groups.on_metadata(delta, self.image)
        self.transactions.on_metadata(delta, self.image)
        self.context.on_metadata(delta, self.image)
        self.broker.on_metadata(delta, self.image)

    def create_topic(
        self,
        name: str = "t",
        partitions: int = 1,
        *,
        uuid: Uuid | None = None,
        replicas: tuple[int, ...] = (NODE_ID,),
        isr: tuple[int, ...] | None = None,
        leader: int | None = None,
        leader_epoch: int = 0,
        directory: str | Uuid | None = None,
        **configs: object,
    ) -> Partition | None:
        """Make a topic with the settings given (`segment_bytes=...`); returns its first partition if it is here."""
        uuid = uuid or topic_id(name)
        where = directory if isinstance(directory, Uuid) else directory_id(directory or self.directories[0])
        records: list[Message] = [TopicRecord(name=name, topic_id=uuid)]
        records += [
            ConfigRecord(TOPIC_CONFIG, name, key.replace("_", "."), str(value)) for key, value in configs.items()
        ]
        records += [
            PartitionRecord(
                partition_id=index,
                topic_id=uuid,
                replicas=list(replicas),
                isr=list(replicas if isr is None else isr),
                leader=replicas[0] if leader is None else leader,
                leader_epoch=leader_epoch,
                directories=[where if replica == NODE_ID else directory_id("/other") for replica in replicas],
            )
            for index in range(partitions)
        ]
        self.publish(*records)
        return self.replicas.by_name.get(name, {}).get(0)

    def delete_topic(self, name: str = "t", *, uuid: Uuid | None = None) -> None:
        self.publish(RemoveTopicRecord(topic_id=uuid or topic_id(name)))

    def change_partition(self, name: str, index: int, **changes: Any) -> None:
        self.publish(PartitionChangeRecord(partition_id=index, topic_id=topic_id(name), **changes))

    def set_config(self, name: str, key: str, value: str | None, *, kind: int = TOPIC_CONFIG) -> None:
        self.publish(ConfigRecord(kind, name, key, value))

    def partition(self, name: str = "t", index: int = 0) -> Partition:
        return self.replicas.by_name[name][index]

    # Requests

    def begin(self, request: Message, version: int, *, client_id: str = "test") -> Any:
        """What the handler of `request` returns: a response, something to wait for, or nothing."""
        api_key = request.schema.api_key
        assert api_key is not None, f"{request} is no request"
        cls = request_class(api_key)
        name = BROKER.handler_module(APIS[api_key])
        assert name is not None, f"{request} is not served"
        module = importlib.import_module(name)
        read = decode(cls, version, memoryview(bytearray(encode(request, version))))
        context = BrokerContext(version, 1, client_id, self.connection, self.context, self.broker)
        try:
            answer = module.handle(context, read)
        except KafkaError as error:
            return module.failed(read, error, version)
        return answer

    def send(self, request: Message, version: int, *, client_id: str = "test") -> Any:
        """The response, waited for; as a client reads it."""
        answer = self.begin(request, version, client_id=client_id)
        if answer is None or isinstance(answer, Message):
            return answer
        return self.wait(answer)

    def wait(self, answer: Awaitable[Any]) -> Any:
        assert self.virtual is not None, "only virtual time can be waited for here"
        return self.virtual.loop.run_until_complete(answer)

    def run_ms(self, duration_ms: float) -> None:
        """Let time pass, and everything happen that is due."""
        assert self.virtual is not None, "only virtual time can be moved"
        self.virtual.loop.run_until_complete(self.virtual.tasks.sleep_ms(duration_ms))

    def stop(self) -> None:
        self.replicas.logs.shutdown()

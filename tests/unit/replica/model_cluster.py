"""Three replicas of one partition, whole and step by step: real logs, leaders and fetchers, and a controller in a page.

Everything that is distributed is a choice of the seed: when metadata reaches whom, which request or answer is lost or
late, who dies and how, when the controller notices. `step` takes one such choice; `check` states what must hold then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from ottla.config import BrokerConfig
from ottla.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidUpdateVersion,
    KafkaError,
    KafkaStorageError,
    NewLeaderElected,
)
from ottla.metadata import LATEST_METADATA_VERSION, METADATA_VERSION, NO_LEADER, Image, ImageBuilder, PartitionImage
from ottla.records import batches
from ottla.replica import Partition, ReplicaManager
from ottla.replica.fetcher import Fetcher, FetcherSettings
from ottla.replica.leadership import IsrAnswer, IsrChange
from ottla.server import BrokerContext, Connection
from ottla.server.fetch_session import FetchSessions
from ottla.server.handlers import fetch, list_offsets, offset_for_leader_epoch
from ottla.sim import virtual_node_world
from ottla.storage import FileSlice, Isolation, Log
from ottla.types import TopicPartition, Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ottla.wire.metadata import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.world import Address
from tests.support.logs import make_batch

IDS = (1, 2, 3)
TOPIC = Uuid(b"replicated topic")
NAME = TopicPartition("t", 0)
DIRECTORIES = {id: Uuid(bytes([id]) * 16) for id in IDS}
LAG_MS = 300
BACKOFF_MS = 20
FENCE, UNCHANGED = 1, -2


class Controller:
    """The cluster's metadata as a list of records, and who may change it."""

    def __init__(self, min_isr: int) -> None:
        self.records: list[Message] = [
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION),
            TopicRecord(name="t", topic_id=TOPIC),
            ConfigRecord(2, "t", "min.insync.replicas", str(min_isr)),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC,
                replicas=list(IDS),
                isr=list(IDS),
                leader=1,
                leader_epoch=0,
                directories=[DIRECTORIES[id] for id in IDS],
            ),
        ]
        self.image = image_of(Image("cluster"), self.records, 0)

    @property
    def partition(self) -> PartitionImage:
        return self.image.topics.by_id[TOPIC].partitions[0]

    def commit(self, *records: Message) -> None:
        self.image = image_of(self.image, records, len(self.records))
        self.records += records

    def is_alive(self, id: int) -> bool:
        broker = self.image.brokers.get(id)
        return broker is not None and not broker.is_fenced

    def register(self, id: int) -> int:
        """A broker has started; its former life is over."""
        if self.is_alive(id):
            self.fence(id)
        epoch = len(self.records)
        self.commit(RegisterBrokerRecord(broker_id=id, broker_epoch=epoch, fenced=False))
        if self.partition.leader == NO_LEADER and id in self.partition.isr:
            self.elect(id)
        return epoch

    def fence(self, id: int) -> None:
        """A broker is gone: it leaves the ISR unless it is the last, and another member leads."""
        broker = self.image.brokers[id]
        self.commit(BrokerRegistrationChangeRecord(broker_id=id, broker_epoch=broker.epoch, fenced=FENCE))
        partition = self.partition
        isr = [one for one in partition.isr if one != id] or list(partition.isr)
        leader = UNCHANGED
        if partition.leader == id:
            leader = next((one for one in isr if self.is_alive(one)), NO_LEADER)
        if isr != list(partition.isr) or leader != UNCHANGED:
            self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=isr, leader=leader))

    def elect(self, id: int) -> None:
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=id))

    def alter(self, id: int, change: IsrChange) -> IsrAnswer | type[KafkaError]:
        """Kafka's `ReplicationControlManager.alterPartition`, in short."""
        partition = self.partition
        if partition.leader != id:
            return NewLeaderElected if change.leader_epoch == partition.leader_epoch else FencedLeaderEpoch
        if change.leader_epoch < partition.leader_epoch:
            return FencedLeaderEpoch
        if change.partition_epoch < partition.partition_epoch:
            return InvalidUpdateVersion
        for member, epoch in change.members:
            if not self.is_alive(member) or epoch not in (-1, self.image.brokers[member].epoch):
                return IneligibleReplica
        self.commit(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=list(change.isr)))
        return IsrAnswer(self.partition.leader_epoch, self.partition.isr, self.partition.partition_epoch)


def image_of(image: Image, records: Any, offset: int) -> Image:
    builder = ImageBuilder(image)
    builder.replay_all(records)
    return builder.build(offset=offset + len(records), epoch=1, timestamp_ms=0)[1]


class IsrQueue:
    """Changes of the ISR that a node has asked for, until the seed lets them arrive."""

    def __init__(self) -> None:
        self.waiting: list[tuple[IsrChange, Callable[[Any], None]]] = []

    def submit(self, topic_id: Uuid, index: int, change: IsrChange, on_outcome: Callable[[Any], None]) -> None:
        self.waiting.append((change, on_outcome))


class Fetchers:
    """One fetcher for each leader, and its request under way."""

    def __init__(self, node: ModelNode) -> None:
        self._node = node
        self.by_leader: dict[int, Fetcher] = {}
        self.under_way: dict[int, tuple[Message, Message | None]] = {}

    def follow(self, name: TopicPartition, topic_id: Uuid, *, leader_id: int, leader_epoch: int) -> None:
        for leader, other in self.by_leader.items():
            if leader != leader_id:
                other.remove(topic_id, name.partition)
        fetcher = self.by_leader.get(leader_id)
        if fetcher is None:
            settings = FetcherSettings(self._node.id, wait_max_ms=0, backoff_ms=BACKOFF_MS)
            fetcher = self.by_leader[leader_id] = Fetcher(self._node.replicas, settings, lambda: self._node.epoch)
        fetcher.add(name, topic_id, leader_epoch)

    def unfollow(self, name: TopicPartition, topic_id: Uuid) -> None:
        for fetcher in self.by_leader.values():
            fetcher.remove(topic_id, name.partition)

    def resize(self, fetcher_count: int) -> None:
        """There is one, whatever the settings say."""


class ModelNode:
    """A broker, alive or not. Its disk outlives it."""

    def __init__(self, id: int, seed: int) -> None:
        self.id = id
        self.world = virtual_node_world(seed * 10 + id, f"node-{id}")
        self.config = BrokerConfig(
            {
                "node.id": id,
                "process.roles": "broker,controller",
                "controller.quorum.voters": f"{id}@localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
                "log.dirs": "/logs",
                "replica.lag.time.max.ms": LAG_MS,
                "replica.fetch.wait.max.ms": LAG_MS,
            }
        )
        self.is_alive = False
        self.epoch = -1
        self.image = Image("cluster")
        self.known = 0
        """How many of the controller's records have come."""
        self.replicas: ReplicaManager
        self.sessions: FetchSessions
        self.isr: IsrQueue
        self.fetchers: Fetchers
        self.pending: list[tuple[int, int, bytes]] = []
        """Appends with acks=all that are not answered: leader epoch, end offset, value."""
        self.shrink_count = 0
        self.expand_count = 0
        """Changes of the ISR that it has seen made, in all its lives."""

    def start(self, epoch: int) -> None:
        self.is_alive = True
        self.epoch = epoch
        self.image, self.known, self.pending = Image("cluster"), 0, []
        self.replicas = ReplicaManager.create(
            self.world, self.config, self.id, directory_ids={"/logs": DIRECTORIES[self.id]}
        )
        self.sessions = FetchSessions(self.world, 100)
        self.isr = IsrQueue()
        self.fetchers = Fetchers(self)
        self.replicas.isr_changes = self.isr  # type: ignore[assignment]
        self.replicas.fetchers = self.fetchers  # type: ignore[assignment]

    def learn(self, records: list[Message], until: int) -> None:
        """Metadata arrives, as one delta."""
        if until <= self.known:
            return
        builder = ImageBuilder(self.image)
        builder.replay_all(records[self.known : until])
        delta, self.image = builder.build(offset=until, epoch=1, timestamp_ms=0)
        self.known = until
        self.replicas.on_metadata(delta, self.image)

    @property
    def partition(self) -> Partition | None:
        return self.replicas.by_name.get("t", {}).get(0) if self.is_alive else None

    @property
    def log(self) -> Log | None:
        partition = self.partition
        return None if partition is None else partition.log

    def serve(self, request: Message) -> Message:
        """The answer of this node's own handlers, as it comes over the wire."""
        handlers: dict[type[Message], tuple[Any, int]] = {
            FetchRequest: (fetch, 17),
            ListOffsetsRequest: (list_offsets, 10),
            OffsetForLeaderEpochRequest: (offset_for_leader_epoch, 4),
        }
        handler, version = handlers[type(request)]
        read = decode(type(request), version, memoryview(bytearray(encode(request, version))))
        node: Any = SimpleNamespace(config=self.config, world=self.world, node_id=self.id, image=self.image)
        broker: Any = SimpleNamespace(replicas=self.replicas, fetch_sessions=self.sessions, node=node)
        dispatcher: Any = None  # no handler of a follower's requests asks what the listener serves
        connection = Connection(dispatcher, "PLAINTEXT", Address("127.0.0.1", 4711))
        context = BrokerContext(version, 1, "follower", connection, node, broker)
        try:
            response = handler.handle(context, read)
        except KafkaError as error:
            response = handler.failed(read, error, version)
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for one in topic.partitions:
                    if isinstance(one.records, FileSlice):
                        one.records = one.records.read()
        answer: Message = decode(type(response), version, memoryview(bytearray(encode(response, version))))
        return answer

    def run_ms(self, duration_ms: int) -> None:
        self.world.loop.run_until_complete(self.world.tasks.sleep_ms(duration_ms))

    def die(self, *, loses_power: bool) -> None:
        self.is_alive = False
        self._count()
        if loses_power:
            self.world.disk.crash()
        else:
            self.world.disk.process_crash()

    def _count(self) -> None:
        self.shrink_count += self.replicas.isr_stats.shrink_count
        self.expand_count += self.replicas.isr_stats.expand_count

    def stop(self) -> None:
        """An orderly end: the next start finds everything as it is."""
        self.replicas.logs.checkpoint()
        self.replicas.logs.shutdown(broker_epoch=self.epoch)
        self.die(loses_power=False)


class ModelCluster:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.controller = Controller(min_isr=self.chance.choice((1, 2)))
        self.nodes = {id: ModelNode(id, seed) for id in IDS}
        self.acked: dict[int, bytes] = {}
        """The last offset of each batch that was acknowledged, and its value."""
        self.counts: dict[str, int] = {}
        self.value = 0
        for node in self.nodes.values():
            node.start(self.controller.register(node.id))
        for node in self.nodes.values():
            node.learn(self.controller.records, len(self.controller.records))
        self.high_watermarks = dict.fromkeys(IDS, 0)

    @property
    def alive(self) -> list[ModelNode]:
        return [one for one in self.nodes.values() if one.is_alive]

    # What may happen

    CHOICES: Mapping[str, int] = {
        "append": 20,
        "ask": 40,
        "answer": 60,
        "metadata": 12,
        "isr": 10,
        "time": 10,
        "lag": 8,
        "checkpoint": 2,
        "flush": 2,
        "delete": 1,
        "notice": 4,
        "move": 2,
        "die": 2,
        "start": 8,
    }

    def step(self) -> None:
        name = self.chance.choices(list(self.CHOICES), list(self.CHOICES.values()))[0]
        if getattr(self, f"do_{name}")():
            self.counts[name] = self.counts.get(name, 0) + 1

    def _node(self) -> ModelNode | None:
        return self.chance.choice(self.alive) if self.alive else None

    def do_append(self) -> bool:
        """Somebody who believes to lead gets a record."""
        leaders = [one for one in self.alive if one.partition is not None and one.partition.is_leader]
        if not leaders:
            return False
        node = self.chance.choice(leaders)
        partition = node.partition
        assert partition is not None
        self.value += 1
        value = b"%d" % self.value
        acks = self.chance.choice((-1, -1, -1, 1))
        try:
            info = partition.append(bytearray(make_batch(*[value] * self.chance.choice((1, 1, 3)))), required_acks=acks)
        except KafkaError:
            return False
        if acks == -1:
            node.pending.append((partition.leader_epoch, info.last_offset + 1, value))
        return True

    def do_ask(self) -> bool:
        """A fetcher sends its next request; it may get lost, or be answered at a time of its own."""
        idle = [one for one in self.alive if len(one.fetchers.under_way) < len(one.fetchers.by_leader)]
        if not idle:
            return False
        node = self.chance.choice(idle)
        for leader_id, fetcher in node.fetchers.by_leader.items():
            if leader_id in node.fetchers.under_way:
                continue
            request = fetcher.next_request(node.world.clock.monotonic_ms())
            if request is None:
                continue
            leader = self.nodes[leader_id]
            response = leader.serve(request) if leader.is_alive and self.chance.random() < 0.95 else None
            if self.chance.random() < 0.03:
                response = None
            node.fetchers.under_way[leader_id] = (request, response)
        return True

    def do_answer(self) -> bool:
        asking = [one for one in self.alive if one.fetchers.under_way]
        if not asking:
            return False
        node = self.chance.choice(asking)
        leader_id = self.chance.choice(list(node.fetchers.under_way))
        request, response = node.fetchers.under_way.pop(leader_id)
        now_ms = node.world.clock.monotonic_ms()
        if response is None:
            node.fetchers.by_leader[leader_id].on_failure(request, now_ms)
        else:
            node.fetchers.by_leader[leader_id].on_response(request, response, now_ms)
        return True

    def do_metadata(self) -> bool:
        behind = [one for one in self.alive if one.known < len(self.controller.records)]
        if not behind:
            return False
        node = self.chance.choice(behind)
        node.learn(self.controller.records, self.chance.randint(node.known + 1, len(self.controller.records)))
        return True

    def do_isr(self) -> bool:
        """A change of the ISR reaches the controller, or its answer gets lost and it is sent again."""
        asking = [one for one in self.alive if one.isr.waiting]
        if not asking:
            return False
        node = self.chance.choice(asking)
        change, on_outcome = node.isr.waiting[0]
        outcome = self.controller.alter(node.id, change)
        if self.chance.random() < 0.1:
            return True
        node.isr.waiting.pop(0)
        on_outcome(outcome)
        return True

    def do_time(self) -> bool:
        duration_ms = self.chance.choice((1, 20, 50, 400))
        for node in self.nodes.values():
            node.run_ms(duration_ms)
        return True

    def do_lag(self) -> bool:
        node = self._node()
        if node is None or node.partition is None:
            return False
        node.partition.check_lag()
        return True

    def do_checkpoint(self) -> bool:
        node = self._node()
        if node is not None:
            node.replicas.logs.checkpoint()
        return node is not None

    def do_flush(self) -> bool:
        node = self._node()
        if node is None or node.log is None:
            return False
        node.log.flush()
        return True

    def do_delete(self) -> bool:
        """The leader deletes records: followers that are behind have to begin anew."""
        node = self._node()
        if node is None or node.partition is None or not node.partition.is_leader or node.log is None:
            return False
        node.partition.delete_records(self.chance.randint(node.log.log_start_offset, node.log.high_watermark))
        return True

    def do_notice(self) -> bool:
        """The controller notices that somebody is dead."""
        gone = [one.id for one in self.nodes.values() if not one.is_alive and self.controller.is_alive(one.id)]
        for id in gone:
            self.controller.fence(id)
        return bool(gone)

    def do_move(self) -> bool:
        """Another member of the ISR is elected, as for a controlled shutdown or the preferred leader."""
        members = [id for id in self.controller.partition.isr if self.controller.is_alive(id)]
        if not members:
            return False
        self.controller.elect(self.chance.choice(members))
        return True

    def do_die(self) -> bool:
        node = self._node()
        if node is None:
            return False
        others = [id for id in self.controller.partition.isr if id != node.id and self.nodes[id].is_alive]
        match self.chance.choice(("power", "power", "kill", "stop")):
            case "power" if others:
                # What was not flushed is gone. It is in no ISR when it returns: the controller learns of an unclean
                # end at the latest with the registration (KIP-966), and here at once.
                node.die(loses_power=True)
                if self.controller.is_alive(node.id):
                    self.controller.fence(node.id)
            case "stop":
                node.stop()
            case _:
                node.die(loses_power=False)
        return True

    def do_start(self) -> bool:
        gone = [one for one in self.nodes.values() if not one.is_alive]
        if not gone:
            return False
        node = self.chance.choice(gone)
        node.start(self.controller.register(node.id))
        # A broker serves when it has caught up with its own registration.
        node.learn(self.controller.records, len(self.controller.records))
        return True

    # What must hold

    def check(self) -> None:
        self._collect_acks()
        members = [self.nodes[id] for id in self.controller.partition.isr]
        for node in self.alive:
            log = node.log
            if log is None:
                continue
            assert log.high_watermark <= log.log_end_offset
            for other in members:
                if other is node or other.log is None:
                    continue
                assert other.log.log_end_offset >= log.high_watermark, (
                    f"node {node.id} calls {log.high_watermark} committed, and {other.id} of the ISR ends at "
                    f"{other.log.log_end_offset}"
                )
                start = max(log.log_start_offset, other.log.log_start_offset)
                mine, others = content(log, start, log.high_watermark), content(other.log, start, log.high_watermark)
                assert mine == others, f"nodes {node.id} and {other.id} differ below {log.high_watermark}"
        self._check_acked(members)

    def _check_acked(self, nodes: list[ModelNode]) -> None:
        for node in nodes:
            if node.log is None:
                continue
            found = content(node.log, node.log.log_start_offset, node.log.log_end_offset)
            for offset, value in self.acked.items():
                if offset >= node.log.log_start_offset:
                    assert found.get(offset, (None, -1))[0] == value, (
                        f"node {node.id} of the ISR lacks acknowledged {value!r} at {offset}"
                    )

    def _collect_acks(self) -> None:
        for node in self.alive:
            partition = node.partition
            waiting = []
            for leader_epoch, end_offset, value in node.pending:
                if partition is None or not partition.is_leader or partition.leader_epoch != leader_epoch:
                    continue  # the producer is told to ask elsewhere, and does not know
                outcome = partition.replication_outcome(end_offset)
                if outcome is None:
                    waiting.append((leader_epoch, end_offset, value))
                elif outcome == 0:
                    self.acked[end_offset - 1] = value
            node.pending = waiting

    def heal(self) -> None:
        """Everybody returns, everything arrives, and nothing more goes wrong: then all replicas are the same."""
        while self.do_start():
            pass
        for _ in range(300):
            for node in self.alive:
                node.learn(self.controller.records, len(self.controller.records))
                node.run_ms(BACKOFF_MS)
                for leader_id, (request, response) in list(node.fetchers.under_way.items()):
                    del node.fetchers.under_way[leader_id]
                    if response is None:
                        node.fetchers.by_leader[leader_id].on_failure(request, node.world.clock.monotonic_ms())
                for leader_id, fetcher in node.fetchers.by_leader.items():
                    request = fetcher.next_request(node.world.clock.monotonic_ms())  # type: ignore[assignment]
                    if request is not None:
                        answer = self.nodes[leader_id].serve(request)
                        fetcher.on_response(request, answer, node.world.clock.monotonic_ms())
                waiting, node.isr.waiting = node.isr.waiting, []
                for change, on_outcome in waiting:
                    on_outcome(self.controller.alter(node.id, change))
            self.check()
            if self._is_converged():
                return
        raise AssertionError(f"no convergence: {[one.log for one in self.alive]}, {self.controller.partition}")

    def _is_converged(self) -> bool:
        logs = [one.log for one in self.alive if one.log is not None]
        ends = {(log.log_end_offset, log.high_watermark) for log in logs}
        if len(ends) != 1 or len(self.controller.partition.isr) != len(IDS):
            return False
        start = max(log.log_start_offset for log in logs)
        whole = [content(log, start, log.log_end_offset) for log in logs]
        assert all(one == whole[0] for one in whole), "equal ends, and other records"
        return logs[0].high_watermark == logs[0].log_end_offset


def content(log: Log, start: int, end: int) -> dict[int, tuple[bytes | None, int]]:
    """The value and the leader epoch of each batch in [start, end), by its last offset."""
    if log.log_dir.is_offline:
        raise KafkaStorageError("a disk failed that nobody broke")
    if start >= log.log_end_offset:
        return {}
    found = log.read(start, bytes_max=1 << 24, isolation=Isolation.LOG_END)
    if found.slice is None:
        return {}
    return {
        batch.last_offset: (next(iter(batch.records())).value, batch.leader_epoch)
        for batch in batches(found.slice.read())
        if batch.last_offset < end
    }

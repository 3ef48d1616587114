"""Groups whose coordinator is killed, and groups with a member that hangs: all goes on by itself.

A group of each protocol, and in each a member of librdkafka and one of the Java client, read what a producer writes all
the while, and commit. Whatever happens, every record is read, and no committed offset goes back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place

from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.support.broker import BrokerProcess
from tests.support.clients import eventually, repeated_warnings
from tests.support.kafka import java_command
from tests.support.nodes import NODE_COUNT, Brokers, Nodes, coordinator_port
from tests.support.raw import RawClient
from tests.support.survey import QUIET

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "SteadyMembers.java"
TOPIC = "orders"
PARTITION_COUNT = 4
GROUPS = ("classic", "consumer")
KILLS = 10 if os.environ.get("OTTLA_SOAK") else 4
PATIENCE_S = 60.0
LONG_SESSION_MS = 45_000
SHORT_SESSION_MS = 4_000
"""Long enough that a member of a busy machine is not taken for dead."""


class Ledger:
    """What every group has read and committed, by partition, and how often its members were assigned something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.read: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.committed: dict[tuple[str, int], int] = defaultdict(int)
        self.assigned: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.assignments = 0
        self.commits: dict[tuple[str, str], int] = defaultdict(int)
        self.complaints: list[str] = []

    def note(self, client: str, group: str, event: str, partition: int, offset: int) -> None:
        with self._lock:
            match event:
                case "read":
                    self.read[group, partition].add(offset)
                case "committed":
                    self.committed[group, partition] = max(offset, self.committed[group, partition])
                    self.commits[client, group] += 1
                case "assigned":
                    self.assigned[client, group].add(partition)
                    self.assignments += 1
                case "revoked":
                    self.assigned[client, group].discard(partition)
                case "refused":
                    pass
                case _:
                    raise ValueError(event)

    def acknowledged(self) -> dict[tuple[str, int], int]:
        with self._lock:
            return dict(self.committed)

    def progress(self) -> dict[tuple[str, str], int]:
        with self._lock:
            return dict(self.commits)

    def is_shared(self) -> bool:
        """Whether both members of both groups have their half of the partitions."""
        with self._lock:
            return len(self.assigned) == 4 and all(len(one) == PARTITION_COUNT // 2 for one in self.assigned.values())


class Librdkafka(threading.Thread):
    """A member of one group, in a thread."""

    def __init__(self, address: str, group: str, ledger: Ledger, session_ms: int) -> None:
        super().__init__(name=f"librdkafka {group}")
        self._group = group
        self._ledger = ledger
        self.is_over = threading.Event()
        config: dict[str, Any] = {
            "bootstrap.servers": address, "group.id": group, "group.protocol": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 200, "fetch.wait.max.ms": 100, **QUIET,
        }  # fmt: skip
        if group == "classic":
            config |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 300,
                       "partition.assignment.strategy": "range"}  # fmt: skip
        self._consumer = Consumer(config)

    def _note(self, event: str, places: list[Place]) -> None:
        for place in places:
            self._ledger.note("librdkafka", self._group, event, place.partition, place.offset)

    def run(self) -> None:
        self._consumer.subscribe(
            [TOPIC],
            on_assign=lambda _, places: self._note("assigned", places),
            on_revoke=lambda _, places: self._note("revoked", places),
        )
        try:
            while not self.is_over.is_set():
                self._step()
        except (KafkaException, AssertionError) as error:
            self._ledger.complaints.append(f"{self.name}: {error}")
        finally:
            self._consumer.close()

    def _step(self) -> None:
        next_offsets: dict[int, int] = {}
        for message in self._consumer.consume(500, 0.05):
            if (error := message.error()) is not None:
                assert error.retriable() or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            self._ledger.note("librdkafka", self._group, "read", partition, offset)
            next_offsets[partition] = offset + 1
        places = [Place(TOPIC, partition, offset) for partition, offset in next_offsets.items()]
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException:
            return  # while the broker is away, or the partitions have moved: the next commit says it all
        self._note("committed", places)


@contextmanager
def java_members(address: str, ledger: Ledger, session_ms: int) -> Iterator[subprocess.Popen[str]]:
    """A process with a member of each group, which may be stopped for a while."""
    command = java_command(str(SOURCE), [address, TOPIC, str(session_ms)])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            group, event, partition, offset = line.split()
            ledger.note("java", group, event, int(partition), int(offset))

    reader = threading.Thread(target=listen, name="java")
    reader.start()
    try:
        yield process
        assert process.poll() is None, "the Java members have ended by themselves"
    finally:
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            reader.join()
            assert process.stdout is not None
            process.stdout.close()


class Writer(threading.Thread):
    """An idempotent producer that goes on through everything."""

    def __init__(self, address: str) -> None:
        super().__init__(name="writer")
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 2,
                                   "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50, **QUIET})  # fmt: skip
        self.is_over = threading.Event()
        self.failures: list[KafkaError] = []
        self.counts = [0] * PARTITION_COUNT

    def run(self) -> None:
        while not self.is_over.is_set():
            for partition in range(PARTITION_COUNT):
                self._producer.produce(TOPIC, b"record", partition=partition, on_delivery=self._on_delivery)
            self._producer.poll(0)
            time.sleep(0.01)
        self._producer.flush(PATIENCE_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        assert partition is not None
        if error is not None:
            self.failures.append(error)
        self.counts[partition] += 1


class Scene:
    """A broker, a writer and four members; `with` starts them and in the end accounts for every record."""

    def __init__(self, directory: Path, session_ms: int) -> None:
        settings = {"group.consumer.heartbeat.interval.ms": "300", "group.consumer.min.heartbeat.interval.ms": "100",
                    "group.consumer.session.timeout.ms": str(session_ms), "group.initial.rebalance.delay.ms": "0",
                    "group.consumer.min.session.timeout.ms": "500", "group.min.session.timeout.ms": "500",
                    "group.consumer.assignment.interval.ms": "0"}  # fmt: skip
        self.broker: Brokers = (
            Nodes(directory, settings=settings, count=NODE_COUNT)
            if NODE_COUNT > 1
            else BrokerProcess(directory, settings=settings)
        )
        self.ledger = Ledger()
        self.session_ms = session_ms
        self.committed: dict[tuple[str, int], int] = {}

    @contextmanager
    def playing(self) -> Iterator[subprocess.Popen[str]]:
        with self.broker:
            address = self.broker.address
            with RawClient(self.broker.port) as client:
                client.create_topic(TOPIC, partitions=PARTITION_COUNT)
            writer = Writer(address)
            members = [Librdkafka(address, group, self.ledger, self.session_ms) for group in GROUPS]
            with java_members(address, self.ledger, self.session_ms) as process:
                for thread in [writer, *members]:
                    thread.start()
                try:
                    eventually(self.ledger.is_shared, "both members of both groups have partitions", PATIENCE_S)
                    yield process
                    writer.is_over.set()
                    writer.join()
                    everything = {(group, partition): set(range(writer.counts[partition]))
                                  for group in GROUPS for partition in range(PARTITION_COUNT)}  # fmt: skip
                    eventually(lambda: self.ledger.read == everything, "each group has read every record", PATIENCE_S)
                finally:
                    writer.is_over.set()
                    for member in members:
                        member.is_over.set()
                    for thread in [writer, *members]:
                        thread.join()
            assert writer.failures == []
            assert self.ledger.complaints == []
            self.nothing_committed_is_lost()
            assert self.broker.errors() == []
            if isinstance(self.broker, BrokerProcess):  # nodes that are left warn of one that is away
                assert repeated_warnings(self.broker.log()) == {}

    def all_go_on(self, clients: tuple[str, ...] = ("java", "librdkafka")) -> None:
        """Wait until these clients' members of each group have committed something more."""
        before = self.ledger.progress()
        places = [(client, group) for client in clients for group in GROUPS]

        def has_gone_on() -> bool:
            now = self.ledger.progress()
            return all(now.get(place, 0) > before.get(place, 0) + 2 for place in places)

        eventually(has_gone_on, f"all members of {clients} commit: {before}", PATIENCE_S)

    def nothing_committed_is_lost(self) -> None:
        """The broker has, of each group, at least what it has acknowledged and what it has told before."""
        acknowledged = self.ledger.acknowledged()
        eventually(self._are_loaded, "the groups are loaded")
        for place, offset in self._offsets().items():
            at_least = max(acknowledged.get(place, 0), self.committed.get(place, 0))
            assert offset >= at_least, f"{place}: {offset}, it was {at_least}"
            self.committed[place] = offset
        assert acknowledged.keys() <= self.committed.keys()

    def _are_loaded(self) -> bool:
        return all(not group.error_code for group in self._fetched())

    def _offsets(self) -> dict[tuple[str, int], int]:
        return {
            (group.group_id, partition.partition_index): partition.committed_offset
            for group in self._fetched()
            for topic in group.topics
            for partition in topic.partitions
        }

    def _fetched(self) -> list[OffsetFetchResponseGroup]:
        return [self._fetch(group) for group in GROUPS]

    def _fetch(self, group: str) -> OffsetFetchResponseGroup:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
        with RawClient(coordinator_port(self.broker.port, group)) as client:
            return client.send(request, 9, OffsetFetchResponse).groups[0]


def test_groups_go_on_when_their_coordinator_is_killed_again_and_again(tmp_path: Path) -> None:
    """The members are known to the coordinator that comes back: none of them is assigned its partitions anew."""
    scene = Scene(tmp_path, LONG_SESSION_MS)
    with scene.playing():
        before = scene.ledger.assignments
        for number in range(KILLS):
            scene.all_go_on()
            time.sleep(0.05 * (number % 4))  # not always in the same moment after a commit
            scene.broker.kill()
            scene.broker.start()
            scene.nothing_committed_is_lost()
        scene.all_go_on()
        rebalanced = scene.ledger.assignments - before
    assert rebalanced == 0, f"{rebalanced} partitions were assigned anew: a rebalance that nobody needed"


def test_a_member_that_hangs_loses_its_partitions_and_comes_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, SHORT_SESSION_MS)

    def other_has_all() -> bool:
        return all(len(scene.ledger.assigned["librdkafka", group]) == PARTITION_COUNT for group in GROUPS)

    with scene.playing() as java:
        scene.all_go_on()
        java.send_signal(signal.SIGSTOP)
        eventually(other_has_all, "the other member has all partitions", PATIENCE_S)
        scene.all_go_on(("librdkafka",))
        java.send_signal(signal.SIGCONT)
        eventually(lambda: not other_has_all(), "the member that hung has partitions again", PATIENCE_S)
        scene.all_go_on()
        scene.nothing_committed_is_lost()

"""One seed, one run of a cluster: its nodes, its clients, and everything that goes wrong between them, on virtual time.

The course of a run: all nodes start and topics are made; clients work and observers look while the scenario's faults
strike, several at a time; then everything is healed and the cluster must become whole by itself, the clients finish
what they have in doubt, replicas must be equal and hold what was promised; then all nodes are killed, return in any
order, and are read a last time.

Promises: the same seed gives the same trace under any hash seed; a run ends, whatever happens in it.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Sequence
from contextvars import Context
from functools import partial
from random import Random
from typing import TypeVar

from ottla.client import AsyncAdmin, NewTopic
from ottla.errors import KafkaError, KafkaStorageError
from ottla.metadata import Delta, Image
from ottla.node import Node
from ottla.raft import LeaderAndEpoch
from ottla.records import batches
from ottla.sim.checks import (
    QUORUM,
    AcknowledgedRecords,
    Coordinators,
    FoundRecord,
    Leaders,
    PartitionLog,
    ReplicaLog,
    Watermarks,
    check_equal,
    check_identical,
    check_prefix,
    check_sound,
    missing_of,
    read_replicas,
)
from ottla.sim.cluster import PORT, SimulatedCluster
from ottla.sim.cpu import Cpu
from ottla.sim.history import History, Value, Violation
from ottla.sim.ledger import Ledger
from ottla.sim.life import LIFE, Life
from ottla.sim.logs import LogCapture
from ottla.sim.loop import Deadlock, Runaway, VirtualLoop
from ottla.sim.many.observer import Observer, life_of
from ottla.sim.many.scenario import RECORDS, SINK, SOURCE, ClusterScenario, make_cluster_scenario
from ottla.sim.many.troubles import Troubles
from ottla.sim.many.workload import Auditor, Committer, Copier, Reader, Shared, SinkReader, Trimmer, Worker, Writer
from ottla.sim.network import VirtualNetwork
from ottla.sim.node import SimulatedNode
from ottla.sim.run import Outcome
from ottla.sim.trace import Trace
from ottla.sim.waiting import sleep_ms, until, within
from ottla.sim.world import VirtualNodeWorld, client_world
from ottla.wire.coordinator import GROUP

_W = TypeVar("_W", bound=Worker)

START_MS_MAX = 120_000
HEALED_MS_MAX = 240_000
"""How long the cluster may take to become whole once everything works again, and the clients to finish."""
PROMISES = ((-1, True), (-1, True), (-1, False), (1, False), (0, False))
"""What writers ask for: acks, and whether they are idempotent."""
METADATA_LOG = "__cluster_metadata-0"
CLUSTER_CHECKS = (
    "acknowledged with acks=-1",
    "acknowledged with acks=1",
    "promises judged",
    "lost with acks=1",
    "shown",
    "looks at leaders",
    "looks at offsets",
    "watermarks that advanced",
    "log starts that advanced",
    "batches compared below watermarks",
    "copies shown",
    "transactions committed",
    "transactions aborted",
    "offsets committed",
    "offsets audited",
    "offsets of a replaced coordinator",
    "times that the cluster became whole",
    "times that all replicas became equal",
    "warnings and errors logged",
    "bounced while it was to rejoin an ISR",
)
"""What the checkers of a run count. One that stays at 0 over many seeds has proved nothing."""


def run_cluster_seed(seed: int, node_count: int, *, is_combined: bool = False, trace_lines: int = 120) -> Outcome:
    """Run one seed of a cluster of that many brokers to its end."""
    gc.collect()  # as in `run_seed`: the collector must not run at moments that no seed decides
    gc.disable()
    try:
        return ClusterSimulation(make_cluster_scenario(seed, node_count, is_combined=is_combined)).run(trace_lines)
    finally:
        gc.enable()


class ClusterSimulation:
    """One run."""

    def __init__(self, scenario: ClusterScenario) -> None:
        self.scenario = scenario
        seed = str(scenario.seed)
        self.loop = VirtualLoop()
        self.trace = Trace(lambda: self.loop.now_us)
        self.chance = Random(f"{seed} course")
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"), self.trace)
        self.history = History(self.trace, is_synced=scenario.is_synced)
        """For what is counted and what was found."""
        self.logs = LogCapture(self.trace, self._on_error_line)
        self.cluster = SimulatedCluster(self.network, scenario.settings, self.logs, self.trace, seed)
        self.records = AcknowledgedRecords()
        self.leaders = Leaders()
        self.watermarks = Watermarks()
        self.ledger = Ledger(lambda: self.loop.now_us // 1000)
        self.coordinators = Coordinators(self.ledger.now_ms, self.ledger.acknowledged)
        self.observers: list[Observer] = []
        self.workers: list[Worker] = []
        self._lives: list[Life] = []
        self.troubles = Troubles(self.cluster, self.network, scenario, self.trace, self)
        self.shared = Shared(
            servers=",".join(f"{name}:{PORT}" for name in self.cluster.brokers),
            records=self.records,
            ledger=self.ledger,
            coordinators=self.coordinators,
            coordinator_count=int(next(iter(scenario.settings.values()))["offsets.topic.num.partitions"]),
            partition_count=scenario.partition_count,
            complain=self.history.complain,
            trace=self.trace,
            count=self.history.count,
        )
        for node in self.cluster:
            node.on_serving = partial(self._watch_images, node)
            node.on_ended = partial(self._forget_images, node)
        if scenario.cpu_us or scenario.cpu_stall_chance:
            for node in self.cluster:
                node.cpu = Cpu(
                    Random(f"{seed} {node.name} cpu"),
                    usual_us=(0, scenario.cpu_us),
                    stall_us=(20_000, 500_000),
                    stall_chance=scenario.cpu_stall_chance,
                )

    def run(self, trace_lines: int) -> Outcome:
        self.trace(self.scenario.describe())
        failure: str | None = None
        with self.logs:
            try:
                self.loop.run_until_complete(self.loop.create_task(self._main(), context=Context()))
            except (Violation, Deadlock, Runaway) as error:
                failure = f"{type(error).__name__}: {error}"
            except Exception as error:  # noqa: BLE001 - a seed that breaks the simulator is a finding too
                failure = f"{type(error).__name__}: {error}"
                self.trace(f"{failure}\n{''.join(traceback.format_exception(error))}")
            finally:
                self.logs.is_muted = True
                for life in self._lives:
                    life.end()
                self.cluster.kill()
                self.loop.close()
        if self.history.violations:
            failure = str(self.history.violations[0])
        if failure is not None:
            failure = f"seed {self.scenario.seed}: {failure}\n\n{self.trace.last(trace_lines)}"
        return Outcome(
            self.scenario.seed,
            self.trace.digest,
            self.loop.step_count,
            self.loop.now_us // 1000,
            self._counts(),
            failure,
        )

    def _counts(self) -> dict[str, int]:
        return self.history.counts | self.troubles.counts | {
            "lives": self.cluster.life_count,
            "connections": self.network.connection_count,
            "leaders": self.leaders.election_count,
            "looks at leaders": self.leaders.observation_count,
            "looks at offsets": self.watermarks.observation_count,
            "watermarks that advanced": self.watermarks.advance_count,
            "log starts that advanced": self.watermarks.start_advance_count,
            "promises judged": self.records.judged_count,
            "lost with acks=1": self.records.lost_count,
            "offsets of a replaced coordinator": self.ledger.stale_count,
            "warnings and errors logged": self.logs.line_count,
        }  # fmt: skip

    def _on_error_line(self, line: str) -> None:
        """An ERROR of a node is a finding, unless its disk was made to fail, or it tells of another whose disk was."""
        speaker = LIFE.get()
        name = "" if speaker is None else speaker.name.partition(" life ")[0]
        is_of_anothers_disk = bool(self.troubles.excused) and KafkaStorageError.name in line
        if name not in self.troubles.excused and not is_of_anothers_disk:
            self.history.complain(Violation(f"{name or 'somebody'} says: {line}"))

    def _watch_images(self, node: SimulatedNode, started: Node) -> None:
        started.loader.add_publisher(_ImageWatch(self.coordinators, life_of(node), int(node.settings["node.id"])))
        started.raft.watch(partial(self._on_quorum_leader, f"the quorum's part of {life_of(node)}"))

    def _on_quorum_leader(self, observer: str, leader: LeaderAndEpoch) -> None:
        """Told at once by the node itself: two leaders of an epoch are seen however short the second one's time is."""
        try:
            self.leaders.observe(observer, QUORUM, leader.epoch, leader.leader_id)
        except Violation as violation:
            self.history.complain(violation)

    def _forget_images(self, node: SimulatedNode) -> None:
        self.coordinators.on_death(life_of(node))

    # The course of a run

    async def _main(self) -> None:
        await within(self.loop, self._start_all(), START_MS_MAX, "the first start")
        await within(self.loop, self._make_topics(), START_MS_MAX, "making topics")
        self._make_clients()
        for observer in self.observers:
            observer.start()
        for worker in self.workers:
            worker.start()
        end_us = self.loop.now_us + self.scenario.duration_ms * 1000
        while self.loop.now_us < end_us and not self.history.violations:
            await sleep_ms(self.loop, self.scenario.fault_interval_ms * self.chance.uniform(0.1, 2))
            self.troubles.strike(self.chance)
        self._check_below_watermarks()
        await self._heal()
        await self._finish()
        self.troubles.kill_all(self.chance)
        await self._heal()
        await self._check_rest("after all nodes were killed")
        await self._look_once_more()

    async def _start_all(self) -> None:
        while len(self.cluster.running) < len(self.cluster):
            await self.cluster.start()

    async def _make_topics(self) -> None:
        world = self._world_of("maker")
        done = self.loop.create_future()

        async def make() -> None:
            names = [RECORDS, SOURCE, SINK]
            topics = [NewTopic(name, self.scenario.partition_count, self.scenario.replication_factor) for name in names]
            async with AsyncAdmin(bootstrap_servers=self.shared.servers, world=world.as_client) as admin:
                while True:
                    try:
                        (await admin.create_topics(topics)).all()
                        break
                    except KafkaError as error:  # while brokers are fenced there is nowhere to put a topic
                        self.trace(f"topics are not made: {error}")
                        await world.tasks.sleep_ms(200)
            done.set_result(None)

        world.tasks.spawn(make(), "topics")
        await done

    async def _heal(self) -> None:
        """Take all trouble away, and see the cluster become whole."""
        self.trace("everything is healed")
        await self.troubles.end()
        self._raise_violations()
        await within(self.loop, self._start_all(), START_MS_MAX, "starting all nodes")
        self.forget()
        await until(self.loop, self._missing, HEALED_MS_MAX, "the cluster does not become whole")
        self.history.count("times that the cluster became whole")

    def _missing(self) -> list[str]:
        self._raise_violations()
        views = {one.node.name: view for one in self.observers if (view := one.view) is not None}
        partitions = sorted({partition for view in views.values() for partition in view} | set(self._partitions))
        return missing_of(views, nodes=self.cluster.brokers, partitions=partitions)

    @property
    def _partitions(self) -> list[str]:
        return [
            f"{topic}-{index}" for topic in (RECORDS, SOURCE, SINK) for index in range(self.scenario.partition_count)
        ]

    def is_in_sync(self) -> bool:
        """Whether all nodes run and every replica is in sync, as the observers last saw it."""
        return len(self.cluster.running) == len(self.cluster) and not self._missing()

    def _newest_image(self) -> Image | None:
        images = [node.node.loader.image for node in self.cluster if node.node is not None and node.is_serving]
        return max(images, key=lambda image: image.offset, default=None)

    def is_alone_in_sync(self, name: str) -> bool:
        node_id, newest = int(self.cluster[name].settings["node.id"]), self._newest_image()
        assert newest is not None, "some node serves"
        return any(
            partition.isr == (node_id,)
            for topic in newest.topics.by_name.values()
            for partition in topic.partitions.values()
        )

    def registration(self, name: str) -> tuple[int, bool] | None:
        newest = self._newest_image()
        broker = None if newest is None else newest.brokers.get(int(self.cluster[name].settings["node.id"]))
        return None if broker is None else (broker.epoch, broker.is_fenced)

    def forget(self) -> None:
        for observer in self.observers:
            observer.forget()

    def controller(self) -> str | None:
        leader = self.leaders.leader_of(QUORUM)
        return next((node.name for node in self.cluster if node.settings["node.id"] == str(leader)), None)

    async def _finish(self) -> None:
        """Let the clients come to their end, then compare all replicas with each other and with what was promised."""
        for kind in (Trimmer, Writer, Committer, Copier, Reader, SinkReader, Auditor):
            group = [worker for worker in self.workers if isinstance(worker, kind)]
            for worker in group:
                worker.is_stopping = True
            await until(self.loop, partial(self._unfinished, group), HEALED_MS_MAX, "after healing")
        await self._check_rest("after healing")

    async def _look_once_more(self) -> None:
        """Whether coordinators that read their state anew still say what was committed, and to which offsets."""
        lookers: list[Worker] = []
        if self.scenario.has_copiers:
            lookers.append(self._add(SinkReader, "last sink reader"))
        if self.scenario.has_group or self.scenario.has_copiers:
            lookers.append(self._add(Auditor, "last auditor"))
        for looker in lookers:
            looker.is_stopping = True
            looker.start()
        await until(self.loop, partial(self._unfinished, lookers), HEALED_MS_MAX, "after all nodes were killed")

    def _unfinished(self, group: Sequence[Worker]) -> list[str]:
        self._raise_violations()
        return [f"{worker.name} has not come to its end" for worker in group if not worker.is_done]

    def _raise_violations(self) -> None:
        if self.history.violations:
            raise self.history.violations[0]

    # Replicas

    def _replicas(self) -> dict[str, list[ReplicaLog]]:
        """All replicas on all disks, by partition."""
        found: dict[str, list[ReplicaLog]] = {}
        for node in self.cluster:
            for replica in read_replicas(node.name, node.disk, node.settings["log.dirs"].split(",")):
                if node.has_lost_power and not self.scenario.is_synced:
                    replica.forget_lost()
                found.setdefault(replica.partition, []).append(replica)
        return found

    def _check_below_watermarks(self) -> None:
        for partition, replicas in self._replicas().items():
            if not partition.startswith(METADATA_LOG):
                self.history.count("batches compared below watermarks", check_equal(replicas))

    async def _check_rest(self, when: str) -> None:
        """Whether all replicas become equal, and hold what was promised."""

        def differences() -> list[str]:
            self._raise_violations()
            found = []
            for partition, replicas in self._replicas().items():
                try:
                    if partition.startswith(METADATA_LOG):
                        check_prefix(replicas)
                    else:
                        check_identical(replicas)
                except Violation as violation:
                    found.append(str(violation))
            return found

        await until(self.loop, differences, HEALED_MS_MAX, when)
        for partition, replicas in self._replicas().items():
            for replica in replicas:
                check_sound(replica)
            name = partition.split()[0]
            if name.rpartition("-")[0] in (RECORDS, SOURCE):
                self.records.judge(name, _log_of(replicas[0], self.leaders.newest.get(name, 0)))
        self.history.count("times that all replicas became equal")
        self.trace(f"{when} all replicas are equal")

    # The clients

    def _make_clients(self) -> None:
        scenario = self.scenario
        chance = Random(f"{scenario.seed} clients")
        for name in self.cluster.brokers:
            world = self._world_of(f"observer of {name}")
            observer = Observer(
                world, self._chance_of(world), world.life.name, self.history, address=(name, PORT), trace=self.trace
            )
            observer.node = self.cluster[name]
            observer.leaders, observer.watermarks = self.leaders, self.watermarks
            self.observers.append(observer)
        for number in range(scenario.writer_count):
            writer = self._add(Writer, f"writer{number}")
            writer.acks, writer.is_idempotent = chance.choice(PROMISES)
            writer.interval_ms = chance.choice((20, 100, 300))
        for number in range(scenario.reader_count):
            self._add(Reader, f"reader{number}")
        if scenario.has_group or scenario.has_copiers:
            writer = self._add(Writer, "source writer")
            writer.topic, writer.interval_ms = SOURCE, 150
            self._add(Reader, "source reader").topic = SOURCE
            self._add(Auditor, "auditor")
        if scenario.has_group:
            self.ledger.add_group(Committer.group, scenario.partition_count, is_transactional=False)
            protocol = chance.choice(("classic", "consumer"))
            for number in range(2):
                self._add(Committer, f"committer{number}").protocol = protocol
        if scenario.has_copiers:
            self.ledger.add_group(Copier.group, scenario.partition_count, is_transactional=True)
            for number in range(2):
                self._add(Copier, f"copier{number}").transactional_id = f"copier{number}"
            self._add(SinkReader, "sink reader")
        if scenario.has_trimmer:
            self._add(Trimmer, "trimmer")

    def _add(self, kind: type[_W], name: str) -> _W:
        world = self._world_of(name)
        worker = kind(world, self._chance_of(world), name, self.shared)
        self.workers.append(worker)
        return worker

    def _chance_of(self, world: VirtualNodeWorld) -> Random:
        return Random(f"{self.scenario.seed} {world.life.name}")

    def _world_of(self, name: str) -> VirtualNodeWorld:
        world = client_world(self.network, name, str(self.scenario.seed))
        self._lives.append(world.life)
        return world


class _ImageWatch:
    """Tells the checker of coordinators who leads the groups' topic, as one life of a node knows it."""

    def __init__(self, coordinators: Coordinators, life: str, node_id: int) -> None:
        self._coordinators = coordinators
        self._life = life
        self._node_id = node_id

    def on_metadata(self, delta: Delta, image: Image) -> None:
        topic = image.topics.by_name.get(GROUP.topic)
        if topic is not None:
            leaders = {index: (one.leader, one.leader_epoch) for index, one in topic.partitions.items()}
            self._coordinators.on_image(self._life, self._node_id, leaders)


def _log_of(replica: ReplicaLog, leader_epoch: int) -> PartitionLog:
    records = {}
    for stored in replica.batches:
        for batch in batches(memoryview(stored.data)):
            if not batch.is_control:
                for record in batch.records():
                    records[record.offset] = FoundRecord(Value.decode(record.value), stored.leader_epoch)
    epochs = [stored.leader_epoch for stored in replica.batches]
    return PartitionLog(replica.log_start_offset, replica.end_offset, max([leader_epoch, *epochs]), records)

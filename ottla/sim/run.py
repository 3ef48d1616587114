"""One seed, one run: a node, its clients, and everything that goes wrong between them, on virtual time.

The course of a run: the node starts and topics are made; clients work while the scenario's faults strike, and after
most deaths of the node a surveyor reads all of it before the clients may; then everything is healed, the clients finish
what they have in doubt and read to the end, and the node is restarted and read a last time.

Promises: the same seed gives the same trace under any hash seed; a run ends, whatever happens in it.
"""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from ottla.records import Codec
from ottla.sim.clients import (
    Admin,
    Auditor,
    Client,
    Consumer,
    Follower,
    Operator,
    Producer,
    SinkReader,
    Stranger,
    Worker,
)
from ottla.sim.clients.consumer import EARLIEST, LATEST
from ottla.sim.clock import START_MS
from ottla.sim.cluster import SimulatedCluster
from ottla.sim.faults import CHANGES, Kind, Moment
from ottla.sim.history import History, Violation
from ottla.sim.life import Life
from ottla.sim.logs import LogCapture
from ottla.sim.loop import Deadlock, Runaway, VirtualLoop
from ottla.sim.network import Host, VirtualNetwork
from ottla.sim.node import NodeDied
from ottla.sim.pipeline import Pipeline
from ottla.sim.scenario import FOLLOWED_TOPIC, NODE, PORT, WORKER_FAULTS, Scenario, make_scenario
from ottla.sim.trace import Trace
from ottla.sim.waiting import sleep_ms, within
from ottla.sim.world import VirtualNodeWorld, client_world, node_world

_C = TypeVar("_C", bound=Client)

HEALED_MS_MAX = 240_000
"""How long clients may take to come to an end once everything works again."""
SURVEY_MS_MAX = 120_000
START_MS_MAX = 120_000
UNSENT_BYTES_MAX = 3 << 20
"""What a node may hold for one client that does not read: one answer of a megabyte and its neighbours."""
DISK_FAULTS: tuple[tuple[Kind, ...], ...] = (
    ("write",),
    ("sync",),
    ("create", "rename"),
    ("sync_dir",),
    ("make_dirs",),
    ("truncate",),
    ("remove", "remove_tree"),
    ("read", "open", "scan", "stat"),
    CHANGES,
)
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")
BATCHES_MAX = 250
"""What one producer sends: enough for every fault, and little enough to read it all again after each restart."""
WAITING_MAX = 64
"""How many requests of one connection may wait for data or for followers."""
STARTS_MAX = 6
"""How often a node that dies while it starts is started again before the faults are taken away."""


@dataclass(slots=True)
class Outcome:
    """What came of a seed."""

    seed: int
    digest: str
    step_count: int
    virtual_ms: int
    counts: dict[str, int] = field(default_factory=dict)
    failure: str | None = None
    """What was found, with the end of the trace."""


def run_seed(seed: int, *, trace_lines: int = 120) -> Outcome:
    """Run one seed to its end."""
    # The collector would run at moments that depend on what this process did before, and what it frees may speak.
    gc.collect()
    gc.disable()
    try:
        return Simulation(make_scenario(seed)).run(trace_lines)
    finally:
        gc.enable()


class Simulation:
    """One run."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.loop = VirtualLoop()
        self.trace = Trace(lambda: self.loop.now_us)
        self.chance = Random(f"{scenario.seed} course")
        self.network = VirtualNetwork(self.loop, Random(f"{scenario.seed} network"), self.trace)
        self.history = History(self.trace, is_synced=scenario.is_synced)
        self.logs = LogCapture(self.trace, self._on_error_line)
        self.cluster = SimulatedCluster(
            self.network, {NODE: scenario.settings}, self.logs, self.trace, str(scenario.seed)
        )
        self.node = self.cluster[NODE]
        self.pipeline = Pipeline(scenario, self, self.history, self.trace, lambda: self.loop.now_us // 1000)
        self.node.turn_us_max = scenario.turn_us_max
        self.clients: list[Client] = []
        self._lives: list[Life] = []
        self._has_disk_fault = False
        """Whether the disk was made to fail in this life: then the node may complain."""
        self.history.append_time_topics = {
            topic.name for topic in scenario.topics if topic.configs.get("message.timestamp.type") == "LogAppendTime"
        }

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
                self.trace(f"{failure}\n{_traceback(error)}")
            finally:
                self._tear_down()
        if self.history.violations:
            failure = str(self.history.violations[0])
        if failure is not None:
            failure = (
                f"seed {self.scenario.seed}: {failure}\n\n{self.trace.last(trace_lines)}\n\n"
                f"The last operations of the disk:\n{self.node.disk.trace(40)}"
            )
        counts = dict(self.history.counts)
        counts["lost to power"] = self.history.lost_count
        counts["lives"] = self.cluster.life_count
        counts["connections"] = self.network.connection_count
        return Outcome(
            self.scenario.seed, self.trace.digest, self.loop.step_count, self.loop.now_us // 1000, counts, failure
        )

    def _tear_down(self) -> None:
        self.logs.is_muted = True
        for life in self._lives:
            life.end()
        self.cluster.kill()
        self.loop.close()

    def _on_error_line(self, line: str) -> None:
        if not self._has_disk_fault:
            self.history.complain(Violation(f"the node says: {line}"))

    # The course of a run

    async def _main(self) -> None:
        scenario = self.scenario
        await self._within(self.node.start(), START_MS_MAX, "the first start")
        admin = Admin(self._world_of("admin"), self._chance_of("admin"), "admin", self.history, **self._common)
        for topic in scenario.topics:
            await self._within(
                self._in_life_of(admin, admin.create(topic.name, topic.partition_count, topic.configs)),
                START_MS_MAX,
                "making topics",
            )
        if scenario.has_follower:
            await self._within(self._add_follower(admin), START_MS_MAX, "the follower's start")
        self._make_clients()
        for client in self.clients:
            if not isinstance(client, Follower):
                client.start()
        end_us = self.loop.now_us + scenario.duration_ms * 1000
        while self.loop.now_us < end_us and not self.history.violations:
            await self._sleep_ms(scenario.fault_interval_ms * self.chance.uniform(0.1, 2))
            self._check_memory()
            if not self.node.is_running:
                await self._sleep_ms(scenario.restart_delay_ms)
                await self._restart()
            elif scenario.faults:
                await self._strike(self.chance.choice(scenario.faults))
        if not self.history.violations:
            await self._heal()
        if not self.history.violations:
            await self._finish()

    async def _heal(self) -> None:
        """Take all trouble away; the node runs, on a disk that works."""
        self.trace("everything is healed")
        self.network.heal()
        had_disk_fault = self._has_disk_fault
        self._mend_disk()
        if had_disk_fault and self.node.is_running:
            self.node.kill(is_power_loss=False)
        if not self.node.is_running:
            await self._restart(is_quiet=True)

    async def _finish(self) -> None:
        """Let the clients come to their end, then look at everything once more."""
        for kind in (Operator, Stranger, Producer, Worker, SinkReader, Auditor, Consumer, Follower):
            group = [client for client in self.clients if isinstance(client, kind)]
            for client in group:
                if isinstance(client, SinkReader):
                    client.ends = self.pipeline.consumed()
                client.is_stopping = True
            await self._until_done(group)
            if self.history.violations:
                return
        await self._within(self.node.stop(), START_MS_MAX, "stopping the node")
        await self._restart(is_quiet=True, must_survey=True)
        if self.scenario.groups:
            await self._read_all_again()

    async def _read_all_again(self) -> None:
        """A reader and an auditor that know nothing find everything as it was."""
        last = self.pipeline.add_observers("last reader", "last auditor", self._chance_of("last"))
        for client in last:
            client.is_stopping = True
            client.start()
        await self._until_done(last)

    async def _until_done(self, group: Sequence[Client]) -> None:
        deadline_us = self.loop.now_us + HEALED_MS_MAX * 1000
        while not all(client.is_done for client in group) and not self.history.violations:
            if self.loop.now_us > deadline_us:
                late = ", ".join(client.name for client in group if not client.is_done)
                raise Violation(f"{HEALED_MS_MAX} ms after everything was healed {late} have not come to an end")
            await self._sleep_ms(100)

    # The node's deaths and returns

    async def _restart(self, *, is_quiet: bool = False, must_survey: bool = False) -> None:
        """Start the node until it serves, and survey it before anybody else is let in."""
        for attempt in range(STARTS_MAX):
            if is_quiet or attempt == STARTS_MAX - 1:
                self._mend_disk()
            may_lose = self.node.has_lost_power and not self.scenario.is_synced
            is_surveyed = must_survey or may_lose or self.chance.random() < 0.7
            if is_surveyed:
                self.network.isolate(self.node.host)
            try:
                await self._within(self.node.start(), START_MS_MAX, "a start")
                if is_surveyed:
                    await self._survey(may_lose=may_lose)
                    self.node.has_lost_power = False
                return
            except NodeDied:
                await self._sleep_ms(self.scenario.restart_delay_ms)
            except Exception:
                if not self._has_disk_fault:
                    raise
                self.node.kill(is_power_loss=False)
                self._mend_disk()
            finally:
                self.network.connect_again(self.node.host)
        raise Violation(f"the node does not start in {STARTS_MAX} attempts")

    async def _survey(self, *, may_lose: bool) -> None:
        life = Life("surveyor")
        self._lives.append(life)
        world = self.node.world
        assert world is not None, "it serves"
        own = node_world(self.network, self.node.host, world.clock, world.disk, life, f"{self.scenario.seed} survey")
        common = {**self._common, "address": ("localhost", PORT)}
        surveyor = Admin(own, self._chance_of("surveyor"), "surveyor", self.history, **common)
        done = self.loop.create_future()
        node_life = world.life

        async def run() -> None:
            try:
                await surveyor.survey(may_lose=may_lose)
            except (Violation, OSError) as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        own.tasks.spawn(run(), "survey")
        deadline_us = self.loop.now_us + SURVEY_MS_MAX * 1000
        while not done.done():
            if node_life.is_over:
                life.end()
                raise NodeDied("the node died under survey")
            if self.loop.now_us > deadline_us:
                raise Violation(f"the node answered no survey in {SURVEY_MS_MAX} ms")
            await self._sleep_ms(5)
        life.end()
        if node_life.is_over:
            raise NodeDied("the node died under survey")
        if done.exception() is not None and self._has_disk_fault:
            raise NodeDied("the node could not be surveyed: its disk fails")
        done.result()

    def _mend_disk(self) -> None:
        self.node.mend_disk()
        self._has_disk_fault = False

    # What goes wrong

    async def _strike(self, fault: str) -> None:
        self.history.count(f"fault: {fault}")
        self.trace(f"fault: {fault}")
        connections = self.network.open_connections()
        chance = self.chance
        node = self.node
        match fault:
            case "reset" if connections:
                self.network.reset(chance.choice(connections))
            case "half-open" if connections:
                self.network.open_half(chance.choice(connections), told=chance.randrange(2))
            case "silence" if connections:
                self.network.silence(chance.choice(connections))
            case "part":
                self.network.part(node.host, chance.choice(self._client_hosts()))
                self.loop.call_later(chance.uniform(0.05, 8), self.network.heal)
            case "refuse":
                self.network.refuse_chance = 0.7
                self.loop.call_later(chance.uniform(0.05, 5), self.network.heal)
            case "kill":
                node.kill(is_power_loss=False)
            case "power":
                node.kill(is_power_loss=True)
            case "stop":
                await self._stop_node()
            case "crash":
                node.dies_of_power_loss = chance.random() < 0.6
                node.disk.crash_at(chance.choice((1, 5, 30, 200)), kinds=CHANGES, moment=chance.choice(MOMENTS))
            case "disk":
                self._has_disk_fault = True
                kinds = chance.choice(DISK_FAULTS)
                node.disk.fail_at(chance.choice((1, 3, 20)), errno.EIO, kinds=kinds, moment="during")
                await self._sleep_ms(chance.uniform(10, 3_000))
                node.kill(is_power_loss=chance.random() < 0.5)
            case "full":
                self._has_disk_fault = True
                node.disk.capacity_bytes = node.disk.used_bytes + chance.choice((0, 500, 20_000))
                await self._sleep_ms(chance.uniform(10, 3_000))
                node.kill(is_power_loss=chance.random() < 0.5)
            case "clock":
                # Never far from the truth: timestamps an hour ahead of the broker's clock would be refused.
                wrong_ms = chance.randrange(-600_000, 600_000)
                self.trace(f"the clock is now wrong by {wrong_ms} ms")
                node.clock.set_now_ms(START_MS + self.loop.now_us // 1000 + wrong_ms)
            case _ if fault in WORKER_FAULTS:
                self.pipeline.strike(fault, chance)

    async def _stop_node(self) -> None:
        try:
            await self._within(self.node.stop(), START_MS_MAX, "stopping the node")
        except NodeDied:
            pass
        except Exception:
            if not self._has_disk_fault:
                raise
            self.node.kill(is_power_loss=False)

    def _check_memory(self) -> None:
        """No connection may pile up answers that nobody reads, nor requests that wait."""
        connections = [ends for ends in self.network.open_connections() if ends[1].host is self.node.host]
        for _, other in connections:
            if other.unsent_bytes > UNSENT_BYTES_MAX:
                raise Violation(f"{other} has {other.unsent_bytes} unsent bytes")
        replicas = None if self.node.node is None else getattr(self.node.node, "replicas", None)
        if replicas is None:
            return  # it has not come so far yet
        partitions = [one for table in replicas.by_name.values() for one in table.values()]
        waiting = len({waiter for one in partitions for waiter in one.waiters})
        # What a connection leaves behind waits no longer than its request does.
        if waiting > WAITING_MAX * (len(connections) + self.scenario.consumer_count + self.scenario.producer_count):
            raise Violation(f"{waiting} requests wait, of {len(connections)} connections")

    # The clients

    def _make_clients(self) -> None:
        scenario = self.scenario
        chance = self._chance_of("clients")
        names = [topic.name for topic in scenario.topics] + ([FOLLOWED_TOPIC] if scenario.has_follower else [])
        for number in range(scenario.producer_count):
            producer = self.add(Producer, f"producer{number}")
            producer.topic_names = chance.sample(names, chance.randint(1, len(names)))
            producer.acks, producer.is_idempotent = chance.choice(
                ((-1, True), (-1, True), (-1, False), (1, False), (0, False))
            )
            producer.codec = chance.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY))
            producer.interval_ms = chance.choice((20, 100, 400))
            producer.batches_max = BATCHES_MAX
        for number in range(scenario.consumer_count):
            consumer = self.add(Consumer, f"consumer{number}")
            consumer.topic_names = chance.sample(names, chance.randint(1, len(names)))
            consumer.has_session = chance.random() < 0.7
            consumer.begins_at = chance.choice((EARLIEST, EARLIEST, LATEST))
            consumer.partition_max_bytes = chance.choice((1, 1_000, 1 << 16))
            consumer.max_bytes = chance.choice((1, 1_000, 1 << 20))
            consumer.max_wait_ms = chance.choice((0, 50, 500))
        if scenario.groups:
            self.pipeline.make([one for one in self.clients if isinstance(one, Producer)], chance)
        if scenario.has_operator:
            self.add(Operator, "operator").interval_ms = chance.choice((300, 2_000))
            self.history.may_delete_records = chance.random() < 0.5
        if scenario.has_stranger:
            self.add(Stranger, "stranger").topic_names = names

    async def _add_follower(self, admin: Admin) -> None:
        """A second broker, and a topic that it follows."""
        follower = self.add(Follower, "follower")
        follower.start()
        while not follower.is_ready:
            await self._sleep_ms(50)
        made = self.loop.create_future()

        async def make() -> None:
            made.set_result(await admin.create(FOLLOWED_TOPIC, 2, replicas=[1, 2]))

        await self._in_life_of(admin, make())
        follower.topic = made.result()
        assert follower.topic is not None, "the name is new"
        for index in range(follower.topic.partition_count):
            self.history.partition(FOLLOWED_TOPIC, follower.topic.id, index).replicated_to = 0

    def add(self, kind: type[_C], name: str) -> _C:
        client = kind(self._world_of(name), self._chance_of(name), name, self.history, **self._common)
        self.clients.append(client)
        return client

    def remove(self, client: Client) -> None:
        """A client dies, and nobody else lives on its host."""
        self.clients.remove(client)
        next(life for life in self._lives if life.name == client.name).end()
        self.network.end_life(self.network.hosts[client.name])

    @property
    def _common(self) -> dict[str, Any]:
        return {"address": (NODE, PORT), "trace": self.trace}

    def _chance_of(self, name: str) -> Random:
        return Random(f"{self.scenario.seed} {name} {self.loop.now_us}")

    def _world_of(self, name: str) -> VirtualNodeWorld:
        """A host of its own for a client."""
        world = client_world(self.network, name, str(self.scenario.seed))
        self._lives.append(world.life)
        return world

    def _client_hosts(self) -> list[Host]:
        return [host for host in self.network.hosts.values() if host is not self.node.host]

    # Waiting

    async def _sleep_ms(self, delay_ms: float) -> None:
        await sleep_ms(self.loop, delay_ms)

    async def _in_life_of(self, client: Client, work: Coroutine[Any, Any, Any]) -> None:
        done = self.loop.create_future()

        async def run() -> None:
            try:
                done.set_result(await work)
            except Violation as violation:
                done.set_exception(violation)

        client.world.tasks.spawn(run(), client.name)
        await done

    async def _within(self, work: Coroutine[Any, Any, Any], limit_ms: int, what: str) -> None:
        """Wait for something that may not take for ever."""
        await within(self.loop, work, limit_ms, what)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))

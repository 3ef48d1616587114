"""Your own program on virtual time: a whole cluster, its network and its troubles, decided by a seed.

    async def program(cluster: SimulatedKafka) -> None:
        await cluster.create_topic("orders", partitions=3)
        cluster.spawn(worker, cluster, restarts=True)  # a process of its own, which may be killed
        ...  # AsyncProducer, AsyncConsumer, AsyncAdmin on cluster.bootstrap_servers; asserts

    for seed in seeds(200):
        simulate(program, seed=seed, faults=FAULTS)

The nodes are the code of `ottla server`, the clients Ottla's own. Hours pass in a moment, since nothing ever waits.

Promises: the same program and the same seed give the same run, so what `simulate` raises names the seed that replays
it. A run ends: when the program does, when nothing is left to happen, or when `limit_s` virtual seconds have passed.
See docs/testing/simulation.md; what goes wrong, and when, is in `troubles`.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from random import Random
from typing import Any, TypeVar

from ottla.client import AsyncAdmin, NewTopic
from ottla.errors import KafkaError
from ottla.sim import Deadlock, Runaway, VirtualLoop, VirtualNetwork, VirtualNodeWorld, client_world
from ottla.sim.cluster import PORT, SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.sim.trace import Trace
from ottla.testing.errors import ClusterError
from ottla.testing.troubles import FAULTS, Troubles

__all__ = ["simulate", "seeds", "SimulatedKafka", "Process", "SimulationError", "FAULTS"]

T = TypeVar("T")

SEED = "OTTLA_SEED"
"""The environment variable that makes `seeds` give this one seed alone."""
SEEDS = "OTTLA_SEEDS"
"""The one that says how many seeds there are, whatever the caller says."""
LIMIT_S = 3_600.0
RESTART_S = 1.0
"""How long a supervised process is gone."""
CLOSES_MAX = 100
"""How often a coroutine of a dead process may refuse to be closed."""
SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
"""As `ottla.testing.Cluster` has them: a test has few groups, and is in a hurry."""


class SimulationError(ClusterError):
    """The run itself went wrong: the program did not come to an end, or the cluster did not start."""


def seeds(count: int, *, first: int = 0) -> Sequence[int]:
    """The seeds of a test: so many, unless the environment says `OTTLA_SEED=17` (this one) or `OTTLA_SEEDS=5000`."""
    if SEED in os.environ:
        return [int(os.environ[SEED])]
    return range(first, first + int(os.environ.get(SEEDS, count)))


def simulate(
    program: Callable[[SimulatedKafka], Coroutine[Any, Any, T]],
    *,
    seed: int,
    nodes: int = 1,
    controllers: int = 0,
    faults: Iterable[str] = (),
    faults_s: float = 30.0,
    settings: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> T:
    """Run a program against a cluster of its own, from a seed; its result, or what it raises.

    `faults` are some of `FAULTS`, or all; they strike for `faults_s` virtual seconds, and each is healed after a while.
    With `controllers` the nodes are brokers only. `settings` are those of every node.
    """
    # The collector would run at moments that depend on what this process did before, and what it frees may speak.
    gc.collect()
    gc.disable()
    try:
        cluster = SimulatedKafka(seed, layout(nodes, controller_count=controllers, settings=_settings(nodes, settings)))
        return cluster._run(program, Troubles(cluster, sorted(set(faults)), faults_s), limit_s)
    finally:
        gc.enable()


def _settings(node_count: int, more: Mapping[str, str] | None) -> dict[str, str]:
    """A cluster of fewer than three nodes cannot have three replicas of anything."""
    copies = str(min(3, node_count))
    in_sync = str(min(2, node_count))
    return {
        **SETTINGS,
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        **(more or {}),
    }


class SimulatedKafka:
    """The cluster as the program sees it: where to connect, what to break, and the processes that run beside it."""

    def __init__(self, seed: int, settings: Mapping[str, Mapping[str, str]]) -> None:
        self.seed = seed
        self.random = Random(f"{seed} program")
        """For the program's own choices: whatever else it draws from, a seed does not replay."""
        self._loop = VirtualLoop()
        self._trace = Trace(lambda: self._loop.now_us)
        self.network = VirtualNetwork(self._loop, Random(f"{seed} network"), self._trace)
        """The hosts and the links between them: `network.links` has every way to break one."""
        self._logs = LogCapture(self._trace, lambda line: None)
        self.cluster = SimulatedCluster(self.network, settings, self._logs, self._trace, str(seed))
        """The nodes, each with its clock and its disk."""
        self.processes: list[Process] = []
        self._failure: BaseException | None = None
        self._graves: set[asyncio.Task[Any]] = set()
        """What killed processes left behind. Kept, so that none of their `finally` blocks runs: kill -9 runs none."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{name}:{PORT}" for name in self.cluster.brokers)

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes."""
        return list(self.cluster.nodes)

    @property
    def replication_factor(self) -> int:
        return min(3, len(self.cluster.brokers))

    def now_ms(self) -> int:
        """The virtual milliseconds since the beginning."""
        return self._loop.now_us // 1000

    def trace(self, line: str) -> None:
        """Add a line to what is shown of a run that fails."""
        self._trace(line)

    def fail(self, error: BaseException) -> None:
        """End the run with this error, unless there is one already."""
        self._failure = self._failure or error

    # For the program

    async def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """A new topic, with as many replicas as the cluster has nodes for, at most three."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        async with AsyncAdmin(bootstrap_servers=self.bootstrap_servers) as admin:
            topic = NewTopic(name, partitions, self.replication_factor, configs=named)
            (await admin.create_topics([topic])).all()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true; whether it became so in that time."""
        deadline_us = self._loop.now_us + round(timeout_s * 1_000_000)
        while not condition():
            if self._loop.now_us >= deadline_us:
                return False
            await asyncio.sleep(0.05)
        return True

    def spawn(
        self,
        work: Callable[..., Coroutine[Any, Any, object]],
        *args: Any,
        name: str | None = None,
        restarts: bool = False,
    ) -> Process:
        """Run a coroutine function in a process of its own, on a host of its own. Awaiting it gives its result.

        With `restarts` it is supervised: when it is killed, or ends with a `KafkaError` or an `OSError`, it is begun
        again a second later. Anything else that a process raises fails the run.
        """
        name = name or f"{getattr(work, '__name__', 'process')}-{len(self.processes)}"
        process = Process(self, lambda: work(*args), name, restarts=restarts)
        self.processes.append(process)
        process.start()
        return process

    # Breaking and mending it by hand

    def kill(self, *nodes: str) -> None:
        """End nodes by kill -9; all that run, without names."""
        self.cluster.kill(*nodes)

    async def restart(self, *nodes: str) -> None:
        """Start nodes that do not run; all of them, without names."""
        await self._outside(self.cluster.start(*nodes))

    async def stop(self, *nodes: str) -> None:
        """End nodes in order."""
        await self._outside(self.cluster.stop(*nodes))

    def pause(self, *nodes: str) -> None:
        """Stop nodes as SIGSTOP does."""
        self.cluster.pause(*nodes)

    def resume(self, *nodes: str) -> None:
        self.cluster.resume(*nodes)

    def cut(self, *nodes: str) -> None:
        """Cut nodes off from everybody."""
        for name in nodes or self.nodes:
            self.network.links.isolate(name)

    def heal(self) -> None:
        """Make the network whole again."""
        self.network.heal()

    async def _outside(self, work: Coroutine[Any, Any, T]) -> T:
        """What the simulation does is done in nobody's process: whoever asked for it may die meanwhile."""
        return await self._loop.create_task(work, context=Context())

    # The run

    def _run(
        self, program: Callable[[SimulatedKafka], Coroutine[Any, Any, T]], troubles: Troubles, limit_s: float
    ) -> T:
        main = Process(self, lambda: program(self), "program", restarts=False)
        with self._logs:
            try:
                self._start_nodes()
                main.start()
                troubles.start()
                self._run_until(lambda: main.is_done or self._failure is not None, limit_s)
                if self._failure is not None:
                    raise self._failure
                result: T = main.result()
                return result
            except (Deadlock, Runaway) as error:
                raise self._noted(SimulationError(f"the program does not come to an end: {error}")) from None
            except BaseException as error:
                self._noted(error)
                raise
            finally:
                self._tear_down([main, *self.processes])

    def _start_nodes(self) -> None:
        started = self._loop.create_task(self.cluster.start(), context=Context())
        self._run_until(started.done, LIMIT_S)
        if len(started.result()) < len(self.cluster):
            raise SimulationError("the cluster does not start")

    def _run_until(self, condition: Callable[[], bool], limit_s: float) -> None:
        limit_us = self._loop.now_us + round(limit_s * 1_000_000)
        self._loop.run_until(lambda: condition() or self._loop.now_us > limit_us)
        if not condition():
            raise SimulationError(f"the program has not come to an end in {limit_s:g} s of virtual time")

    def _noted(self, error: BaseException) -> BaseException:
        """Say how to see it again, and what happened last."""
        error.add_note(f"simulated with seed {self.seed}; again: simulate(..., seed={self.seed}) or {SEED}={self.seed}")
        error.add_note(f"The end of the trace, in virtual milliseconds:\n{self._trace.last(40)}")
        return error

    def _tear_down(self, processes: Sequence[Process]) -> None:
        self._logs.is_muted = True
        for process in processes:
            process._supervised = False
            process.kill()
        self.cluster.kill()
        self._loop.close()
        for task in self._graves:
            coroutine: Any = task.get_coro()
            for _ in range(CLOSES_MAX):
                try:
                    coroutine.close()
                except BaseException:  # noqa: BLE001 - the dead may say what they like
                    continue
                break
        self._graves.clear()


class Process:
    """A part of the program that lives on a host of its own and can be killed. Awaited, it gives its result."""

    def __init__(
        self, cluster: SimulatedKafka, work: Callable[[], Coroutine[Any, Any, Any]], name: str, *, restarts: bool
    ) -> None:
        self._cluster = cluster
        self._loop = cluster._loop
        self._work = work
        self._supervised = restarts
        self._world: VirtualNodeWorld | None = None
        self._ended: asyncio.Future[Any] = self._loop.create_future()
        self.name = name
        self.life_count = 0

    @property
    def is_running(self) -> bool:
        return self._world is not None

    @property
    def is_done(self) -> bool:
        """Whether it has come to its end, and is not begun again."""
        return self._ended.done()

    def result(self) -> Any:
        return self._ended.result()

    def __await__(self) -> Any:
        return self._ended.__await__()

    def start(self) -> None:
        """Begin it, also again after it was killed."""
        assert self._world is None, "a process runs once at a time"
        self.life_count += 1
        name = self.name if self.life_count == 1 else f"{self.name} life {self.life_count}"
        self._cluster.trace(f"{name} begins")
        self._world = client_world(self._cluster.network, name, str(self._cluster.seed))
        context = self._world.life.context.copy()
        task = self._loop.create_task(self._work(), name=name, context=context)
        task.add_done_callback(self._on_done, context=Context())

    def kill(self) -> None:
        """End it here and now. Nothing of it runs any more, and the system closes its connections."""
        world, self._world = self._world, None
        if world is None:
            return
        self._cluster.trace(f"{world.life.name} is killed")
        self._cluster._graves |= asyncio.all_tasks(self._loop)
        world.life.end()
        self._cluster.network.end_life(world.network.host)
        self._after_end(None)

    def pause(self) -> None:
        if self._world is not None:
            self._loop.pause(self._world.life)

    def resume(self) -> None:
        if self._world is not None:
            self._loop.resume(self._world.life)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        world = self._world
        if world is None or task.get_name() != world.life.name:
            return  # of a life that has ended
        self._world = None
        world.life.end()
        self._cluster.network.end_life(world.network.host)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self._ended.set_result(task.result())
        else:
            self._after_end(error)

    def _after_end(self, error: BaseException | None) -> None:
        """It was killed, or has failed."""
        if self._supervised and (error is None or isinstance(error, KafkaError | OSError)):
            if error is not None:
                self._cluster.trace(f"{self.name} failed: {error!r}")
            self._loop.call_later(RESTART_S, self._start_again, context=Context())
        elif error is not None:
            self._cluster.fail(error)

    def _start_again(self) -> None:
        if self._supervised and self._world is None and not self._ended.done():
            self.start()

"""A run on the virtual disk: lives of a node, each ended by something that goes wrong, each followed by a judge.

Everything in a run comes from its seed: the same seed gives the same operations, the same crash, the same bytes lost.
"""

from __future__ import annotations

from collections import Counter, deque
from os import environ
from random import Random

from ottla.config import CleanerConfig, LogConfig
from ottla.sim import CHANGES, Kind, VirtualClock, VirtualDisk
from ottla.storage import LogManager
from ottla.types import TopicPartition
from ottla.world import World
from tests.crash.recovered import check_leftovers, check_node
from tests.crash.workload import Workload
from tests.support.log_model import NodeModel

GENERATIONS_MAX = 5
JOURNAL_MAX = int(environ.get("OTTLA_CRASH_JOURNAL", "150"))
"""How many of the last changes on the disk a failure shows; four times fewer operations of the workload."""


class Run:
    """One seed. `go` raises `AssertionError` at the first finding, with all that is needed to read and replay it."""

    command = ""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = VirtualClock()
        self.disk = VirtualDisk(Random(seed), self.clock)
        self.world: World = World(clock=self.clock, disk=self.disk, random=Random(seed))
        self.directories = [f"/data/d{number}" for number in range(self.random.choice((1, 2, 2, 3)))]
        self.model = NodeModel()
        self.points: Counter[str] = Counter()
        self.where = "no crash yet"
        self.journal: deque[str] = deque(maxlen=JOURNAL_MAX)
        self.disk.on_operation = self._write_down

    def go(self) -> Counter[str]:
        """The crash points that were hit, by kind."""
        try:
            for generation in range(self.random.randint(2, GENERATIONS_MAX)):
                self.model.operations.append(f"-------  life {generation}")
                self._live()
            self._settle_down()
        except Exception as error:
            raise AssertionError(self._explain(error)) from error
        return self.points

    def _live(self) -> None:
        raise NotImplementedError

    def _open(self) -> LogManager:
        """A new node on what is there, not started yet."""
        return LogManager(self.world, self.directories, config_of=self._config_of, cleaner_config=CleanerConfig())

    def _config_of(self, topic: str) -> LogConfig:
        partition = self.model.partitions.get(TopicPartition(topic, 0))
        return LogConfig() if partition is None else partition.config

    def _judge(self, manager: LogManager, *, is_durable: bool = True) -> Workload:
        """Compare a node that has started with the model, and let it work."""
        offline = [directory.path for directory in manager.directories if directory.is_offline]
        check_node(self.model, manager, self.random, is_durable=is_durable, offline=offline)
        return Workload(self.world, self.clock, manager, self.model, self.random)

    def _start(self, *, is_durable: bool = True) -> Workload:
        """Start a node, with nothing going wrong, and compare."""
        self.disk.clear_faults()
        manager = self._open()
        manager.start()
        assert len(manager.live_directories) == len(self.directories), "a directory that works is offline"
        return self._judge(manager, is_durable=is_durable)

    def _restart(self, workload: Workload) -> Workload:
        """An orderly stop and a start: everything has to be there, whatever happens to the power in between."""
        workload.manager.shutdown()
        for partition in self.model.partitions.values():
            partition.flushed(partition.end)
            partition.checkpointed()
        self._crash(has_power=self.random.random() < 0.5)
        self.model.operations.append("-------  stopped in order")
        return self._start()

    def _settle_down(self) -> None:
        """After the last life: nothing is left of what was interrupted."""
        workload = self._start()
        self.clock.advance(120_000)
        workload.manager.run_chores()
        check_leftovers(workload.manager, self.disk)

    def _explain(self, error: Exception) -> str:
        operations = "\n".join(self.model.operations[-max(JOURNAL_MAX // 4, 40) :])
        changes = "\n".join(self.journal)
        return (
            f"{error}\n\nseed {self.seed}, {self.where}\n"
            f"replay: .venv/bin/python -m tests.crash {self.command} {self.seed}\n\n"
            f"the last operations:\n{operations}\n\nwhat the disk was told and what became of it:\n{changes}"
        )

    def _write_down(self, kind: Kind, path: str) -> None:
        if kind in CHANGES:
            self.journal.append(f"{self.disk.operation_count:>7}  {kind:<10} {path}")

    def _crash(self, *, has_power: bool = False) -> None:
        """The node is gone, and the power with it unless `has_power`."""
        before = self.disk.operation_count
        if has_power:
            self.disk.process_crash()
        else:
            self.disk.crash()
        lines = self.disk.trace(500).splitlines()
        self.journal += [line for line in lines if line.split()[0] == str(before) and line.split()[1] in ("-", "crash")]

    def _note(self, kind: str, where: str) -> None:
        self.points[kind] += 1
        self.where = f"last crash: {kind}, {where}"
        self.model.operations.append(f"-------  {self.where}")

    def _damage(self) -> None:
        """What can be made anew is lost: indexes, producer snapshots, a checkpoint of recovery points."""
        for directory in filter(self.disk.exists, self.directories):
            for entry in self.disk.scan(directory):
                path = f"{directory}/{entry.name}"
                if entry.is_dir:
                    self._damage_log(path)
                elif entry.name == "recovery-point-offset-checkpoint" and self.random.random() < 0.5:
                    self.disk.remove(path)
                    self.model.operations.append(f"-------  {path} is lost")
            self.disk.sync_dir(directory)

    def _damage_log(self, directory: str) -> None:
        for name in self.disk.names(directory):
            if not name.endswith((".index", ".timeindex", ".snapshot")) or self.random.random() < 0.7:
                continue
            path = f"{directory}/{name}"
            self.model.operations.append(f"-------  {path} is damaged")
            if self.random.random() < 0.5:
                self.disk.remove(path)
            else:
                file = self.disk.open(path)
                file.truncate(max(file.size() - 3, 1))
                file.sync()
        self.disk.sync_dir(directory)

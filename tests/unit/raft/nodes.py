"""Raft nodes in the virtual world: one disk, and one life of the node after another on it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any, TypeVar

from ottla.raft import CommittedBatch, RaftConfig, RaftNode, RaftSettings, VoterSet
from ottla.sim.clock import VirtualClock
from ottla.sim.disk import VirtualDisk
from ottla.sim.life import Life
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.world import VirtualNodeWorld, node_world
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.metadata import ConfigRecord, VersionedRecord
from ottla.world import Address, NodeWorld

T = TypeVar("T")

DIRECTORY_ID = Uuid(b"a directory's id")
LISTENERS = {"CONTROLLER": Address("localhost", 9093)}
STATIC = VoterSet.static("CONTROLLER", {1: Address("localhost", 9093)})
DATA = "/data"


class Machine:
    """A computer with a disk on which nodes live and die."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.clock = VirtualClock()
        self.loop.attach(self.clock)
        self.disk = VirtualDisk(Random(f"{seed} disk"), self.clock)
        self.host = self.network.add_host("node")
        self.life_count = 0
        self.disk.make_dirs(DATA)
        self.disk.sync_dir("/")

    def live(self, main: Callable[[NodeWorld], Coroutine[Any, Any, T]]) -> T | None:
        """Run one life of a node until `main` returns; None when the disk has killed it."""
        self.life_count += 1
        life = Life(f"life {self.life_count}", self.disk)
        world = node_world(self.network, self.host, self.clock, self.disk, life, f"{self.seed} life {self.life_count}")
        return self._run(world, life, main)

    def close(self) -> None:
        """Forget what dead nodes have left unfinished."""
        self.loop.close()

    def _run(
        self, world: VirtualNodeWorld, life: Life, main: Callable[[NodeWorld], Coroutine[Any, Any, T]]
    ) -> T | None:
        task = self.loop.create_task(main(world), context=life.context.copy())
        life.tasks.append(task)
        self.loop.run_until(lambda: task.done() or life.is_over)
        if life.is_over:
            if task.done() and not task.cancelled():
                task.exception()  # the death itself
            return None
        life.tasks.remove(task)
        life.end()
        self.disk.process_crash()  # the system lives on, with everything that was written
        return task.result()


class Recorder:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self.snapshot: list[VersionedRecord] = []
        self.snapshot_offset = -1
        self.snapshot_epoch = -1
        self.events: list[str] = []
        self.epochs: list[int] = []

    def on_commit(self, batches: list[CommittedBatch]) -> None:
        for batch in batches:
            expected = self.batches[-1].end_offset if self.batches else self.snapshot_offset + 1
            assert batch.base_offset == expected, f"batch {batch.base_offset} is told after {expected}"
            self.batches.append(batch)
        self.events.append(f"commit to {batches[-1].last_offset}")

    def on_snapshot(self, records: Iterable[VersionedRecord], *, offset: int, epoch: int, timestamp_ms: int) -> None:
        self.snapshot = list(records)
        self.snapshot_offset = offset
        self.snapshot_epoch = epoch
        self.batches = []
        self.events.append(f"snapshot to {offset}")

    def on_leader(self, epoch: int) -> None:
        self.epochs.append(epoch)
        self.events.append(f"leader {epoch}")

    def on_resign(self) -> None:
        self.events.append("resign")

    @property
    def records(self) -> list[Message]:
        """Everything that is committed: of the snapshot, and after it."""
        told = [self.snapshot, *(batch.records for batch in self.batches)]
        return [record for part in told for record, _ in part]

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.snapshot_offset + 1


def raft_node(
    world: NodeWorld,
    *,
    config: RaftSettings | None = None,
    voters: VoterSet = STATIC,
    node_id: int = 1,
    on_failure: Callable[[BaseException], object] | None = None,
) -> RaftNode:
    return RaftNode(
        world,
        config or RaftConfig(),
        DATA,
        node_id=node_id,
        directory_id=DIRECTORY_ID,
        voters=voters,
        listeners=LISTENERS,
        on_failure=on_failure,
    )


def record(number: int, size: int = 10) -> ConfigRecord:
    """A record that is told apart from others by its number."""
    return ConfigRecord(resource_type=2, resource_name="t", name=str(number), value="v" * size)


def numbers(records: Iterable[Message]) -> list[int]:
    return [int(record.name) for record in records if isinstance(record, ConfigRecord)]

"""What a coordinator's runtime asks of the state it runs, and of the partition that the state is written to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.timers import Timers
from ottla.machine import UndoLog
from ottla.metadata import Delta, Image
from ottla.types import Buffer
from ottla.world import NodeWorld, Promise


@dataclass(slots=True)
class ShardContext:
    """What a shard is given when it is made. `image` is replaced before the shard is told of new metadata."""

    index: int
    """The partition that the shard is written to."""
    leader_epoch: int
    """In which this node leads it: the epoch of this coordinator."""
    undo: UndoLog
    timers: Timers
    world: NodeWorld
    image: Image

    def promise(self) -> Promise[Any]:
        """An open promise, for an answer that comes later."""
        return self.world.tasks.promise()


class Shard(Protocol):
    """The state behind one partition. Replicated state changes in `replay` only, and is kept in `context.undo`."""

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        """Apply a record. With a producer it is part of a transaction, and counts when that is committed."""
        ...

    def replay_marker(self, marker: EndMarker) -> None:
        """A producer's transaction has ended: what it wrote counts, or never was."""
        ...

    def on_loaded(self) -> None:
        """Everything is replayed, and decisions begin: time-outs start to run."""
        ...

    def on_unloaded(self) -> None:
        """This node leads the partition no more: whoever waits is to be told; the shard is not used again."""
        ...

    def on_metadata(self, delta: Delta) -> None:
        """`context.image` has changed. Told to loaded shards only; `on_loaded` finds the newest image."""
        ...


class ShardLog(Protocol):
    """A partition of a coordinator's topic, on the node that leads it. Errors are those of an append or a read."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def read(self, offset: int, *, bytes_max: int) -> Buffer:
        """Whole batches, beginning with the one that `offset` is in; empty at the end of the log."""
        ...

    def append(self, batch: Buffer, *, verification_guard: object | None = None, transaction_version: int = 0) -> int:
        """Append one batch, safe as acks=all asks, and return the offset of its last record."""
        ...

    def when_committed(self, call: Callable[[int], object]) -> None:
        """Call with the high watermark when it has moved, but not from within `append`: the caller of that looks."""
        ...

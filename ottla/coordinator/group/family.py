"""`Family`: one kind of state that a shard of the group coordinator is made of: a group protocol, or the offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.coordinator.record import EndMarker, Producer
from ottla.metadata import Delta

Replay = Callable[[Any, Any, Producer | None], None]
"""Applies a record: its key, its value (None for a tombstone), and the producer of the transaction it is part of."""


class Family(Protocol):
    """A family is made by the shard (`Name(shard)`) and keeps its replicated state in `shard.context.undo`."""

    @property
    def replays(self) -> Mapping[int, Replay]:
        """How each type of record of this family is applied; the types are those of `ottla.wire.coordinator.GROUP`."""
        ...

    def replay_marker(self, marker: EndMarker) -> None:
        """A producer's transaction in this partition has ended."""
        ...

    def on_loaded(self) -> None:
        """Everything is replayed: time-outs start to run."""
        ...

    def on_unloaded(self) -> None:
        """This node is not the coordinator any more: whoever waits for an answer is told."""
        ...

    def on_metadata(self, delta: Delta) -> None:
        """`shard.context.image` has changed."""
        ...

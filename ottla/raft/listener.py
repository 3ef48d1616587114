"""What raft tells the state machines above it: committed records, snapshots, and who leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from ottla.wire.metadata import VersionedRecord


class CommittedBatch(NamedTuple):
    """One batch of the log, which was appended as one unit. A control batch has no records but takes up offsets."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: Sequence[VersionedRecord]
    size: int
    """Bytes in the log."""

    @property
    def end_offset(self) -> int:
        return self.last_offset + 1


class Listener(Protocol):
    """A state machine over the metadata log. It is told everything once, in the order of the log."""

    def on_commit(self, batches: list[CommittedBatch]) -> None:
        """These batches are committed; they follow what was told before without a gap."""
        ...

    def on_snapshot(self, records: Iterable[VersionedRecord], *, offset: int, epoch: int, timestamp_ms: int) -> None:
        """Forget everything and take the state that these records make; `offset` is the last that they contain."""
        ...

    def on_leader(self, epoch: int) -> None:
        """This node leads, and the listener has been told everything that was committed before: it may append."""
        ...

    def on_resign(self) -> None:
        """This node leads no more. What was appended and not told as committed may never be."""
        ...

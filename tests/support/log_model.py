"""What a node's logs have acknowledged, kept apart from them: the judge of every recovery.

The driver of a workload tells the model before an operation what may change, and after it what has. A crash in between
leaves both in the model: what was acknowledged must be found again, what was under way may be. The model keeps bytes
and offsets and knows nothing of files, indexes, checkpoints or snapshots.

Promises: it can be pickled, so that a process which is about to be killed can hand it to the one that judges.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla.config import LogConfig
from ottla.records import Batch, Codec, ControlType, EndTransactionMarker, Row, crc32c
from ottla.types import TopicPartition

_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")

WINDOW = 5
"""How many batches of a producer a log remembers (KIP-98)."""


class StoredBatch:
    """A batch as the log must give it back: these very bytes or, if it was to be recompressed, these records."""

    __slots__ = ("_rows", "batch", "data", "is_exact")

    def __init__(self, data: bytes, *, is_exact: bool = True) -> None:
        self.data = data
        self.is_exact = is_exact
        self.batch = Batch(memoryview(data), 0)
        self._rows: list[Row] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _stored, (self.data, self.is_exact)

    @property
    def base_offset(self) -> int:
        return self.batch.base_offset

    @property
    def last_offset(self) -> int:
        return self.batch.last_offset

    @property
    def next_offset(self) -> int:
        return self.batch.next_offset

    @property
    def rows(self) -> list[Row]:
        if self._rows is None:
            self._rows = self.batch.rows()
        return self._rows

    @property
    def marker(self) -> EndTransactionMarker | None:
        """How this batch ends a transaction; None for records, and for a marker that compaction has emptied."""
        if not self.batch.is_control or not self.rows:
            return None
        return EndTransactionMarker.decode(self.rows[0][2], self.rows[0][3])

    def __repr__(self) -> str:
        return f"StoredBatch({self.batch!r})"


def _stored(data: bytes, is_exact: bool) -> StoredBatch:
    return StoredBatch(data, is_exact=is_exact)


def as_leader_stores(
    data: bytes, config: LogConfig, *, base_offset: int, leader_epoch: int, now_ms: int
) -> StoredBatch:
    """What a leader makes of a producer's batch: its offsets, its epoch and, with LogAppendTime, its clock in it."""
    stored = bytearray(data)
    _INT64.pack_into(stored, 0, base_offset)
    _INT32.pack_into(stored, 12, leader_epoch)
    if config.message_timestamp_type == "LogAppendTime":
        _INT16.pack_into(stored, 21, _INT16.unpack_from(stored, 21)[0] | 0x08)
        _INT64.pack_into(stored, 35, now_ms)
        _UINT32.pack_into(stored, 17, crc32c(memoryview(stored)[21:]))
    batch = Batch(memoryview(stored), 0)
    wanted = {"producer": batch.codec, "uncompressed": Codec.NONE}.get(config.compression_type)
    is_kept = wanted is batch.codec or config.compression_type == batch.codec.label or batch.is_control
    return StoredBatch(bytes(stored), is_exact=is_kept)


@dataclass(slots=True)
class ProducerView:
    """What a plain replay of batches says about one producer."""

    epoch: int = -1
    coordinator_epoch: int = -1
    txn_first_offset: int | None = None
    batches: list[tuple[int, int, int]] = field(default_factory=list)
    """First sequence, last sequence and last offset of every batch of this epoch."""

    @property
    def next_sequence(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0


def replay_producers(batches: Iterable[StoredBatch]) -> dict[int, ProducerView]:
    """The producers as these batches leave them, the log's rules spelled out once more."""
    producers: dict[int, ProducerView] = {}
    for stored in batches:
        batch = stored.batch
        if batch.producer_id < 0:
            continue
        marker = stored.marker
        if batch.is_control and marker is None:
            continue
        view = producers.setdefault(batch.producer_id, ProducerView())
        if view.epoch != batch.producer_epoch:
            view.epoch = batch.producer_epoch
            view.batches.clear()
        if marker is not None:
            view.coordinator_epoch = marker.coordinator_epoch
            view.txn_first_offset = None
        else:
            view.batches.append((batch.base_sequence, batch.last_sequence, batch.last_offset))
            if batch.is_transactional and view.txn_first_offset is None:
                view.txn_first_offset = batch.base_offset
    return producers


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction: where it begins, where its marker is (None while it is open) and how it ended."""

    producer_id: int
    first_offset: int
    marker_offset: int | None
    is_aborted: bool


def find_transactions(batches: Iterable[StoredBatch]) -> list[Transaction]:
    """All transactions of these batches, the closed ones by their markers, then the open ones."""
    open_since: dict[int, int] = {}
    found = []
    for stored in batches:
        batch = stored.batch
        marker = stored.marker
        if marker is not None:
            first = open_since.pop(batch.producer_id, None)
            if first is not None:
                is_aborted = marker.type is ControlType.ABORT
                found.append(Transaction(batch.producer_id, first, batch.base_offset, is_aborted))
        elif batch.is_transactional and not batch.is_control:
            open_since.setdefault(batch.producer_id, batch.base_offset)
    return [*found, *(Transaction(producer, first, None, False) for producer, first in open_since.items())]


class Existence(Enum):
    """Whether a partition has to be there, may be there, or must be gone."""

    CREATING = "creating"
    LIVE = "live"
    DELETING = "deleting"


@dataclass(slots=True)
class PartitionModel:
    """One partition: everything that it has acknowledged, and what is under way."""

    partition: TopicPartition
    directory: str
    config: LogConfig
    existence: Existence = Existence.CREATING
    history: list[StoredBatch] = field(default_factory=list)
    """All batches from the first one ever on that were not truncated, as they were before any compaction."""
    removed: set[int] = field(default_factory=set)
    """Offsets of records that a finished compaction has removed: they must not come back."""
    clean_bound: int = 0
    """No compaction has looked at records from this offset on."""
    pending: list[StoredBatch] = field(default_factory=list)
    """What an append that is under way may add."""
    end: int = 0
    flushed_end: int = 0
    """Everything below it was flushed."""
    truncating_to: int | None = None
    """Where a truncation that is under way will end the log."""
    start: int = 0
    start_floor: int = 0
    """A start that was checkpointed: the log must not begin earlier again."""
    start_max: int = 0
    """The furthest that the start may have got."""
    start_furthest: int = 0
    """The furthest that it was since these records were written, before a crash took it back."""
    high_watermark: int = 0
    high_watermark_floor: int = 0
    is_restarting: bool = False
    """Whether the log is being emptied, to begin again elsewhere: any part of it may be there then."""
    leader_epoch: int = 0
    is_leader: bool = True

    @property
    def is_certain(self) -> bool:
        """Whether the log has to be there after a crash: its name is durable with the first record, not before."""
        return self.existence is Existence.LIVE and self.end > 0

    @property
    def start_seen(self) -> int:
        """Records below it may have been given up already: the log begins there, or did, or was to."""
        return max(self.start_furthest, self.start_max)

    @property
    def is_compacted(self) -> bool:
        return self.config.is_compacted

    @property
    def history_end(self) -> int:
        """The offset behind the last batch: below the log end where a truncation has cut a batch."""
        return self.history[-1].next_offset if self.history else 0

    @property
    def certain_end(self) -> int:
        """A power cut must leave everything below it."""
        if self.is_restarting:
            return 0
        if self.truncating_to is None:
            return self.flushed_end
        return min(self.flushed_end, self._boundary(self.truncating_to))

    def from_offset(self, offset: int) -> list[StoredBatch]:
        """The batches from the one that holds `offset`, or the next one, on."""
        return self.history[bisect_left(self.history, offset, key=lambda stored: stored.last_offset) :]

    # Appends

    def appending(self, batches: Sequence[StoredBatch]) -> None:
        self.pending = list(batches)

    def appended(self) -> None:
        self.history += self.pending
        self.pending = []
        self.end = self.history[-1].next_offset
        if self.config.flush_messages == 1:
            self.flushed_end = self.end

    def refused(self) -> None:
        """The append has raised, or was a duplicate: nothing of it is in the log."""
        self.pending = []

    # Flushes

    def flushed(self, offset: int) -> None:
        """A flush up to here has returned: every batch with a record below it is on the device."""
        place = bisect_left(self.history, offset, key=lambda stored: stored.base_offset)
        if place:
            self.flushed_end = max(self.flushed_end, self.history[place - 1].next_offset)

    def claims(self, recovery_point: int) -> None:
        """The log says that everything below is on the device. At the log start that says nothing: deleting records
        moves both."""
        if recovery_point > self.start:
            self.flushed(recovery_point)

    # The two ends

    def truncating(self, offset: int) -> None:
        self.truncating_to = offset
        self.start_floor = min(self.start_floor, offset)

    def truncated(self, offset: int) -> None:
        self.truncating_to = None
        self._cut(offset)
        self.flushed_end = min(self.flushed_end, self.history_end)
        self.end = min(self.end, offset)
        self.start = self.start_max = min(self.start, offset)
        self.start_furthest = min(self.start_furthest, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.high_watermark_floor = min(self.high_watermark_floor, offset)

    def restarting(self, offset: int) -> None:
        self.is_restarting = True
        self.start_floor = self.high_watermark_floor = 0
        self.start_max = max(self.end, offset)

    def restarted(self, offset: int) -> None:
        self.is_restarting = False
        self.flushed_end = 0
        self.history = []
        self.removed.clear()
        self.end = self.start = self.start_max = self.start_furthest = self.high_watermark = offset
        self.clean_bound = min(self.clean_bound, offset)

    def moving_start(self, offset_max: int) -> None:
        self.start_max = max(self.start, offset_max)

    def moved_start(self, offset: int) -> None:
        self.start = self.start_max = offset
        self.start_furthest = max(self.start_furthest, offset)

    def checkpointed(self) -> None:
        """A checkpoint has returned: where the log began and how far it was replicated is on the device."""
        self.start_floor = self.start
        self.high_watermark_floor = self.high_watermark

    def _boundary(self, offset: int) -> int:
        """The end of the last batch that lies wholly below `offset`."""
        place = bisect_left(self.history, offset, key=lambda stored: stored.last_offset)
        return self.history[place - 1].next_offset if place else 0

    def _cut(self, offset: int) -> None:
        place = bisect_left(self.history, offset, key=lambda stored: stored.last_offset)
        del self.history[place:]
        self.removed = {removed for removed in self.removed if removed < offset}
        self.clean_bound = min(self.clean_bound, offset)

    # Compaction

    def cleaning(self, bound: int) -> None:
        self.clean_bound = max(self.clean_bound, bound)

    def cleaned(self, offsets: set[int]) -> None:
        """A compaction has come to its end, and these are the records that are left."""
        for stored in self.from_offset(self.start):
            inside = range(self.start, self.clean_bound)
            self.removed.update(row[0] for row in stored.rows if row[0] in inside and row[0] not in offsets)

    # Recovery

    def adopt(
        self, history: Sequence[StoredBatch], *, start: int, end: int, offsets: set[int], is_durable: bool
    ) -> None:
        """A recovery was found right: go on from what it found. `is_durable` unless only the process has died."""
        self.history = list(history)
        self.pending = []
        self.existence = Existence.LIVE
        self._cut(end)
        self.is_restarting = False
        self.truncating_to = None
        self.end = end
        self.start_furthest = min(self.start_seen, end)
        self.start = self.start_max = start
        self.high_watermark_floor = min(self.high_watermark_floor, end)
        self.flushed_end = self.history_end if is_durable else min(self.flushed_end, self.history_end)
        if self.is_compacted:
            self.cleaned(offsets)


@dataclass(slots=True)
class NodeModel:
    """All partitions of a node."""

    partitions: dict[TopicPartition, PartitionModel] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    """What was done, for whoever has to read a failure."""

    def in_directory(self, directory: str) -> list[PartitionModel]:
        return [partition for partition in self.partitions.values() if partition.directory == directory]

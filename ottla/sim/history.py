"""What a run has promised to its clients and shown to them: the judge of everything that is answered.

A record's value names its producer, its number and its timestamp, so no two are equal and each vouches for itself. Of
each partition the history knows which value is at which offset, from acknowledgements and from what consumers read.

The rules, each checked where it can first be seen broken:
- an offset has one value for ever, and no value of an idempotent producer has two offsets;
- nothing is served that was not sent there, nor out of its bytes' order, nor at or above the high watermark told, nor
  what a follower in sync has not fetched;
- after a restart everything acknowledged or shown is there, without holes. Only a power loss may take records that were
  never synced, from the end and without a gap; with `log.flush.interval.messages=1` it may take none.

A topic deleted and made anew has another id, and so another history.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.records import Batch, TimestampType, batches
from ottla.types import Buffer, Uuid


class Violation(AssertionError):
    """A promise was broken."""


class Value(NamedTuple):
    """What a record carries."""

    producer: str
    number: int
    timestamp: int
    is_idempotent: bool

    def encode(self, size: int) -> bytes:
        text = f"{self.producer}|{self.number}|{self.timestamp}|{int(self.is_idempotent)}|"
        return text.encode().ljust(size, b".")

    @classmethod
    def decode(cls, data: Buffer | None) -> Value:
        try:
            producer, number, timestamp, is_idempotent, _ = bytes(data or b"").decode().split("|")
            return cls(producer, int(number), int(timestamp), is_idempotent == "1")
        except ValueError:
            raise Violation(f"a record holds what nobody sent: {bytes(data or b'')[:80]!r}") from None


@dataclass
class PartitionHistory:
    """One partition of one topic."""

    topic: str
    topic_id: Uuid
    index: int
    is_append_time: bool = False
    acknowledged: dict[int, Value] = field(default_factory=dict)
    shown: dict[int, Value] = field(default_factory=dict)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    """How often each value was sent, by producer and number."""
    places: dict[tuple[str, int], int] = field(default_factory=dict)
    """Where each value of an idempotent producer is."""
    replicated_to: int | None = None
    """How far a follower has asked for records, where there is one: below this it has them all."""
    deleted_to: int = 0
    """Records below this may be gone: somebody asked for it."""
    truncations: int = 0
    """How often a power loss has taken records: what was known of the end before is then void."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def known_end(self) -> int:
        """One past the highest offset that anybody was told of."""
        return max(max(self.acknowledged, default=-1), max(self.shown, default=-1)) + 1

    def at(self, offset: int) -> Value | None:
        return self.acknowledged.get(offset) or self.shown.get(offset)


class History:
    """All partitions, and what was found wrong."""

    def __init__(self, trace: Callable[[str], None], *, is_synced: bool) -> None:
        self._trace = trace
        self.is_synced = is_synced
        """Whether the broker syncs every append before it acknowledges it."""
        self.partitions: dict[tuple[Uuid, int], PartitionHistory] = {}
        self.created: dict[Uuid, str] = {}
        """Topics whose creation was acknowledged and whose deletion nobody asked for."""
        self.doomed: set[Uuid] = set()
        """Topics whose deletion was asked for: they may be there or not."""
        self.deleted: set[Uuid] = set()
        """Topics whose deletion was acknowledged."""
        self.append_time_topics: set[str] = set()
        self.judged_elsewhere: set[str] = set()
        """Topics whose records another checker knows."""
        self.producer_ids: set[int] = set()
        self.may_delete_records = True
        self.violations: list[Violation] = []
        self.lost_count = 0
        self.counts: dict[str, int] = {}

    def complain(self, violation: Violation) -> None:
        self._trace(f"VIOLATION: {violation}")
        self.violations.append(violation)

    def count(self, name: str, by: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + by

    def partition(self, topic: str, topic_id: Uuid, index: int) -> PartitionHistory:
        known = self.partitions.get((topic_id, index))
        if known is None:
            known = PartitionHistory(topic, topic_id, index, topic in self.append_time_topics)
            self.partitions[topic_id, index] = known
        return known

    def on_sent(self, partition: PartitionHistory, values: Sequence[Value]) -> None:
        for value in values:
            key = (value.producer, value.number)
            partition.sent[key] = partition.sent.get(key, 0) + 1

    def on_acknowledged(self, partition: PartitionHistory, base_offset: int, values: Sequence[Value]) -> None:
        self.count("acknowledged", len(values))
        for offset, value in enumerate(values, base_offset):
            self._place(partition, offset, value, "acknowledged")
            partition.acknowledged[offset] = value

    def on_shown(self, partition: PartitionHistory, offset: int, value: Value) -> None:
        self.count("shown")
        if partition.replicated_to is not None and offset >= partition.replicated_to:
            raise Violation(
                f"{partition} serves offset {offset}, and its follower has only what is below {partition.replicated_to}"
            )
        self._place(partition, offset, value, "served")
        partition.shown[offset] = value

    def _place(self, partition: PartitionHistory, offset: int, value: Value, how: str) -> None:
        known = partition.at(offset)
        if known is not None and known != value:
            raise Violation(f"{partition} offset {offset} is {how} as {value} and was {known} before")
        key = (value.producer, value.number)
        if key not in partition.sent:
            raise Violation(f"{partition} offset {offset} is {how} as {value}, which nobody sent there")
        if value.is_idempotent:
            place = partition.places.setdefault(key, offset)
            if place != offset:
                raise Violation(f"{partition} has {value} of an idempotent producer at {place} and at {offset}")

    def after_restart(
        self, partition: PartitionHistory, start: int, end: int, found: dict[int, Value], *, may_lose: bool
    ) -> None:
        """Compare what a node has after its start with what its clients know. `found` is the whole log."""
        if start > partition.deleted_to:
            raise Violation(f"{partition} begins at {start}, and only {partition.deleted_to} were to be deleted")
        for offset in range(start, end):
            if offset not in found:
                raise Violation(f"{partition} has no record at {offset}, between {start} and {end}")
        lost = 0
        for offset, value in {**partition.shown, **partition.acknowledged}.items():
            if offset < start:
                continue
            if offset >= end:
                if not may_lose:
                    how = "acknowledged" if offset in partition.acknowledged else "served"
                    raise Violation(f"{partition} ends at {end}: {value} at {offset}, {how} before, is lost")
                lost += 1
            elif found[offset] != value:
                raise Violation(f"{partition} offset {offset} is {found[offset]} and was {value} before")
        if may_lose:
            self._forget(partition, end)
            self.lost_count += lost
        for offset, value in found.items():
            self.on_shown(partition, offset, value)

    def _forget(self, partition: PartitionHistory, end: int) -> None:
        """A power loss has cut the log here: what was known beyond is void."""
        partition.truncations += 1
        for known in (partition.acknowledged, partition.shown):
            for offset in [offset for offset in known if offset >= end]:
                del known[offset]
        for key in [key for key, offset in partition.places.items() if offset >= end]:
            del partition.places[key]


def read_values(partition: PartitionHistory, data: Buffer, *, position: int, high_watermark: int) -> dict[int, Value]:
    """The records of a fetch from `position` on, by offset; checks all that the bytes themselves promise."""
    found: dict[int, Value] = {}
    expected = position
    for batch in batches(memoryview(data)):
        _check_batch(partition, batch, high_watermark)
        for record in batch.records():
            if record.offset < position:
                continue  # the batch began before what was asked for
            if record.offset != expected:
                raise Violation(f"{partition} serves offset {record.offset} where {expected} is next")
            expected += 1
            value = Value.decode(record.value)
            if not partition.is_append_time and record.timestamp != value.timestamp:
                raise Violation(f"{partition} offset {record.offset} has timestamp {record.timestamp}, sent as {value}")
            found[record.offset] = value
    return found


def _check_batch(partition: PartitionHistory, batch: Batch, high_watermark: int) -> None:
    batch.ensure_valid()
    if batch.last_offset >= high_watermark:
        raise Violation(
            f"{partition} serves offsets {batch.base_offset} to {batch.last_offset}, and tells a high watermark of "
            f"{high_watermark}"
        )
    if (batch.timestamp_type is TimestampType.LOG_APPEND_TIME) is not partition.is_append_time:
        raise Violation(
            f"{partition} serves offset {batch.base_offset} with timestamps of {batch.timestamp_type.label}"
        )

"""What became of acknowledged records: lost, doubled, reordered, or where they were put.

- What all replicas in sync have acknowledged (acks=all), and what any consumer was shown, stays at its offset for ever,
  as long as the scenario keeps to the rule: elections are clean, and never all in-sync copies lose unsynced bytes.
- What only the leader has acknowledged (acks=1) may be lost, and only as Kafka's documentation says: the leader failed
  before others had the record. So there is a later leader, and what is there now instead is of its epoch, or of an
  earlier one: a leader that was replaced and had more than anybody knew of may lead again (KIP-966). Within the epoch
  of the acknowledgement nothing of the log changes.
- Nothing is there that was not sent, and nothing of an idempotent producer is there twice or out of its order.

Clients tell what they send, are promised and are shown; `judge` is told the log as it is in the end. Where elections
are unclean, `judge` is told so, and only the last rule and the rule of one epoch are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.sim.history import Value, Violation

ACKS_ALL = -1
ACKS_LEADER = 1


class FoundRecord(NamedTuple):
    """A record of a log, with the epoch of the leader that appended it."""

    value: Value
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """A partition as it is in the end."""

    start_offset: int
    end_offset: int
    leader_epoch: int
    """Of its present leader."""
    records: Mapping[int, FoundRecord]


@dataclass(slots=True)
class _Partition:
    sent: set[tuple[str, int]] = field(default_factory=set)
    by_all: dict[int, Value] = field(default_factory=dict)
    by_leader: dict[int, list[tuple[Value, int]]] = field(default_factory=dict)
    """With the epoch that the producer sent it in: leaders of different epochs may have given one offset twice."""
    shown: dict[int, Value] = field(default_factory=dict)


class AcknowledgedRecords:
    """All partitions of a run."""

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}
        self.acknowledged_count = 0
        self.lost_count = 0
        """How many records were lost that may be lost."""
        self.judged_count = 0
        """How many promises were compared with the log in the end."""

    def _of(self, partition: str) -> _Partition:
        return self._partitions.setdefault(partition, _Partition())

    @property
    def partitions(self) -> list[str]:
        return list(self._partitions)

    def known_end(self, partition: str) -> int:
        """One past the highest offset that is there for ever."""
        known = self._of(partition)
        return max(max(known.by_all, default=-1), max(known.shown, default=-1)) + 1

    def on_sent(self, partition: str, value: Value) -> None:
        self._of(partition).sent.add((value.producer, value.number))

    def on_acknowledged(self, partition: str, offset: int, value: Value, *, acks: int, leader_epoch: int) -> None:
        """`leader_epoch` is that in which, as far as the producer knew, the node that it sent the record to leads."""
        known = self._of(partition)
        self.acknowledged_count += 1
        if acks == ACKS_LEADER:
            known.by_leader.setdefault(offset, []).append((value, leader_epoch))
            return
        before = known.by_all.setdefault(offset, value)
        if before != value:
            raise Violation(f"{partition} offset {offset} is acknowledged by all as {value} and as {before}")
        self._agree(partition, offset, value, known.shown, "was shown")

    def on_shown(self, partition: str, offset: int, value: Value) -> None:
        known = self._of(partition)
        if (value.producer, value.number) not in known.sent:
            raise Violation(f"{partition} offset {offset} is shown as {value}, which nobody sent there")
        before = known.shown.setdefault(offset, value)
        if before != value:
            raise Violation(f"{partition} offset {offset} is shown as {value} and was shown as {before}")
        self._agree(partition, offset, value, known.by_all, "was acknowledged by all")

    def _agree(self, partition: str, offset: int, value: Value, others: Mapping[int, Value], how: str) -> None:
        other = others.get(offset, value)
        if other != value:
            raise Violation(f"{partition} offset {offset} is {value}, and {other} {how} there")

    def judge(self, partition: str, log: PartitionLog, *, is_unclean: bool = False) -> None:
        """Compare the log as it is in the end with everything that was said of it."""
        known = self._of(partition)
        self._check_places(partition, known, log)
        promised = {**known.by_all, **known.shown}
        for offset, value in promised.items():
            if offset < log.start_offset or is_unclean:
                continue
            self.judged_count += 1
            found = log.records.get(offset)
            how = "acknowledged by all" if offset in known.by_all else "shown"
            if found is None:
                raise Violation(f"{partition} ends at {log.end_offset}: {value} at {offset}, {how} before, is lost")
            if found.value != value:
                raise Violation(f"{partition} offset {offset} is {found.value}, and {value} was {how} there")
        for offset, promises in known.by_leader.items():
            for value, leader_epoch in promises:
                if offset >= log.start_offset:
                    self._judge_by_leader(partition, offset, value, leader_epoch, log)

    def _judge_by_leader(self, partition: str, offset: int, value: Value, leader_epoch: int, log: PartitionLog) -> None:
        found = log.records.get(offset)
        if found is not None and found.value == value:
            return
        if log.leader_epoch <= leader_epoch or (found is not None and found.leader_epoch == leader_epoch):
            instead = "nothing" if found is None else f"{found.value} of epoch {found.leader_epoch}"
            raise Violation(
                f"{partition} offset {offset}: the leader of epoch {leader_epoch} acknowledged {value}, and there is "
                f"{instead}; now it is epoch {log.leader_epoch}"
            )
        self.lost_count += 1

    def _check_places(self, partition: str, known: _Partition, log: PartitionLog) -> None:
        numbers: dict[str, int] = {}
        for offset, found in sorted(log.records.items()):
            value = found.value
            if (value.producer, value.number) not in known.sent:
                raise Violation(f"{partition} offset {offset} is {value}, which nobody sent there")
            if value.is_idempotent:
                before = numbers.get(value.producer, -1)
                if value.number <= before:
                    raise Violation(
                        f"{partition} offset {offset} is {value}, after number {before} of that idempotent producer"
                    )
                numbers[value.producer] = value.number

"""`PendingOffsets`: offsets that open transactions have committed, which count when the transaction does.

Several producers may have written the same partition, and others may have committed it outside a transaction since. The
commit that was *written* last is the one that counts in the end, whichever transaction ends last: otherwise what
compaction leaves of the log would load into another offset than the one that was served. So each partition keeps its
pending commits in the order they were written, and one that a later commit has overtaken keeps its place (the partition
stays unstable until that transaction ends) but not its value.

Promises: everything can be taken back; a producer without open offsets takes no room. Called by `offsets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.machine import UndoLog
from ottla.wire.coordinator.offsets import OffsetCommitValue

PartitionKey = tuple[str, int]
"""A topic and the index of a partition."""


class Pending(NamedTuple):
    """What one producer's open transaction has for a partition."""

    producer_id: int
    value: OffsetCommitValue | None
    """None when a later commit has overtaken it."""


class PendingOffsets:
    """See the module."""

    __slots__ = ("_by_group", "_by_producer", "_undo")

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._by_group: dict[str, dict[PartitionKey, tuple[Pending, ...]]] = {}
        self._by_producer: dict[int, dict[tuple[str, str, int], None]] = {}

    def has_group(self, group_id: str) -> bool:
        return group_id in self._by_group

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for the partition: the one that counts is not stable."""
        partitions = self._by_group.get(group_id)
        return partitions is not None and (topic, partition) in partitions

    def partitions_of(self, group_id: str) -> list[PartitionKey]:
        return list(self._by_group.get(group_id, ()))

    def __iter__(self) -> Iterator[tuple[str, PartitionKey, OffsetCommitValue]]:
        """Every pending commit that may still count: group, partition and value."""
        for group_id, partitions in self._by_group.items():
            for key, waiting in partitions.items():
                for pending in waiting:
                    if pending.value is not None:
                        yield group_id, key, pending.value

    def put(self, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        """A transaction has committed an offset."""
        partitions = self._by_group.get(group_id)
        if partitions is None:
            partitions = {}
            self._undo.put(self._by_group, group_id, partitions)
        others = [one for one in partitions.get((topic, partition), ()) if one.producer_id != producer_id]
        self._undo.put(partitions, (topic, partition), (*others, Pending(producer_id, value)))
        keys = self._by_producer.get(producer_id)
        if keys is None:
            keys = {}
            self._undo.put(self._by_producer, producer_id, keys)
        self._undo.put(keys, (group_id, topic, partition), None)

    def overtake(self, group_id: str, topic: str, partition: int) -> None:
        """An offset was committed outside of transactions: what is pending for the partition is older."""
        partitions = self._by_group.get(group_id)
        if partitions is None:
            return
        waiting = partitions.get((topic, partition))
        if waiting is not None:
            overtaken = tuple(Pending(one.producer_id, None) for one in waiting)
            self._undo.put(partitions, (topic, partition), overtaken)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """The partition's offset was deleted, with what is pending for it."""
        for pending in self._by_group.get(group_id, {}).get((topic, partition), ()):
            self._forget(pending.producer_id, group_id, topic, partition)
        self._set(group_id, topic, partition, ())

    def end(self, producer_id: int, *, is_commit: bool) -> list[tuple[str, str, int, OffsetCommitValue]]:
        """A producer's transaction has ended; returns the offsets that count now, none when it was aborted."""
        keys = self._by_producer.get(producer_id)
        if keys is None:
            return []
        self._undo.delete(self._by_producer, producer_id)
        counting = []
        for group_id, topic, partition in keys:
            waiting = self._by_group[group_id][topic, partition]
            index = next(index for index, one in enumerate(waiting) if one.producer_id == producer_id)
            before, ended, after = waiting[:index], waiting[index], waiting[index + 1 :]
            if is_commit and ended.value is not None:
                counting.append((group_id, topic, partition, ended.value))
                before = tuple(Pending(one.producer_id, None) for one in before)
            self._set(group_id, topic, partition, before + after)
        return counting

    def _set(self, group_id: str, topic: str, partition: int, waiting: tuple[Pending, ...]) -> None:
        partitions = self._by_group.get(group_id)
        if partitions is None or (topic, partition) not in partitions:
            return
        if waiting:
            self._undo.put(partitions, (topic, partition), waiting)
            return
        self._undo.delete(partitions, (topic, partition))
        if not partitions:
            self._undo.delete(self._by_group, group_id)

    def _forget(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        keys = self._by_producer[producer_id]
        self._undo.delete(keys, (group_id, topic, partition))
        if not keys:
            self._undo.delete(self._by_producer, producer_id)

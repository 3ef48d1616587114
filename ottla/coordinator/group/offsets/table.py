"""`OffsetTable`: the offsets that count, by group, topic and partition.

Promises: what is put and removed can be taken back; a group or topic without offsets takes no room. The value is the
record's own, so a commit costs no second object. Called by `offsets`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.machine import UndoLog
from ottla.wire.coordinator.offsets import OffsetCommitValue

PartitionOffsets = dict[int, OffsetCommitValue]
TopicOffsets = dict[str, PartitionOffsets]

_NOTHING: TopicOffsets = {}


class OffsetTable:
    """See the module."""

    __slots__ = ("_by_group", "_undo")

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._by_group: dict[str, TopicOffsets] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._by_group.values() for partitions in topics.values())

    def of_group(self, group_id: str) -> TopicOffsets:
        """All offsets of a group, to be read only."""
        return self._by_group.get(group_id, _NOTHING)

    def groups(self) -> Iterator[tuple[str, TopicOffsets]]:
        yield from self._by_group.items()

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        partitions = self.of_group(group_id).get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue) -> None:
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = {}
            self._undo.put(self._by_group, group_id, topics)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = {}
            self._undo.put(topics, topic, partitions)
        self._undo.put(partitions, partition, value)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Nothing happens when there is none."""
        topics = self._by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partition not in partitions:
            return
        self._undo.delete(partitions, partition)
        if not partitions:
            self._undo.delete(topics, topic)
            if not topics:
                self._undo.delete(self._by_group, group_id)

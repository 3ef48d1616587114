"""All topics and partitions, as the controller decides with them, and the indexes that find what an event concerns.

Promises: an event about a broker or a directory costs what its partitions cost, not what all partitions cost.
Replay only; the decisions are in `creation`, `elections`, `isr`, `reassignments` and `replica_dirs`.
"""

from __future__ import annotations

from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from ottla.machine import UndoDict, UndoLog
from ottla.metadata.builder import ReplayError
from ottla.metadata.directories import is_reserved
from ottla.metadata.partition import PartitionImage
from ottla.metadata.topic_names import metric_name
from ottla.types import Uuid
from ottla.wire.metadata import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

K = TypeVar("K")


class PartitionId(NamedTuple):
    """A partition by the id of its topic, which a new topic of the same name does not share."""

    topic_id: Uuid
    partition: int


class PartitionIndex(Generic[K]):
    """Sets of partitions by a key, in the order in which they were added."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self._sets: UndoDict[K, UndoDict[PartitionId, None]] = UndoDict(undo)

    def __getitem__(self, key: K) -> list[PartitionId]:
        return list(self._sets.get(key, ()))

    def first(self, key: K, count_max: int) -> list[PartitionId]:
        """Some of them, the first that were added."""
        return list(islice(self._sets.get(key, ()), count_max))

    def count(self, key: K) -> int:
        return len(self._sets.get(key, ()))

    def has_any(self, key: K) -> bool:
        return bool(self._sets.get(key))

    def move(self, partition: PartitionId, old: tuple[K, ...], new: tuple[K, ...]) -> None:
        """The partition was under the keys `old` and belongs under `new`."""
        if old == new:
            return
        for key in old:
            if key not in new:
                self._sets[key].pop(partition, None)
        for key in new:
            if key not in old:
                if key not in self._sets:
                    self._sets[key] = UndoDict(self._undo)
                self._sets[key][partition] = None


class Topic:
    """A topic and its partitions by index."""

    __slots__ = ("id", "name", "partitions")

    def __init__(self, name: str, topic_id: Uuid, undo: UndoLog) -> None:
        self.name = name
        self.id = topic_id
        self.partitions: UndoDict[int, PartitionImage] = UndoDict(undo)


class TopicControl:
    """Topics by name and id."""

    def __init__(self, undo: UndoLog) -> None:
        self._undo = undo
        self.by_name: UndoDict[str, Topic] = UndoDict(undo)
        self.by_id: UndoDict[Uuid, Topic] = UndoDict(undo)
        self.by_metric_name: UndoDict[str, tuple[str, ...]] = UndoDict(undo)
        """Topics whose metrics have the same name; one each, unless an old release allowed more."""
        self.in_isr: PartitionIndex[int] = PartitionIndex(undo)
        self.in_elr: PartitionIndex[int] = PartitionIndex(undo)
        self.led_by: PartitionIndex[int] = PartitionIndex(undo)
        """By leader; under `NO_LEADER` those that have none."""
        self.in_directory: PartitionIndex[Uuid] = PartitionIndex(undo)
        self.reassigning: UndoDict[PartitionId, None] = UndoDict(undo)
        self.imbalanced: UndoDict[PartitionId, None] = UndoDict(undo)
        """Partitions that their preferred replica does not lead."""

    def partition(self, key: PartitionId) -> tuple[Topic, PartitionImage]:
        topic = self.by_id[key.topic_id]
        return topic, topic.partitions[key.partition]

    # Replay

    def replay_topic(self, record: TopicRecord) -> None:
        if record.name in self.by_name:
            raise ReplayError(f"there is a topic {record.name} already, with id {self.by_name[record.name].id}")
        topic = Topic(record.name, record.topic_id, self._undo)
        self.by_name[record.name] = self.by_id[record.topic_id] = topic
        shown = metric_name(record.name)
        if shown is not None:
            self.by_metric_name[shown] = (*self.by_metric_name.get(shown, ()), record.name)

    def replay_partition(self, record: PartitionRecord) -> None:
        topic = self._topic(record.topic_id)
        self._put(topic, record.partition_id, PartitionImage.from_record(record))

    def replay_change(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"there is no partition {record.partition_id} of topic {topic.name}")
        self._put(topic, record.partition_id, partition.changed_by(record))

    def replay_remove(self, record: RemoveTopicRecord) -> Topic:
        """Forget a topic, and return it, because its settings go too."""
        topic = self._topic(record.topic_id)
        del self.by_id[topic.id]
        del self.by_name[topic.name]
        shown = metric_name(topic.name)
        if shown is not None:
            others = tuple(name for name in self.by_metric_name.get(shown, ()) if name != topic.name)
            if others:
                self.by_metric_name[shown] = others
            else:
                self.by_metric_name.pop(shown, None)
        for index, partition in topic.partitions.items():
            key = PartitionId(topic.id, index)
            self._index(key, partition, None)
            self.reassigning.pop(key, None)
            self.imbalanced.pop(key, None)
        return topic

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name and record.topic_name not in self.by_name:
            raise ReplayError(f"there is no topic {record.topic_name} to clear the eligible leaders of")
        topics = [self.by_name[record.topic_name]] if record.topic_name else list(self.by_name.values())
        for topic in topics:
            for index, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    self._put(topic, index, partition.changed_by(cleared))

    def _topic(self, topic_id: Uuid) -> Topic:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise ReplayError(f"there is no topic with id {topic_id}")
        return topic

    def _put(self, topic: Topic, index: int, new: PartitionImage) -> None:
        assert not set(new.isr) & set(new.elr), f"{topic.name}-{index}: a replica in sync is not also eligible: {new}"
        old = topic.partitions.get(index)
        topic.partitions[index] = new
        key = PartitionId(topic.id, index)
        self._index(key, old, new)
        _flag(self.reassigning, key, new.is_reassigning)
        _flag(self.imbalanced, key, not new.has_preferred_leader)

    def _index(self, key: PartitionId, old: PartitionImage | None, new: PartitionImage | None) -> None:
        self.in_isr.move(key, () if old is None else old.isr, () if new is None else new.isr)
        self.in_elr.move(key, () if old is None else old.elr, () if new is None else new.elr)
        self.led_by.move(key, () if old is None else (old.leader,), () if new is None else (new.leader,))
        if old is None or new is None or old.directories is not new.directories:
            self.in_directory.move(key, _real_directories(old), _real_directories(new))


def _flag(marked: UndoDict[PartitionId, None], key: PartitionId, is_so: bool) -> None:
    if is_so:
        marked[key] = None
    else:
        marked.pop(key, None)


def _real_directories(partition: PartitionImage | None) -> tuple[Uuid, ...]:
    if partition is None:
        return ()
    return tuple(directory for directory in partition.directories if not is_reserved(directory))

"""`StateTopics`: which partitions of a share group have state with the share coordinator, are getting it, or lose it.

A partition is assigned to members only once its state exists. What is begun is written first, so that a coordinator
that dies halfway, or its successor, begins it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata import Image
from ottla.types import Uuid

UNKNOWN_NAME = "<UNKNOWN>"
"""How a topic is written down that is not in the metadata any more."""


class StateTopic(NamedTuple):
    """Partitions of one topic. `since_ms` is this coordinator's: when it learned of them."""

    name: str
    partitions: frozenset[int]
    since_ms: int = -1


Topics = Mapping[Uuid, StateTopic]
PartitionSets = Mapping[Uuid, Collection[int]]


@dataclass(frozen=True, slots=True)
class StateTopics:
    """See the module."""

    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: frozenset[Uuid] = frozenset()

    def begun(self, topics: Topics) -> StateTopics:
        """The state of these is being made; what was being deleted of them is not any more."""
        initializing = combined(self.initializing, topics)
        return StateTopics(initializing, self.initialized, self.deleting.difference(initializing))

    def done(self, topics: Topics) -> StateTopics:
        """The state of these exists."""
        done = {topic_id: topic.partitions for topic_id, topic in topics.items()}
        return StateTopics(_without(self.initializing, done), combined(self.initialized, topics), self.deleting)

    def failed(self, partitions: PartitionSets) -> StateTopics:
        """The state of these could not be made."""
        return StateTopics(_without(self.initializing, partitions), self.initialized, self.deleting)

    def without_topics(self, topic_ids: Collection[Uuid]) -> StateTopics:
        """These topics are deleted."""
        return StateTopics(
            {key: topic for key, topic in self.initializing.items() if key not in topic_ids},
            {key: topic for key, topic in self.initialized.items() if key not in topic_ids},
            self.deleting.difference(topic_ids),
        )

    def has_any_of(self, topic_ids: Collection[Uuid]) -> bool:
        return any(key in topic_ids for key in (*self.initializing, *self.initialized, *self.deleting))

    def missing(self, names: Iterable[str], image: Image, *, now_ms: int, retry_ms: int) -> dict[Uuid, StateTopic]:
        """What has no state of the topics that members are subscribed to; begun long ago counts as not begun."""
        found: dict[Uuid, StateTopic] = {}
        by_name = image.topics.by_name
        for name in names:
            topic = by_name.get(name)
            if topic is None:
                continue
            known: frozenset[int] = frozenset()
            initialized, begun = self.initialized.get(topic.id), self.initializing.get(topic.id)
            if initialized is not None:
                known = initialized.partitions
                if len(known) >= len(topic.partitions):
                    continue
            if begun is not None and now_ms - begun.since_ms < retry_ms:
                known = known | begun.partitions
            if len(known) < len(topic.partitions):
                partitions = frozenset(range(len(topic.partitions))) - known
                found[topic.id] = StateTopic(name, partitions, now_ms)
        return found


def combined(known: Topics, new: Topics) -> dict[Uuid, StateTopic]:
    """The partitions of both; name and time are the newer ones."""
    found = dict(known)
    for topic_id, topic in new.items():
        before = found.get(topic_id)
        found[topic_id] = topic if before is None else topic._replace(partitions=before.partitions | topic.partitions)
    return found


def _without(topics: Topics, partitions: PartitionSets) -> dict[Uuid, StateTopic]:
    """What is left when these partitions are taken out."""
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions.difference(partitions.get(topic_id, ()))
        if left:
            found[topic_id] = topic._replace(partitions=left)
    return found

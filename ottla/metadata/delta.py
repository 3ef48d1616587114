"""`Delta`: what changed between two images, for those who act on changes only.

Promises: a delta names everything that differs and nothing that is the same object in both images. Called by
publishers; made by `ImageBuilder`, and by `between` for images that do not follow from each other record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ottla.metadata.image import ConfigResource, Image, TopicImage
from ottla.metadata.partition import PartitionImage
from ottla.metadata.registration import BrokerImage
from ottla.types import Uuid


class PartitionChange(NamedTuple):
    """A partition before, None for a new one, and after. Partitions go away only with their topic."""

    old: PartitionImage | None
    new: PartitionImage


class TopicChange(NamedTuple):
    """A topic before, None for a new one, and after."""

    old: TopicImage | None
    new: TopicImage

    @property
    def changed_partitions(self) -> dict[int, PartitionChange]:
        """The partitions that are new or different, by index."""
        old = {} if self.old is None else self.old.partitions
        return {
            index: PartitionChange(old.get(index), partition)
            for index, partition in self.new.partitions.items()
            if old.get(index) is not partition
        }


class BrokerChange(NamedTuple):
    """A broker before, None for a new one, and after, None for one that is gone."""

    old: BrokerImage | None
    new: BrokerImage | None


class ConfigChange(NamedTuple):
    """A resource's settings before and after; empty where it has none."""

    old: Mapping[str, str]
    new: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes from the image `old` to the image that is published with it."""

    old: Image
    changed_topics: Mapping[Uuid, TopicChange]
    """New and changed topics by id. One that was deleted and created again is in both tables, under its two ids."""
    deleted_topics: Mapping[Uuid, TopicImage]
    """Topics that are gone, as they were."""
    changed_brokers: Mapping[int, BrokerChange]
    changed_configs: Mapping[ConfigResource, ConfigChange]
    changed_features: Mapping[str, int]
    """Features at a new level; 0 for one that is no longer finalized."""
    is_snapshot: bool = False
    """Not a step from `old`: the image was read anew, or is a new publisher's first."""
    is_batch_aligned: bool = True
    """The image ends where a batch of the log ends, as a snapshot must."""


def between(
    old: Image,
    new: Image,
    *,
    topic_ids: Iterable[Uuid] | None = None,
    resources: Iterable[ConfigResource] | None = None,
    is_snapshot: bool = False,
    is_batch_aligned: bool = True,
) -> Delta:
    """The delta from one image to another. Who knows what was touched says so, and the rest is not looked at."""
    if topic_ids is None:
        topic_ids = _keys(old.topics.by_id, new.topics.by_id)
    if resources is None:
        resources = _keys(old.configs, new.configs)
    changed_topics: dict[Uuid, TopicChange] = {}
    deleted_topics: dict[Uuid, TopicImage] = {}
    for topic_id in topic_ids:
        before, after = old.topics.by_id.get(topic_id), new.topics.by_id.get(topic_id)
        if after is None:
            if before is not None:
                deleted_topics[topic_id] = before
        elif before is not after:
            changed_topics[topic_id] = TopicChange(before, after)
    changed_brokers = {
        broker_id: BrokerChange(old.brokers.get(broker_id), new.brokers.get(broker_id))
        for broker_id in _differing(old.brokers, new.brokers)
    }
    changed_configs = {
        key: ConfigChange(old.configs.get(key, {}), new.configs.get(key, {}))
        for key in resources
        if old.configs.get(key) != new.configs.get(key)
    }
    changed_features = {name: new.features.get(name, 0) for name in _differing(old.features, new.features)}
    return Delta(
        old=old,
        changed_topics=changed_topics,
        deleted_topics=deleted_topics,
        changed_brokers=changed_brokers,
        changed_configs=changed_configs,
        changed_features=changed_features,
        is_snapshot=is_snapshot,
        is_batch_aligned=is_batch_aligned,
    )


K = TypeVar("K")


def _keys(old: Mapping[K, object], new: Mapping[K, object]) -> list[K]:
    """The keys of both, in order and once each."""
    return [*old, *(key for key in new if key not in old)]


def _differing(old: Mapping[K, object], new: Mapping[K, object]) -> list[K]:
    if old is new:
        return []
    return [key for key in _keys(old, new) if key not in old or key not in new or old[key] != new[key]]

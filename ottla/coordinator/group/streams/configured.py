"""A topology held against the topics that exist: how many tasks it has, and which topics are to be made first.

Called by `heartbeat` when a group's topics or its topology have changed; what it finds is not kept in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.coordinator.group.assignors import HashOrder, text_hash
from ottla.coordinator.group.streams.assignor import SubtopologySpec
from ottla.coordinator.group.streams.partition_counts import decide_partition_counts
from ottla.coordinator.group.streams.status import Status, TopicProblem
from ottla.coordinator.group.streams.topology import Topology
from ottla.errors import UnknownServerError
from ottla.metadata import Image, check_topic_name
from ottla.wire.coordinator.streams_group import Subtopology, TopicInfo
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

log = logging.getLogger(__name__)

TOPICS_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that the application keeps for itself."""

    name: str
    partition_count: int
    replication_factor: int
    """0 for the controller's default."""
    configs: Mapping[str, str]

    def creatable(self) -> CreatableTopic:
        return CreatableTopic(
            name=self.name,
            num_partitions=self.partition_count,
            replication_factor=self.replication_factor or -1,
            configs=[CreatableTopicConfig(name, value) for name, value in self.configs.items()],
        )

    def described(self) -> described.TopicInfo:
        configs = [described.KeyValue(name, value) for name, value in self.configs.items()]
        return described.TopicInfo(self.name, self.partition_count, self.replication_factor, configs)


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with as many tasks as its largest source has partitions."""

    task_count: int
    source_topics: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    repartition_sinks: frozenset[str]
    changelogs: Mapping[str, InternalTopic]

    @property
    def spec(self) -> SubtopologySpec:
        return SubtopologySpec(self.task_count, is_stateful=bool(self.changelogs))

    def described(self, id: str) -> described.Subtopology:
        return described.Subtopology(
            subtopology_id=id,
            source_topics=sorted(self.source_topics),
            repartition_sink_topics=sorted(self.repartition_sinks),
            state_changelog_topics=[self.changelogs[name].described() for name in sorted(self.changelogs)],
            repartition_source_topics=[
                self.repartition_sources[name].described() for name in sorted(self.repartition_sources)
            ],
        )


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The result: subtopologies by id, in order, or why they are not known; and the topics that are missing."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    missing_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: TopicProblem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be assigned."""
        return self.problem is None

    def described(self) -> described.Topology:
        return described.Topology(self.epoch, [one.described(id) for id, one in self.subtopologies.items()])


def configure(subject: str, topology: Topology, image: Image) -> ConfiguredTopology:
    """Hold a topology against the image. `subject` is what log lines begin with."""
    try:
        found = _configure(topology, image)
    except TopicProblem as problem:
        log.warning("%s Topic configuration failed for topology epoch %d: %s", subject, topology.epoch, problem)
        return ConfiguredTopology(topology.epoch, problem=problem)
    if found.problem is None:
        log.info("%s The topics of topology epoch %d are complete; it is initialized.", subject, topology.epoch)
    else:
        log.info("%s The topics of topology epoch %d are valid, but not complete: %s", subject, topology.epoch,
                 found.problem)  # fmt: skip
    return found


def _configure(topology: Topology, image: Image) -> ConfiguredTopology:
    existing = image.topics.by_name
    missing = sorted(
        {topic for one in topology.subtopologies.values() for topic in one.source_topics if topic not in existing}
    )
    if missing:
        raise TopicProblem(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")
    counts = decide_partition_counts(topology.subtopologies.values(), image)
    subtopologies = {id: _subtopology(one, image, counts) for id, one in sorted(topology.subtopologies.items())}
    to_create = _missing(subtopologies, topology, image)
    problem = None
    if to_create:
        names = _summary(list(HashOrder(text_hash, to_create)))
        problem = TopicProblem(Status.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}")
    return ConfiguredTopology(topology.epoch, subtopologies, to_create, problem)


def _subtopology(one: Subtopology, image: Image, counts: Mapping[str, int]) -> ConfiguredSubtopology:
    existing = image.topics.by_name
    sources = (*one.source_topics, *(info.name for info in one.repartition_source_topics))
    return ConfiguredSubtopology(
        task_count=max(len(existing[topic].partitions) if topic in existing else counts[topic] for topic in sources),
        source_topics=frozenset(one.source_topics),
        repartition_sources={info.name: _internal(info, counts) for info in one.repartition_source_topics},
        repartition_sinks=frozenset(one.repartition_sink_topics),
        changelogs={info.name: _internal(info, counts) for info in one.state_changelog_topics},
    )


def _internal(info: TopicInfo, counts: Mapping[str, int]) -> InternalTopic:
    check_topic_name(info.name)
    partition_count = info.partitions or counts[info.name]
    if partition_count < 1:
        raise UnknownServerError("Number of partitions must be at least 1.")
    configs = {one.key: one.value for one in info.topic_configs}
    return InternalTopic(info.name, partition_count, info.replication_factor, configs)


def _missing(
    subtopologies: Mapping[str, ConfiguredSubtopology], topology: Topology, image: Image
) -> dict[str, InternalTopic]:
    wanted = {
        name: topic
        for one in subtopologies.values()
        for topics in (one.repartition_sources, one.changelogs)
        for name, topic in topics.items()
    }
    for name in sorted(topology.required_topics):
        existing = image.topics.by_name.get(name)
        expected = None if existing is None else wanted.pop(name, None)
        if existing is not None and expected is not None and len(existing.partitions) != expected.partition_count:
            raise TopicProblem(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {expected.partition_count}, "
                f"found {len(existing.partitions)}",
            )
    return wanted


def _summary(topics: list[str]) -> str:
    shown = ", ".join(topics[:TOPICS_SHOWN_MAX])
    more = len(topics) - TOPICS_SHOWN_MAX
    return f"{shown} and {more} additional topics" if more > 0 else shown

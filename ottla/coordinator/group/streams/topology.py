"""The topology of a Streams application: its subtopologies, and the topics that each reads, writes and keeps.

As a member has sent it and as the log keeps it (`StreamsGroupTopologyValue`), before anybody has looked which of the
topics exist: see `configured`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.wire.coordinator.streams_group import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages import streams_group_heartbeat as sent


@dataclass(frozen=True, slots=True)
class Topology:
    """See the module."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id."""
    source_subtopologies: Mapping[str, str] = field(compare=False)
    """The subtopology that reads a topic, the application's own repartition topics among them."""
    required_topics: frozenset[str] = field(compare=False)
    """What has to exist before the application can run."""

    @classmethod
    def of_record(cls, value: StreamsGroupTopologyValue) -> Topology:
        return cls.of(value.epoch, value.subtopologies)

    @classmethod
    def of(cls, epoch: int, subtopologies: list[Subtopology]) -> Topology:
        sources = {
            topic: one.subtopology_id
            for one in subtopologies
            for topic in (*one.source_topics, *(info.name for info in one.repartition_source_topics))
        }
        changelogs = {info.name for one in subtopologies for info in one.state_changelog_topics}
        return cls(
            epoch,
            {one.subtopology_id: one for one in subtopologies},
            sources,
            frozenset(sources | dict.fromkeys(changelogs)),
        )

    def described(self) -> described.Topology:
        """What StreamsGroupDescribe tells: the internal topics as they were asked for, most without partitions."""
        return described.Topology(
            epoch=self.epoch,
            subtopologies=[
                described.Subtopology(
                    subtopology_id=id,
                    source_topics=sorted(one.source_topics),
                    repartition_sink_topics=sorted(one.repartition_sink_topics),
                    state_changelog_topics=_described(one.state_changelog_topics),
                    repartition_source_topics=_described(one.repartition_source_topics),
                )
                for id, one in sorted(self.subtopologies.items())
            ],
        )


def topology_record(topology: sent.Topology) -> StreamsGroupTopologyValue:
    """What the log keeps of a topology that a member has sent."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=one.source_topics,
                source_topic_regex=one.source_topic_regex,
                state_changelog_topics=[_info(info) for info in one.state_changelog_topics],
                repartition_sink_topics=one.repartition_sink_topics,
                repartition_source_topics=[_info(info) for info in one.repartition_source_topics],
                copartition_groups=[
                    CopartitionGroup(group.source_topics, group.source_topic_regex, group.repartition_source_topics)
                    for group in one.copartition_groups
                ],
            )
            for one in topology.subtopologies
        ],
    )


def _info(info: sent.TopicInfo) -> TopicInfo:
    configs = [TopicConfig(one.key, one.value) for one in info.topic_configs]
    return TopicInfo(info.name, info.partitions, info.replication_factor, configs)


def _described(infos: list[TopicInfo]) -> list[described.TopicInfo]:
    return [
        described.TopicInfo(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=[described.KeyValue(one.key, one.value) for one in info.topic_configs],
        )
        for info in sorted(infos, key=lambda info: info.name)
    ]

"""How many partitions the topics of a topology have that the application makes for itself.

A repartition topic has the partitions it was asked for, or as many as the largest topic its writer reads; topics that
are joined must be partitioned alike, and those without a number of their own are made so; a changelog has a partition
for each task. Called by `configured`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.group.streams.status import Status, TopicProblem
from ottla.errors import StreamsInvalidTopology, UnknownServerError
from ottla.metadata import Image
from ottla.wire.coordinator.streams_group import Subtopology


def decide_partition_counts(subtopologies: Iterable[Subtopology], image: Image) -> dict[str, int]:
    """The partitions of each internal topic. All source topics that are not internal exist."""
    counts = _Counts(list(subtopologies), image)
    counts.decide_repartition_topics()
    counts.enforce_copartitioning()
    counts.decide_changelogs()
    return counts.decided


class _Counts:
    def __init__(self, subtopologies: list[Subtopology], image: Image) -> None:
        self.subtopologies = subtopologies
        self._topics = image.topics.by_name
        self.decided: dict[str, int] = {}

    def of(self, topic: str) -> int | None:
        """How many partitions a topic has, or will have."""
        existing = self._topics.get(topic)
        return self.decided.get(topic) if existing is None else len(existing.partitions)

    def known(self, topic: str) -> int:
        count = self.of(topic)
        if count is None:
            raise UnknownServerError(f"Number of partitions is not set for topic: {topic}")
        return count

    # Repartition topics

    def decide_repartition_topics(self) -> None:
        # Not into `decided` until all are: what this loop looks up are topics that exist.
        counts = {
            info.name: info.partitions
            for one in self.subtopologies
            for info in one.repartition_source_topics
            if info.partitions != 0
        }
        while True:
            is_missing = has_progressed = False
            for one in self.subtopologies:
                for sink in one.repartition_sink_topics:
                    if sink in counts:
                        continue
                    count = self._largest_source(one, counts)
                    if count is None:
                        is_missing = True
                    else:
                        counts[sink] = count
                        has_progressed = True
            if not is_missing:
                break
            if not has_progressed:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics. "
                    "There may be loops in the topology that cannot be resolved."
                )
        for one in self.subtopologies:
            if any(info.name not in counts for info in one.repartition_source_topics):
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics, because "
                    "a repartition source topic is never used as a sink topic."
                )
        self.decided.update(counts)

    def _largest_source(self, subtopology: Subtopology, counts: Mapping[str, int]) -> int | None:
        found = [counts[info.name] for info in subtopology.repartition_source_topics if info.name in counts]
        found += [count for topic in subtopology.source_topics if (count := self.of(topic)) is not None]
        return max(found, default=None)

    # Topics that are read together

    def enforce_copartitioning(self) -> None:
        infos = [info for one in self.subtopologies for info in one.repartition_source_topics]
        fixed = {info.name for info in infos if info.partitions != 0}
        flexible = {info.name for info in infos if info.partitions == 0}
        for one in self.subtopologies:
            for group in one.copartition_groups:
                internal = [info.name for info in one.repartition_source_topics]
                topics = _pick(one.source_topics, group.source_topics)
                topics += _pick(internal, group.repartition_source_topics)
                if topics:
                    self._enforce(topics, fixed, flexible)

    def _enforce(self, topics: list[str], fixed: set[str], flexible: set[str]) -> None:
        repartition = {topic: self.known(topic) for topic in topics if topic in fixed or topic in flexible}
        others = {topic: self.known(topic) for topic in topics if topic not in repartition}
        if others:
            wanted = _same(others.values(), others)
        elif fixed:
            wanted = _same((self.known(topic) for topic in fixed), repartition)
        else:
            wanted = max(repartition.values())
            if wanted == 0:
                raise StreamsInvalidTopology(
                    f"All topics in the copartition group had undefined partition number: {_list(repartition)}"
                )
        for topic, count in repartition.items():
            self.decided[topic] = wanted
            if topic in fixed and count != wanted:
                raise TopicProblem(
                    Status.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{count}] of repartition topic [{topic}] "
                    f"doesn't match number of partitions [{wanted}] of the source topic.",
                )

    # Changelogs

    def decide_changelogs(self) -> None:
        found: dict[str, int] = {}
        for one in self.subtopologies:
            sources = (*one.source_topics, *(info.name for info in one.repartition_source_topics))
            if not sources:
                raise StreamsInvalidTopology(f"No source topics found for subtopology {one.subtopology_id}")
            task_count = max(self.known(topic) for topic in sources)
            found.update((info.name, task_count) for info in one.state_changelog_topics)
        self.decided.update(found)


def _pick(topics: list[str], indexes: list[int]) -> list[str]:
    """The topics that a group of copartitioned ones names by their places."""
    if any(not 0 <= index < len(topics) for index in indexes):
        raise UnknownServerError(f"A copartition group names topics {indexes} of {len(topics)}")
    return [topics[index] for index in indexes]


def _same(counts: Iterable[int], told: Mapping[str, int]) -> int:
    """The number that all have."""
    distinct = set(counts)
    if len(distinct) > 1:
        text = ", ".join(f"{topic}={count}" for topic, count in sorted(told.items()))
        raise TopicProblem(
            Status.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{text}}}]",
        )
    return distinct.pop()


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"

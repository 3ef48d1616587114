"""Where the state of an application is, for interactive queries: the partitions behind each member's own endpoint.

Members that tell an endpoint of theirs (`application.server`) are told those of all others, and which topic partitions
each of them has, so that a query for a key can be sent to where the key is. Called by `heartbeat`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.group.streams.configured import ConfiguredSubtopology
from ottla.coordinator.group.streams.member import StreamsMember
from ottla.coordinator.group.streams.tasks import TaskMap
from ottla.metadata import Image
from ottla.wire.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


class EndpointTable:
    """What was told of each member, until its tasks or the topology change."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, EndpointToPartitions] = {}

    def forget(self, member_id: str) -> None:
        self._known.pop(member_id, None)

    def clear(self) -> None:
        self._known.clear()

    def told(
        self, members: Iterable[StreamsMember], subtopologies: Mapping[str, ConfiguredSubtopology], image: Image
    ) -> list[EndpointToPartitions]:
        """The partitions of each member that has an endpoint."""
        found = []
        for member in members:
            if member.user_endpoint is None:
                continue
            known = self._known.get(member.id)
            if known is None:
                known = self._known[member.id] = _partitions(member, subtopologies, image)
            found.append(known)
        return found


def _partitions(
    member: StreamsMember, subtopologies: Mapping[str, ConfiguredSubtopology], image: Image
) -> EndpointToPartitions:
    endpoint = member.user_endpoint
    assert endpoint is not None, f"member {member.id} has no endpoint"
    active = {id: frozenset(epochs) for id, epochs in member.assigned.active.items()}
    return EndpointToPartitions(
        user_endpoint=Endpoint(endpoint.host, endpoint.port),
        active_partitions=_topic_partitions(active, subtopologies, image),
        standby_partitions=_topic_partitions(member.assigned.standby, subtopologies, image),
    )


def _topic_partitions(
    tasks: TaskMap, subtopologies: Mapping[str, ConfiguredSubtopology], image: Image
) -> list[TopicPartition]:
    """The partitions that the tasks read. Topics that are gone meanwhile have none."""
    found = []
    for id, partitions in tasks.items():
        subtopology = subtopologies.get(id)
        if subtopology is None:
            continue
        for name in sorted(subtopology.source_topics | subtopology.repartition_sources.keys()):
            topic = image.topics.by_name.get(name)
            if topic is not None:
                # A topic with fewer partitions than its subtopology has tasks gives only the first ones any.
                found.append(TopicPartition(name, sorted(partitions)[: len(topic.partitions)]))
    return found

"""The names of topics that a coordinator assigns by id: from what is known of the cluster, else looked up by id.

Called by the memberships of both new protocols. A topic that cannot be named yet is very new, or already gone.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from ottla.client.group.context import Coordination
from ottla.client.network import Build
from ottla.errors import KafkaError
from ottla.types import Uuid
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger(__name__)

METADATA_KEY = 3
BY_ID_VERSION = 12


class TopicNames:
    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self.known: dict[Uuid, str] = {}
        """The names of what was asked for last."""

    async def resolve(self, topic_ids: Collection[Uuid]) -> dict[Uuid, str]:
        """The names, as far as they can be had now."""
        metadata = self._coordination.metadata
        found = {topic_id: name for topic_id, name in self.known.items() if topic_id in topic_ids}
        names = metadata.cluster.topic_names
        found.update({topic_id: names[topic_id] for topic_id in topic_ids if topic_id in names})
        missing = [topic_id for topic_id in topic_ids if topic_id not in found]
        if missing:
            found.update(await self._look_up(missing))
        self.known = found
        metadata.add_topics(found.values())
        return found

    async def _look_up(self, topic_ids: Iterable[Uuid]) -> dict[Uuid, str]:
        network = self._coordination.network
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        try:
            response: MetadataResponse = await network.send(
                network.least_loaded(), Build(METADATA_KEY, lambda _: request, BY_ID_VERSION)
            )
        except KafkaError as error:
            log.info("[%s] The names of assigned topics could not be looked up: %s", self._coordination.name, error)
            return {}
        return {Uuid(one.topic_id): one.name for one in response.topics if not one.error_code and one.name}

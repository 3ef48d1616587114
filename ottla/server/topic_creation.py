"""Topics that come into being because somebody asked for them: Kafka's automatic creation.

The controller is asked once for each topic, however many clients want it meanwhile. Nobody waits: clients are told that
the topic is not known yet, and ask again. Called by Metadata and FindCoordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, error_class
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.server.broker import Broker

log = logging.getLogger(__name__)

CREATE_TOPICS_VERSION = 7

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"


class TopicCreation:
    """The topics that are being created right now, and how internal ones are made."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._in_flight: dict[str, None] = {}

    def create(self, names: Iterable[str]) -> None:
        """Ask the controller for those that are not on their way already. The names must be valid ones."""
        wanted = [name for name in names if name not in self._in_flight]
        if wanted:
            self._in_flight.update(dict.fromkeys(wanted))
            self._broker.world.tasks.spawn(self._create(wanted), f"creation of {len(wanted)} topics")

    async def _create(self, names: list[str]) -> None:
        request = CreateTopicsRequest(
            topics=[self.creatable(name) for name in names], timeout_ms=self._broker.config.request_timeout_ms
        )
        log.info("[TopicCreation] Asked the controller for %s", ", ".join(names))
        try:
            response = await self._broker.controller.send(request, version=CREATE_TOPICS_VERSION)
            assert isinstance(response, CreateTopicsResponse), f"{response.schema.name} answers CreateTopics"
            for topic in response.topics:
                if topic.error_code:
                    name = error_class(topic.error_code).name
                    log.warning("[TopicCreation] %s was not created: %s %s", topic.name, name, topic.error_message)
        except KafkaError as error:
            log.warning("[TopicCreation] %s were not created: %s", ", ".join(names), error)
        finally:
            for name in names:
                del self._in_flight[name]

    def creatable(self, name: str) -> CreatableTopic:
        """How a topic is to be made: internal ones by their own settings, others by the controller's defaults."""
        config = self._broker.config
        if name == GROUP_TOPIC:
            return _topic(
                name,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        if name == TRANSACTION_TOPIC:
            return _topic(
                name,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            )
        if name == SHARE_TOPIC:
            return _topic(
                name,
                config.share_coordinator_state_topic_num_partitions,
                config.share_coordinator_state_topic_replication_factor,
                {
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                    "retention.ms": "-1",
                    "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                },
            )
        given = config.originals
        return _topic(
            name,
            config.num_partitions if "num.partitions" in given else -1,
            config.default_replication_factor if "default.replication.factor" in given else -1,
            {},
        )


def _topic(name: str, partition_count: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(key, value) for key, value in configs.items()],
    )

"""Topics that come into being because somebody asked for them: Kafka's automatic creation.

The controller is asked once for each topic, however many clients want it meanwhile. Nobody waits: clients are told that
the topic is not known yet, and ask again. Called by Metadata and FindCoordinator, and by StreamsGroupHeartbeat for the
topics that a Streams application keeps for itself: those are asked for as the application wants them, and when the
controller refuses one, that is remembered for a while: members are told why they wait, and it is not asked again.
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
    from ottla.server.broker import BrokerServices

log = logging.getLogger(__name__)

CREATE_TOPICS_VERSION = 7

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"

REFUSALS_MAX = 1000
"""How many refusals are remembered; the one that would be forgotten first makes room."""


class TopicCreation:
    """The topics that are being created right now, and how internal ones are made."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._in_flight: dict[str, None] = {}
        self._refusals: dict[str, tuple[float, str]] = {}
        """Until when, and why the controller did not make a topic."""

    def create(self, names: Iterable[str]) -> None:
        """Ask the controller for those that are not on their way already. The names must be valid ones."""
        wanted = [name for name in names if name not in self._in_flight]
        if wanted:
            self._in_flight.update(dict.fromkeys(wanted))
            topics = [self.creatable(name) for name in wanted]
            self._broker.node.world.tasks.spawn(self._create(topics), f"creation of {len(wanted)} topics")

    def create_for_streams(self, topics: Iterable[CreatableTopic], *, remember_ms: int) -> None:
        """Ask for topics as they are told, but for those on their way and those that were refused of late."""
        now_ms = self._broker.node.world.clock.monotonic_ms()
        wanted = [
            topic
            for topic in topics
            if topic.name not in self._in_flight and self._refusals.get(topic.name, (0.0, ""))[0] <= now_ms
        ]
        if wanted:
            self._in_flight.update(dict.fromkeys(topic.name for topic in wanted))
            self._broker.node.world.tasks.spawn(self._create(wanted, remember_ms), f"creation of {len(wanted)} topics")

    def refusals(self, names: Iterable[str]) -> dict[str, str]:
        """Why those of the topics that were refused of late were not made."""
        now_ms = self._broker.node.world.clock.monotonic_ms()
        found = {name: self._refusals[name] for name in names if name in self._refusals}
        return {name: reason for name, (until_ms, reason) in found.items() if until_ms > now_ms}

    async def _create(self, topics: list[CreatableTopic], remember_ms: int = 0) -> None:
        names = [topic.name for topic in topics]
        request = CreateTopicsRequest(topics=topics, timeout_ms=self._broker.node.config.request_timeout_ms)
        log.info("[TopicCreation] Asked the controller for %s", ", ".join(names))
        try:
            response = await self._broker.controller.send(request, version=CREATE_TOPICS_VERSION)
            assert isinstance(response, CreateTopicsResponse), f"{response.schema.name} answers CreateTopics"
            for topic in response.topics:
                if topic.error_code:
                    error_type = error_class(topic.error_code)
                    log.warning(
                        "[TopicCreation] %s was not created: %s %s", topic.name, error_type.name, topic.error_message
                    )
                    self._refuse(topic.name, topic.error_message or error_type().message, remember_ms)
        except KafkaError as error:
            log.warning("[TopicCreation] %s were not created: %s", ", ".join(names), error)
            for name in names:
                self._refuse(name, error.message, remember_ms)
        finally:
            for name in names:
                del self._in_flight[name]

    def _refuse(self, name: str, reason: str, remember_ms: int) -> None:
        if not remember_ms:
            return
        now_ms = self._broker.node.world.clock.monotonic_ms()
        self._refusals[name] = now_ms + remember_ms, reason
        self._refusals = {name: one for name, one in self._refusals.items() if one[0] > now_ms}
        if len(self._refusals) > REFUSALS_MAX:
            del self._refusals[min(self._refusals, key=lambda name: self._refusals[name][0])]

    def creatable(self, name: str) -> CreatableTopic:
        """How a topic is to be made: internal ones by their own settings, others by the controller's defaults."""
        config = self._broker.node.config
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

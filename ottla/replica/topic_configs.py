"""The settings of each topic's log on this node: the broker's, what the cluster changed of them, the topic's own.

Promises: the same settings are the same object for all topics without own ones, so a thousand topics cost one table.
Precedence is Kafka's: the topic's own, then this broker's dynamic ones, then the cluster-wide dynamic ones, then
server.properties. A setting in the metadata that cannot be read is left out with a warning: it was valid for whoever
wrote it, and a log must open. Called by `manager` and, through `of`, by the log manager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.config import DynamicConfig, LogConfig
from ottla.errors import InvalidConfig
from ottla.metadata import BROKER, TOPIC, Image

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

log = logging.getLogger(__name__)


class TopicConfigs:
    def __init__(self, config: BrokerConfig, node_id: int) -> None:
        self._config = config
        self._node_id = node_id
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self._own: dict[str, Mapping[str, str]] = {}
        self.broker = config
        """The broker's settings as the metadata has changed them."""
        self.defaults = config.log_config()
        """What a topic without own settings has."""

    def of(self, topic: str) -> LogConfig:
        """The settings of a topic's logs."""
        own = self._own.get(topic)
        if not own:
            return self.defaults
        try:
            return self.defaults.with_topic(own)
        except InvalidConfig as error:
            log.warning("[TopicConfigs %s] %s; the other settings of the topic are taken", topic, error)
            return self._what_can_be_read(topic, own)

    def _what_can_be_read(self, topic: str, own: Mapping[str, str]) -> LogConfig:
        config = self.defaults
        for name, value in own.items():
            try:
                config = config.with_topic({name: value})
            except InvalidConfig as error:
                log.warning("[TopicConfigs %s] Leaving out %s=%s: %s", topic, name, value, error)
        return config

    def update(self, image: Image) -> bool:
        """Read the settings of `image`; whether the defaults of all topics changed."""
        self._own = {name: settings for (kind, name), settings in image.configs.items() if kind == TOPIC}
        dynamic = (image.config_of(BROKER, ""), image.config_of(BROKER, str(self._node_id)))
        if dynamic == self._dynamic:
            return False
        self._dynamic = dynamic
        self.broker = DynamicConfig(self._config, *dynamic).current  # the server logs what cannot be used of them
        self.defaults = self.broker.log_config()
        return True

"""The rules of settings, from the tables of `ottla.config`, as the controller asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.config import (
    BrokerConfig,
    ClientMetricsConfig,
    ConfigType,
    DynamicConfig,
    GroupConfig,
    LogConfig,
    Setting,
    describe_topic,
    refuse_unserved_changes,
    validate_client_metrics,
    validate_group,
    validate_topic,
)
from ottla.metadata.control.configs import TopicSetting
from ottla.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource


class TableRules:
    """`ConfigRules` of a controller whose own settings are `config`."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        # Made anew when the dynamic settings are others; topics are created far more often.
        self._dynamic = DynamicConfig(config)
        self._node: Mapping[str, str] = {}
        self._cluster: Mapping[str, str] = {}

    def validate(self, resource: ConfigResource, settings: Mapping[str, str], existing: Mapping[str, str]) -> None:
        kind, name = resource
        if kind == TOPIC:
            validate_topic(settings, broker=self._config, existing=existing)
        elif kind == GROUP:
            validate_group(settings, self._config)
        elif kind == CLIENT_METRICS:
            validate_client_metrics(name, settings)
        # A broker's own settings are checked by the broker that is asked, which knows its file.

    def check_broker_changes(self, changed: Mapping[str, str | None]) -> None:
        # Here and not by the broker that is asked: a request may come through a controller's listener as well.
        refuse_unserved_changes(changed)

    def is_list(self, resource_type: int, name: str) -> bool:
        setting = _setting(resource_type, name)
        return setting is not None and setting.type is ConfigType.LIST

    def default(self, resource_type: int, name: str) -> str | None:
        setting = _setting(resource_type, name)
        if setting is None or setting.default is None:
            return None
        return ",".join(setting.default) if isinstance(setting.default, tuple) else str(setting.default)

    def static(self, name: str) -> str:
        value = self._config.value_of(name)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def effective_topic(
        self, overrides: Mapping[str, str], *, node: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[TopicSetting]:
        if node is not self._node or cluster is not self._cluster:
            self._node, self._cluster = node, cluster
            self._dynamic = DynamicConfig(self._config, cluster, node)
        return [
            TopicSetting(entry.name, entry.value, int(entry.source), entry.is_sensitive)
            for entry in describe_topic(overrides, self._dynamic)
        ]


def _setting(resource_type: int, name: str) -> Setting[Any] | None:
    tables: dict[int, Mapping[str, Setting[Any]]] = {
        TOPIC: LogConfig.topic_settings,
        BROKER: BrokerConfig.settings,
        GROUP: GroupConfig.settings,
        CLIENT_METRICS: ClientMetricsConfig.settings,
    }
    return tables.get(resource_type, {}).get(name)

"""What DescribeConfigs answers: each setting's value, where it comes from, and what would hold without that.

Promises: value, source, type, sensitivity, whether it can be changed, and the synonyms in their order are what Kafka
4.3 answers for the same settings (a test compares them with what a real one said). The documentation is our own.
Called by the handler of DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.broker.synonyms import broker_synonyms
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.dynamic import DYNAMIC_SETTINGS, DynamicConfig
from ottla.config.group import GroupConfig
from ottla.config.log import LogConfig
from ottla.config.table import Setting
from ottla.config.values import ConfigType, spell


class ConfigSource(IntEnum):
    """Where a value comes from, as the protocol numbers it."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that has a value for a setting, maybe under another name; the first of them is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting in an answer. The value of a sensitive one is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def describe_topic(overrides: Mapping[str, str], broker: DynamicConfig) -> list[ConfigEntry]:
    """A topic's settings; `overrides` are its own. By name."""
    config = broker.current.log_config().with_topic(overrides)
    entries = []
    for name, setting in LogConfig.topic_settings.items():
        if setting.internal and name not in overrides:
            continue
        value = spell(config.value_of(setting.name))
        synonyms = _with_override(name, value, ConfigSource.TOPIC, overrides, _broker_values(setting.name, broker))
        entries.append(_entry(name, value, synonyms, setting))
    return sorted(entries, key=_by_name)


def describe_broker(broker: DynamicConfig) -> list[ConfigEntry]:
    """All settings of a broker, with the names that are not Kafka's but were given. By name."""
    current = broker.current
    shown = {name: spell(current.value_of(name)) for name, one in current.settings.items() if not one.internal}
    for name, given in current.originals.items():
        shown.setdefault(name, given)
    return [_broker_entry(name, shown[name], _broker_values(name, broker)) for name in sorted(shown)]


def describe_broker_defaults(broker: DynamicConfig) -> list[ConfigEntry]:
    """What the metadata log has for all brokers, which DescribeConfigs calls the broker with no name. By name."""
    entries = []
    for name in sorted(broker.cluster):
        values = [one for one in _broker_values(name, broker) if one.source is ConfigSource.DYNAMIC_DEFAULT_BROKER]
        entries.append(_broker_entry(name, broker.cluster[name], values))
    return entries


def describe_group(overrides: Mapping[str, str], broker: DynamicConfig) -> list[ConfigEntry]:
    """A group's settings; `overrides` are its own. By name."""
    config = GroupConfig.of(overrides, broker.current)
    entries = []
    for name, setting in GroupConfig.settings.items():
        value = spell(config.value_of(name))
        if GroupConfig.broker_name(name) is not None:
            below = _broker_values(f"group.{name}", broker)
        else:
            below = [ConfigSynonym(name, spell(setting.default), ConfigSource.DEFAULT)]
        entries.append(_entry(name, value, _with_override(name, value, ConfigSource.GROUP, overrides, below), setting))
    return sorted(entries, key=_by_name)


def describe_client_metrics(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """The settings of a subscription to clients' metrics. By name."""
    config = ClientMetricsConfig(overrides)
    entries = []
    for name, setting in ClientMetricsConfig.settings.items():
        value = spell(config.value_of(name))
        synonyms = _with_override(name, value, ConfigSource.CLIENT_METRICS, overrides, [])
        entries.append(_entry(name, value, synonyms, setting))
    return sorted(entries, key=_by_name)


def _by_name(entry: ConfigEntry) -> str:
    return entry.name


def _with_override(
    name: str, value: str | None, source: ConfigSource, overrides: Mapping[str, str], below: list[ConfigSynonym]
) -> list[ConfigSynonym]:
    return [ConfigSynonym(name, value, source), *below] if name in overrides else below


def _entry(name: str, value: str | None, synonyms: list[ConfigSynonym], setting: Setting[Any]) -> ConfigEntry:
    """An entry of a topic, a group or a subscription: nothing secret, and everything can be changed."""
    return ConfigEntry(
        name=name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=False,
        read_only=False,
        synonyms=tuple(synonyms),
        type=setting.type,
        documentation=setting.doc,
    )


def _broker_entry(name: str, value: str | None, synonyms: list[ConfigSynonym]) -> ConfigEntry:
    is_sensitive = _is_sensitive(name)
    setting = _setting(name)
    return ConfigEntry(
        name=name,
        value=None if is_sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=is_sensitive,
        read_only=name not in DYNAMIC_SETTINGS,
        synonyms=tuple(synonyms),
        type=_type(name),
        documentation=setting.doc if setting else None,
    )


def _broker_values(name: str, broker: DynamicConfig) -> list[ConfigSynonym]:
    """Every value there is for a broker's setting, the strongest first."""
    hidden = _is_sensitive(name)
    found = [
        ConfigSynonym(synonym, None if hidden else values[synonym], source)
        for source, values in _places(broker)
        for synonym in broker_synonyms(name)
        if synonym in values
    ]
    # What stands before the setting's own name belongs to a stronger synonym, which is described by itself.
    first = next((index for index, one in enumerate(found) if one.name == name), len(found))
    return found[first:]


def _places(broker: DynamicConfig) -> Iterator[tuple[ConfigSource, Mapping[str, str]]]:
    yield ConfigSource.DYNAMIC_BROKER, broker.own
    yield ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.cluster
    yield ConfigSource.STATIC_BROKER, broker.static.originals
    yield ConfigSource.DEFAULT, _DEFAULTS


_DEFAULTS: dict[str, str] = {
    name: text
    for name, setting in BrokerConfig.settings.items()
    if not setting.required and (text := spell(setting.default)) is not None
}


def _setting(name: str) -> Setting[Any] | None:
    return BrokerConfig.settings.get(name) or DYNAMIC_SETTINGS.get(name)


def _type(name: str) -> ConfigType:
    for synonym in (name, *broker_synonyms(name)):
        setting = _setting(synonym)
        if setting is not None:
            return setting.type
    return ConfigType.UNKNOWN


def _is_sensitive(name: str) -> bool:
    """A password, or a name nobody knows: it could be one."""
    return _type(name) in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

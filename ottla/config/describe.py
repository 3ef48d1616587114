"""What DescribeConfigs answers: each setting's value, where it comes from, and what would hold without that.

Promises: value, source, type, sensitivity, whether it can be changed, and the synonyms in their order are what Kafka
4.3 answers for the same settings (a test compares them with what a real one said). The documentation is our own.
Called by the handler of DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

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


class ConfigSynonym(NamedTuple):
    """A place that has a value for a setting, maybe under another name; the first of them is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
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
    entries = _memory(broker).topic
    if not overrides:
        return list(entries.values())
    config = broker.current.log_config().with_topic(overrides)
    described = dict(entries)
    for name in overrides:
        setting = LogConfig.topic_settings[name]
        below = entries[name].synonyms if name in entries else ()
        value = spell(config.value_of(setting.name))
        described[name] = _entry(name, value, [ConfigSynonym(name, value, ConfigSource.TOPIC), *below], setting)
    return sorted(described.values(), key=_by_name)


def describe_broker(broker: DynamicConfig) -> list[ConfigEntry]:
    """All settings of a broker, with the names that are not Kafka's but were given. By name."""
    memory = _memory(broker)
    if not memory.broker:
        current = broker.current
        shown = {name: spell(current.value_of(name)) for name, one in current.settings.items() if not one.internal}
        for name, given in current.originals.items():
            shown.setdefault(name, given)
        memory.broker = [_broker_entry(name, shown[name], _broker_values(name, broker)) for name in sorted(shown)]
    return list(memory.broker)


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


class _Memory:
    """What was described of a `DynamicConfig`, which never changes: a topic that is created is described each time."""

    def __init__(self, broker: DynamicConfig) -> None:
        defaults = broker.current.log_config()
        entries = [
            _entry(name, spell(defaults.value_of(setting.name)), _broker_values(setting.name, broker), setting)
            for name, setting in LogConfig.topic_settings.items()
            if not setting.internal
        ]
        self.topic = {entry.name: entry for entry in sorted(entries, key=_by_name)}
        """Of a topic without overrides, by name."""
        self.broker: list[ConfigEntry] = []


_MEMORIES: WeakKeyDictionary[DynamicConfig, _Memory] = WeakKeyDictionary()


def _memory(broker: DynamicConfig) -> _Memory:
    memory = _MEMORIES.get(broker)
    if memory is None:
        memory = _MEMORIES[broker] = _Memory(broker)
    return memory


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
    synonyms = broker_synonyms(name)
    places = (
        (ConfigSource.DYNAMIC_BROKER, broker.own),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.cluster),
        (ConfigSource.STATIC_BROKER, broker.static.originals),
        (ConfigSource.DEFAULT, _DEFAULTS),
    )
    found = [
        ConfigSynonym(synonym, None if hidden else values[synonym], source)
        for source, values in places
        for synonym in synonyms
        if synonym in values
    ]
    # What stands before the setting's own name belongs to a stronger synonym, which is described by itself.
    first = next((index for index, one in enumerate(found) if one.name == name), len(found))
    return found[first:]


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

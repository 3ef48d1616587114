"""Settings: one table is the truth for a setting's name, type, default, bounds, topic-level name and documentation.

What only a broker needs is imported when it is first asked for: a tool that reads log files has no use for the 360
settings of a node.
"""

from typing import TYPE_CHECKING

from ottla.config.cleaner import CleanerConfig
from ottla.config.log import CleanupPolicy, LogConfig
from ottla.config.properties import MalformedEscape, format_property, read_properties
from ottla.config.table import ConfigTable, Setting
from ottla.config.values import ConfigType, Password, spell
from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.config.broker import (
        FIXED_AT_START,
        NOT_ACTED_ON,
        RACK_AWARE_SELECTOR,
        BrokerConfig,
        ListenerSpec,
        Voter,
        is_unserved,
        names_without_effect,
        refuse_unserved_changes,
        start_warnings,
        unserved_security,
    )
    from ottla.config.client_metrics import ClientMetricsConfig, parse_match, validate_client_metrics
    from ottla.config.describe import (
        ConfigEntry,
        ConfigSource,
        ConfigSynonym,
        describe_broker,
        describe_broker_defaults,
        describe_client_metrics,
        describe_group,
        describe_topic,
    )
    from ottla.config.durations import duration_ms
    from ottla.config.dynamic import DynamicConfig, validate_dynamic
    from ottla.config.group import GroupConfig, validate_group
    from ottla.config.topic import validate_topic

_LAZY = {
    "broker": (
        "FIXED_AT_START",
        "NOT_ACTED_ON",
        "RACK_AWARE_SELECTOR",
        "BrokerConfig",
        "ListenerSpec",
        "Voter",
        "is_unserved",
        "names_without_effect",
        "refuse_unserved_changes",
        "start_warnings",
        "unserved_security",
    ),
    "client_metrics": ("ClientMetricsConfig", "parse_match", "validate_client_metrics"),
    "describe": (
        "ConfigEntry",
        "ConfigSource",
        "ConfigSynonym",
        "describe_broker",
        "describe_broker_defaults",
        "describe_client_metrics",
        "describe_group",
        "describe_topic",
    ),
    "durations": ("duration_ms",),
    "dynamic": ("DynamicConfig", "validate_dynamic"),
    "group": ("GroupConfig", "validate_group"),
    "topic": ("validate_topic",),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "FIXED_AT_START",
    "NOT_ACTED_ON",
    "RACK_AWARE_SELECTOR",
    "BrokerConfig",
    "CleanerConfig",
    "CleanupPolicy",
    "ClientMetricsConfig",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigTable",
    "ConfigType",
    "DynamicConfig",
    "GroupConfig",
    "ListenerSpec",
    "LogConfig",
    "MalformedEscape",
    "Password",
    "Setting",
    "Voter",
    "describe_broker",
    "describe_broker_defaults",
    "describe_client_metrics",
    "describe_group",
    "describe_topic",
    "duration_ms",
    "format_property",
    "is_unserved",
    "names_without_effect",
    "parse_match",
    "read_properties",
    "refuse_unserved_changes",
    "spell",
    "start_warnings",
    "unserved_security",
    "validate_client_metrics",
    "validate_dynamic",
    "validate_group",
    "validate_topic",
]

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

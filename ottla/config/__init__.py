"""Settings: one table is the truth for a setting's name, type, default, bounds, topic-level name and documentation."""

from ottla.config.broker import NOT_ACTED_ON, BrokerConfig, ListenerSpec, Voter, names_without_effect
from ottla.config.cleaner import CleanerConfig
from ottla.config.client_metrics import ClientMetricsConfig, validate_client_metrics
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
from ottla.config.dynamic import DynamicConfig, validate_dynamic
from ottla.config.group import GroupConfig, validate_group
from ottla.config.log import CleanupPolicy, LogConfig
from ottla.config.properties import MalformedEscape, format_property, read_properties
from ottla.config.table import ConfigTable, Setting
from ottla.config.topic import validate_topic
from ottla.config.values import ConfigType, Password

__all__ = [
    "NOT_ACTED_ON",
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
    "format_property",
    "names_without_effect",
    "read_properties",
    "validate_client_metrics",
    "validate_dynamic",
    "validate_group",
    "validate_topic",
]

"""Settings of topics, brokers, loggers, groups and client metrics: describe, change one by one, list who has any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.driver import Call, Driver, check, failure
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import Route
from ottla.client.network import Build
from ottla.errors import KafkaError, NotController, UnsupportedVersion
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

DESCRIBE_CONFIGS_KEY = 32
LIST_CONFIG_RESOURCES_KEY = 74


class ConfigResourceType(IntEnum):
    """What can have settings, as the protocol numbers it."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def _missing_(cls, value: object) -> ConfigResourceType:
        return cls.UNKNOWN


class ConfigResource(NamedTuple):
    """Whose settings: a topic, a group, a broker by its id, or all brokers by an empty name."""

    type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, broker_id: int | str) -> ConfigResource:
        return cls(ConfigResourceType.BROKER, str(broker_id))

    @classmethod
    def broker_defaults(cls) -> ConfigResource:
        """What holds for every broker that has no value of its own."""
        return cls(ConfigResourceType.BROKER, "")

    @classmethod
    def broker_logger(cls, broker_id: int | str) -> ConfigResource:
        return cls(ConfigResourceType.BROKER_LOGGER, str(broker_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ConfigResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        return cls(ConfigResourceType.CLIENT_METRICS, name)

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '<default>'}"


class ConfigSource(IntEnum):
    """Where a value comes from, as the protocol numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(IntEnum):
    """The type of a value, as the protocol numbers it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A place that has a value for a setting, maybe under another name; the first of them is the one that holds."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting and its value; the value of a sensitive one is not told."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it, anywhere."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterConfigOp(NamedTuple):
    """One change of one setting; `append` and `subtract` are for settings that are lists."""

    name: str
    value: str | None
    operation: int

    @classmethod
    def set(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, 0)

    @classmethod
    def delete(cls, name: str) -> AlterConfigOp:
        """Back to what holds without it."""
        return cls(name, None, 1)

    @classmethod
    def append(cls, name: str, value: str) -> AlterConfigOp:
        """Add to a list what is not in it yet; several with commas between."""
        return cls(name, value, 2)

    @classmethod
    def subtract(cls, name: str, value: str) -> AlterConfigOp:
        return cls(name, value, 3)


Config = dict[str, ConfigEntry]
"""All settings of a resource, by name."""


def _node_of(resource: ConfigResource) -> int | None:
    """Settings of a broker, and its loggers, are that broker's to tell and to change; the rest is everybody's."""
    is_brokers = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return int(resource.name) if is_brokers and resource.name.isdecimal() else None


def describe_configs(
    driver: Driver,
    resources: Iterable[ConfigResource],
    *,
    names: Iterable[str] | None,
    include_synonyms: bool,
    include_documentation: bool,
    timeout: float | None,
) -> Outcomes[ConfigResource, Config]:
    wanted = None if names is None else list(names)

    def build(node_id: int, keys: list[ConfigResource]) -> Build:
        def make(version: int) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=key.type, resource_name=key.name, configuration_keys=wanted)
                    for key in keys
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation and version >= 3,  # older brokers have none to tell
            )

        return Build(DESCRIBE_CONFIGS_KEY, make)

    def read(
        node_id: int, keys: list[ConfigResource], response: DescribeConfigsResponse
    ) -> Iterable[tuple[ConfigResource, Config | KafkaError]]:
        for one in response.results:
            key = ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)
            yield key, failure(one.error_code, one.error_message) or {each.name: _entry(each) for each in one.configs}

    route: Route[ConfigResource] = driver.node_of(_node_of, NotController)
    return driver.drive(Call("DescribeConfigs", route, build, read), resources, timeout)


def _entry(told: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        told.name,
        told.value,
        ConfigSource(told.config_source),
        told.is_sensitive,
        told.read_only,
        tuple(ConfigSynonym(one.name, one.value, ConfigSource(one.source)) for one in told.synonyms),
        ConfigType(told.config_type),
        told.documentation,
    )


def incremental_alter_configs(
    driver: Driver,
    changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
    *,
    validate_only: bool,
    timeout: float | None,
) -> Outcomes[ConfigResource, None]:
    wanted = {resource: list(ops) for resource, ops in changes.items()}

    def build(node_id: int, keys: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=key.type,
                    resource_name=key.name,
                    configs=[
                        AlterableConfig(name=op.name, config_operation=op.operation, value=op.value)
                        for op in wanted[key]
                    ],
                )
                for key in keys
            ],
            validate_only=validate_only,
        )

    def read(
        node_id: int, keys: list[ConfigResource], response: IncrementalAlterConfigsResponse
    ) -> Iterable[tuple[ConfigResource, KafkaError | None]]:
        for one in response.responses:
            key = ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)
            yield key, failure(one.error_code, one.error_message)

    def node_of(resource: ConfigResource) -> int | None:
        # The active controller takes the changes of all brokers; only loggers are each controller's own.
        is_anybodys = driver.nodes.speaks_to_controllers and resource.type is not ConfigResourceType.BROKER_LOGGER
        return None if is_anybodys else _node_of(resource)

    route: Route[ConfigResource] = driver.node_of(node_of, NotController)
    call: Call[ConfigResource, None] = Call("IncrementalAlterConfigs", route, build, read)
    return driver.drive(call, wanted, timeout)


async def list_config_resources(
    driver: Driver, types: Iterable[ConfigResourceType], *, timeout: float | None
) -> list[ConfigResource]:
    wanted = sorted(set(types))

    def make(version: int) -> ListConfigResourcesRequest:
        if version == 0 and wanted != [ConfigResourceType.CLIENT_METRICS]:
            raise UnsupportedVersion("The broker is too old to list resources other than client metrics")
        # Version 0, of brokers before 4.1, lists client metrics and nothing else, and has no room to say so.
        return ListConfigResourcesRequest(resource_types=list(wanted) if version else [])

    def read(response: ListConfigResourcesResponse) -> list[ConfigResource]:
        check(response.error_code)
        return [
            ConfigResource(ConfigResourceType(one.resource_type), one.resource_name)
            for one in response.config_resources
        ]

    request = Build(LIST_CONFIG_RESOURCES_KEY, make)
    return await driver.one("ListConfigResources", driver.any_node(), request, read, driver.deadline(timeout))

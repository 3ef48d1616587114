"""Settings of a fake cluster: DescribeConfigs, IncrementalAlterConfigs, ListConfigResources.

The tables of `ottla.config` say what there is, what its default is, and what may be set to what: the broker's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.admin.configs import ConfigResourceType
from ottla.client.admin.fake.cluster import FakeCluster, Handler, refusal
from ottla.client.admin.fake.topics import check_name
from ottla.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.config import ConfigEntry

TOPIC, BROKER, LOGGER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER
METRICS, GROUP = ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP
SET, DELETE, APPEND = 0, 1, 2
NAMES = {APPEND: "APPEND", 3: "SUBTRACT"}


def _describe_configs(cluster: FakeCluster, node_id: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            result.configs = [_told(entry, request) for entry in _entries(cluster, node_id, resource)]
        except KafkaError as error:
            result.error_code, result.error_message = refusal(error)
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(cluster: FakeCluster, node_id: int, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    asked = resource.configuration_keys
    entries = _all_entries(cluster, node_id, resource.resource_type, resource.resource_name)
    return [entry for entry in entries if not asked or entry.name in asked]


def _all_entries(cluster: FakeCluster, node_id: int, kind: int, name: str) -> list[ConfigEntry]:
    from ottla.config import (
        describe_broker,
        describe_broker_defaults,
        describe_client_metrics,
        describe_group,
        describe_topic,
    )

    own = cluster.configs.get((kind, name), {})
    broker = cluster.broker_config(node_id)
    if kind == TOPIC:
        check_name(name)
        if name not in cluster.topics:
            raise UnknownTopicOrPartition
        return describe_topic(own, broker)
    if kind == BROKER:
        if not name:
            return describe_broker_defaults(broker)
        if name != str(node_id):
            raise InvalidRequest(f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
        return describe_broker(broker)
    if kind not in (GROUP, METRICS):
        raise UnsupportedVersion("FakeAdmin has no loggers: their levels are the broker's")
    if not name:
        what = "Group" if kind == GROUP else "Client metrics subscription"
        raise InvalidRequest(f"{what} name must not be empty")
    return describe_group(own, broker) if kind == GROUP else describe_client_metrics(own)


def _told(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(one.name, one.value, one.source) for one in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _alter_configs(
    cluster: FakeCluster, node_id: int, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    responses = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            after = _altered(cluster, node_id, resource)
            if not request.validate_only:
                cluster.configs[resource.resource_type, resource.resource_name] = after
        except KafkaError as error:
            answer.error_code, answer.error_message = refusal(error)
        responses.append(answer)
    return IncrementalAlterConfigsResponse(responses=responses)


def _altered(cluster: FakeCluster, node_id: int, resource: AlterConfigsResource) -> dict[str, str]:
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC, BROKER, GROUP, METRICS):
        raise UnsupportedVersion("FakeAdmin has no loggers: their levels are the broker's")
    names = [one.name for one in resource.configs]
    if len(set(names)) < len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    after = dict(cluster.configs.get((kind, name), {}))
    for change in resource.configs:
        value = _value(kind, change, after.get(change.name))
        if value is None:
            after.pop(change.name, None)
        else:
            after[change.name] = value
    _validate(cluster, node_id, kind, name, after)
    return after


def _value(kind: int, change: AlterableConfig, current: str | None) -> str | None:
    if change.config_operation == DELETE:
        return None
    if change.value is None:
        raise InvalidRequest(f"Null value not supported for : {change.name}")
    if change.config_operation == SET:
        return change.value
    setting = _table(kind).get(change.name)
    if setting is None or setting.type.name != "LIST":
        verb = NAMES.get(change.config_operation, "change")
        raise InvalidConfig(f"Can't {verb} to key {change.name} because its type is not LIST.")
    default = setting.default
    if current is None:
        current = ",".join(default) if isinstance(default, tuple) else str(default or "")
    items = [item for item in current.split(",") if item]
    for item in change.value.split(","):
        if change.config_operation == APPEND and item not in items:
            items.append(item)
        elif change.config_operation != APPEND and item in items:
            items.remove(item)
    return ",".join(items)


def _table(kind: int) -> Mapping[str, Any]:
    from ottla.config import BrokerConfig, ClientMetricsConfig, GroupConfig, LogConfig

    if kind == TOPIC:
        return LogConfig.topic_settings
    tables: dict[int, Mapping[str, Any]] = {
        BROKER: BrokerConfig.settings,
        GROUP: GroupConfig.settings,
        METRICS: ClientMetricsConfig.settings,
    }
    return tables[kind]


def _validate(cluster: FakeCluster, node_id: int, kind: int, name: str, after: dict[str, str]) -> None:
    from ottla.config import validate_client_metrics, validate_dynamic, validate_group, validate_topic

    broker = cluster.broker_config(node_id)
    if kind == TOPIC:
        check_name(name)
        validate_topic(after, broker=broker.current, existing=cluster.configs.get((kind, name)))
        if name not in cluster.topics:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    elif kind == BROKER:
        validate_dynamic(after, broker, per_broker=bool(name))
    elif not name:
        raise InvalidRequest("Default group resources are not allowed." if kind == GROUP else "A name is needed.")
    elif kind == GROUP:
        validate_group(after, broker.current)
    else:
        validate_client_metrics(name, after)


def _list_resources(
    cluster: FakeCluster, node_id: int, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    wanted = set(request.resource_types) or {TOPIC, BROKER, LOGGER, METRICS, GROUP}
    found = [(kind, name) for (kind, name), own in cluster.configs.items() if kind in (METRICS, GROUP) and own]
    found += [(kind, str(broker)) for kind in (BROKER, LOGGER) for broker in cluster.nodes]
    found += [(TOPIC, topic) for topic in cluster.topics]
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind, name in found if kind in wanted
        ]
    )


HANDLERS: dict[int, Handler] = {32: _describe_configs, 44: _alter_configs, 74: _list_resources}

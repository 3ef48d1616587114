"""DescribeConfigs (key 32): the settings of topics, brokers, loggers, groups and client metrics subscriptions."""

from __future__ import annotations

import logging

from ottla.config import (
    ConfigEntry,
    ConfigSource,
    ConfigType,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from ottla.metadata import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, check_topic_name
from ottla.server.context import RequestContext
from ottla.server.loggers import levels
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

log = logging.getLogger(__name__)

API_KEY = 32
KINDS = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Each resource by itself: one that cannot be described leaves the others whole."""
    for resource in request.resources:
        if resource.resource_type not in KINDS:
            raise InvalidRequest(
                f"Unexpected resource type {resource.resource_type} for resource {resource.resource_name}"
            )
    return DescribeConfigsResponse(results=[_describe(context, request, resource) for resource in request.resources])


def failed(request: DescribeConfigsRequest, error: KafkaError, version: int) -> DescribeConfigsResponse:
    """Every resource with the error."""
    return DescribeConfigsResponse(results=[_refused(resource, error) for resource in request.resources])


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(error.code, error.message, resource.resource_type, resource.resource_name)


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        entries = _entries(context, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        log.info("[DescribeConfigs] %s %r: %s", resource.resource_type, resource.resource_name, error)
        refused = _refused(resource, error)
        if isinstance(error, UnknownTopicOrPartition):
            refused.error_message = ""  # Kafka says nothing about a topic that is not there
        return refused
    asked = resource.configuration_keys
    return DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(entry, request) for entry in entries if not asked or entry.name in asked],
    )


def _entries(context: RequestContext, kind: int, name: str) -> list[ConfigEntry]:
    node = context.node
    image = node.image
    if kind == TOPIC:
        check_topic_name(name)
        if name not in image.topics.by_name:
            raise UnknownTopicOrPartition
        return describe_topic(image.config_of(TOPIC, name), node.dynamic_config)
    if kind == BROKER:
        if not name:
            return describe_broker_defaults(node.dynamic_config)
        _check_broker(name, node.node_id, "or empty string, ")
        return describe_broker(node.dynamic_config)
    if kind == BROKER_LOGGER:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        _check_broker(name, node.node_id, "")
        return [_logger_entry(logger, level) for logger, level in levels().items()]
    if not name:
        what = "Group" if kind == GROUP else "Client metrics subscription"
        raise InvalidRequest(f"{what} name must not be empty")
    if kind == GROUP:
        return describe_group(image.config_of(GROUP, name), node.dynamic_config)
    return describe_client_metrics(image.config_of(CLIENT_METRICS, name))


def _check_broker(name: str, node_id: int, alternative: str) -> None:
    try:
        named = int(name)
    except ValueError:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None
    if named != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id} {alternative}but received {name}")


def _logger_entry(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=level,
        source=ConfigSource.DYNAMIC_BROKER_LOGGER,
        is_sensitive=False,
        read_only=False,
        synonyms=(),
        type=ConfigType.UNKNOWN,
        documentation="",
    )


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    is_logger = entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]
        if request.include_synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation or is_logger else None,
    )

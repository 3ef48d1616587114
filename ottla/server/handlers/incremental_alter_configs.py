"""IncrementalAlterConfigs (key 44): single settings are set, deleted, or their lists appended to or subtracted from."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.metadata import BROKER, BROKER_LOGGER
from ottla.server.config_changes import (
    FORWARDED,
    Outcome,
    changed_settings,
    check_broker_settings,
    check_kind,
    check_node_id,
    check_values,
    merge,
    outcome_of,
    preprocess,
)
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.server.loggers import DELETE, LoggerChange, change
from ottla.wire import Message
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API_KEY = 44


def handle(context: BrokerContext, request: IncrementalAlterConfigsRequest) -> Message | Awaitable[Message]:
    """This broker's loggers are changed here, what it refuses is refused here, the controller decides the rest."""
    node = context.node

    def check(resource: AlterConfigsResource) -> bool:
        check_values(
            [config.name for config in resource.configs],
            [c.name for c in resource.configs if c.value is None and c.config_operation != DELETE],
        )
        check_kind(resource, (*FORWARDED, BROKER_LOGGER))
        name = resource.resource_name
        if resource.resource_type == BROKER_LOGGER:
            change_loggers(resource, node_id=node.node_id, validate_only=request.validate_only)
            return True
        if resource.resource_type == BROKER:
            values = changed_settings(node.image.config_of(BROKER, name), resource.configs)
            check_broker_settings(node, name, values)
        return False

    done = preprocess(request.resources, check)
    rest = [resource for place, resource in enumerate(request.resources) if place not in done]
    if rest:
        return _with_controller(context, request, done, rest)
    return _response(request, merge(request.resources, done, []))


def change_loggers(resource: AlterConfigsResource, *, node_id: int, validate_only: bool) -> None:
    """Set the levels of this process's loggers."""
    check_node_id(resource.resource_name, node_id)
    changes = [LoggerChange(c.name, c.config_operation, c.value) for c in resource.configs]
    change(changes, validate_only=validate_only)


def failed(request: IncrementalAlterConfigsRequest, error: KafkaError, version: int) -> IncrementalAlterConfigsResponse:
    """Every resource with the error."""
    return _response(request, [outcome_of(error)] * len(request.resources))


async def _with_controller(
    context: BrokerContext,
    request: IncrementalAlterConfigsRequest,
    done: dict[int, Outcome],
    rest: list[AlterConfigsResource],
) -> IncrementalAlterConfigsResponse:
    answer = await forward(context, IncrementalAlterConfigsRequest(rest, request.validate_only))
    assert isinstance(answer, IncrementalAlterConfigsResponse), f"{answer.schema.name} answers IncrementalAlterConfigs"
    return _response(request, merge(request.resources, done, answer.responses))


def _response(request: IncrementalAlterConfigsRequest, outcomes: list[Outcome]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
            for resource, (code, message) in zip(request.resources, outcomes, strict=True)
        ]
    )

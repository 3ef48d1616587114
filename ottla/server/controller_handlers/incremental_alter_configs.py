"""IncrementalAlterConfigs (key 44) at a controller: its own loggers are changed here, the rest is the controller's."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.metadata import BROKER_LOGGER
from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.server.handlers import incremental_alter_configs
from ottla.wire import Message
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

API_KEY = 44
failed = incremental_alter_configs.failed


def handle(context: ControllerContext, request: IncrementalAlterConfigsRequest) -> Awaitable[Message]:
    """One answer for each resource, those about loggers last, as Kafka orders them."""
    loggers = [resource for resource in request.resources if resource.resource_type == BROKER_LOGGER]
    if not loggers:
        return decide(context, request)
    return _with_loggers(context, request, loggers)


async def _with_loggers(
    context: ControllerContext, request: IncrementalAlterConfigsRequest, loggers: list[AlterConfigsResource]
) -> IncrementalAlterConfigsResponse:
    told = [_change(context, resource, validate_only=request.validate_only) for resource in loggers]
    rest = [resource for resource in request.resources if resource.resource_type != BROKER_LOGGER]
    answer = await decide(context, IncrementalAlterConfigsRequest(rest, request.validate_only))
    assert isinstance(answer, IncrementalAlterConfigsResponse), f"{answer.schema.name} answers IncrementalAlterConfigs"
    answer.responses += told
    return answer


def _change(
    context: ControllerContext, resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    code, message = 0, None
    try:
        incremental_alter_configs.change_loggers(resource, node_id=context.node.node_id, validate_only=validate_only)
    except KafkaError as error:
        code, message = error.code, error.message
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)

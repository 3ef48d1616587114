"""AlterConfigs (key 33): all settings of a resource are replaced at once. Superseded by IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.errors import KafkaError
from ottla.metadata import BROKER
from ottla.server.config_changes import (
    Outcome,
    check_broker_settings,
    check_kind,
    check_values,
    merge,
    outcome_of,
    preprocess,
)
from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

API_KEY = 33


def handle(context: BrokerContext, request: AlterConfigsRequest) -> Message | Awaitable[Message]:
    """What this broker refuses is refused here; the controller decides about the rest."""

    def check(resource: AlterConfigsResource) -> bool:
        check_values(
            [config.name for config in resource.configs],
            [config.name for config in resource.configs if config.value is None],
        )
        check_kind(resource)
        if resource.resource_type == BROKER:
            values = {config.name: config.value or "" for config in resource.configs}
            check_broker_settings(context.node, resource.resource_name, values)
        return False

    done = preprocess(request.resources, check)
    rest = [resource for place, resource in enumerate(request.resources) if place not in done]
    if rest:
        return _with_controller(context, request, done, rest)
    return _response(request, merge(request.resources, done, []))


def failed(request: AlterConfigsRequest, error: KafkaError, version: int) -> AlterConfigsResponse:
    """Every resource with the error."""
    return _response(request, [outcome_of(error)] * len(request.resources))


async def _with_controller(
    context: BrokerContext, request: AlterConfigsRequest, done: dict[int, Outcome], rest: list[AlterConfigsResource]
) -> AlterConfigsResponse:
    answer = await forward(context, AlterConfigsRequest(rest, request.validate_only))
    assert isinstance(answer, AlterConfigsResponse), f"{answer.schema.name} answers AlterConfigs"
    return _response(request, merge(request.resources, done, answer.responses))


def _response(request: AlterConfigsRequest, outcomes: list[Outcome]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
            for resource, (code, message) in zip(request.resources, outcomes, strict=True)
        ]
    )

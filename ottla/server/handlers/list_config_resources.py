"""ListConfigResources (key 74): the names of everything that has settings (KIP-1142)."""

from __future__ import annotations

from ottla.errors import UnsupportedVersion
from ottla.metadata import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Image
from ottla.server.context import BrokerContext
from ottla.server.endpoints import nodes
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

API_KEY = 74

SUPPORTED = {0: (CLIENT_METRICS,), 1: (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)}
"""The types of resources by version, in the order in which they are told."""


def handle(context: BrokerContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """The resources of the types asked for, or of all types."""
    supported = SUPPORTED[context.version]
    asked = request.resource_types or supported
    if any(kind not in supported for kind in asked):
        raise UnsupportedVersion("A type of resource is not known in this version.")
    image: Image = context.node.image
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, kind)
            for kind in supported
            if kind in asked
            for name in _names(image, kind, context.listener_name)
        ]
    )


def _names(image: Image, kind: int, listener: str) -> list[str]:
    if kind in (GROUP, CLIENT_METRICS):
        return [name for (type_of, name) in image.configs if type_of == kind]
    if kind == TOPIC:
        return list(image.topics.by_name)
    return [str(broker.id) for broker, _ in nodes(image, listener, with_fenced=True)]

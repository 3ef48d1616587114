"""ApiVersions (key 18): which APIs, versions and features this listener offers; a client's first request."""

from __future__ import annotations

import re

from ottla.errors import InvalidRequest
from ottla.metadata import KRAFT_VERSION
from ottla.server.context import RequestContext
from ottla.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API_KEY = 18
ZERO_LEVEL_VERSION = 4
"""Clients of older versions cannot read a feature whose lowest level is 0 (KAFKA-17492)."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Tell what is served, and note which software asks."""
    if context.version >= 3:
        if not (
            _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            raise InvalidRequest("The client's software name or version is not valid.")
        context.connection.software_name = request.client_software_name
        context.connection.software_version = request.client_software_version
    node = context.node
    image = node.image
    return ApiVersionsResponse(
        api_keys=context.connection.dispatcher.advertised,
        supported_features=[
            SupportedFeatureKey(name, first, last)
            for name, (first, last) in node.supported_features.items()
            if first > 0 or context.version >= ZERO_LEVEL_VERSION
        ],
        finalized_features_epoch=image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level)
            for name, level in {**image.features, KRAFT_VERSION: node.quorum.kraft_version}.items()
            if level > 0
        ],
    )

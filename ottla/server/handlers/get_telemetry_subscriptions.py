"""GetTelemetrySubscriptions (key 71): which metrics a client should push. None: nobody here would take them."""

from __future__ import annotations

from ottla.metadata import random_uuid
from ottla.server.context import BrokerContext
from ottla.server.telemetry import COMPRESSION_TYPES, PUSH_INTERVAL_MS, subscription_id
from ottla.types import ZERO_UUID
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

API_KEY = 71


def handle(context: BrokerContext, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    """An empty subscription, and an id for a client that has none yet."""
    instance_id = request.client_instance_id
    if instance_id == ZERO_UUID:
        instance_id = random_uuid(context.node.world)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription_id(instance_id),
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=context.node.config.telemetry_max_bytes,
        delta_temporality=True,
    )

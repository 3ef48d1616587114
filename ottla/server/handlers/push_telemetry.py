"""PushTelemetry (key 72): a client's metrics, checked and dropped. Clients are told to push none."""

from __future__ import annotations

from ottla.errors import InvalidRequest, TelemetryTooLarge, UnknownSubscriptionId, UnsupportedCompressionType
from ottla.metadata import MIGRATING, UNASSIGNED
from ottla.server.context import BrokerContext
from ottla.server.telemetry import COMPRESSION_TYPES, NO_COMPRESSION, subscription_id
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

API_KEY = 72
RESERVED = (MIGRATING, UNASSIGNED)
"""Ids that no client can have: all zeros, and the one of the metadata topic."""


def handle(context: BrokerContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Accepted, if it is what the client was asked for."""
    client = request.client_instance_id
    if client in RESERVED:
        raise InvalidRequest(f"Invalid request from the client [{client}], invalid client instance id")
    if request.subscription_id != subscription_id(client):
        raise UnknownSubscriptionId(f"Unknown client subscription id for the client [{client}]")
    if request.compression_type not in (NO_COMPRESSION, *COMPRESSION_TYPES):
        raise UnsupportedCompressionType(f"Unknown compression type [{request.compression_type}] from [{client}]")
    if len(request.metrics) > context.node.config.telemetry_max_bytes:
        raise TelemetryTooLarge
    return PushTelemetryResponse()

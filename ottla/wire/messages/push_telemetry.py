"""PushTelemetry (key 72): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Bytes, Int8, Int16, Int32, Message, field


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    """Push a client's metrics to the broker."""

    client_instance_id: Uuid = field()
    subscription_id: Int32 = field()
    terminating: Bool = field()
    compression_type: Int8 = field()
    metrics: Bytes = field()


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    """Whether the metrics were accepted."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()

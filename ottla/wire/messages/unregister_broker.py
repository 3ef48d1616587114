"""UnregisterBroker (key 64): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, field


class UnregisterBrokerRequest(Message, api_key=64, versions="0", flexible="0+"):
    """Remove the registration of a broker that will not return."""

    broker_id: Int32 = field(entity="brokerId")


class UnregisterBrokerResponse(Message, api_key=64, versions="0", flexible="0+"):
    """Whether the registration was removed."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()

"""ExpireDelegationToken (key 40): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int32, Int64, Message, field


class ExpireDelegationTokenRequest(Message, api_key=40, versions="1-2", flexible="2+"):
    """Bring forward the expiry of a delegation token."""

    hmac: Bytes = field()
    expiry_time_period_ms: Int64 = field()


class ExpireDelegationTokenResponse(Message, api_key=40, versions="1-2", flexible="2+"):
    """When the token expires now."""

    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()

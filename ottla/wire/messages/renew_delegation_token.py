"""RenewDelegationToken (key 39): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int32, Int64, Message, field


class RenewDelegationTokenRequest(Message, api_key=39, versions="1-2", flexible="2+"):
    """Put off the expiry of a delegation token."""

    hmac: Bytes = field()
    renew_period_ms: Int64 = field()


class RenewDelegationTokenResponse(Message, api_key=39, versions="1-2", flexible="2+"):
    """When the token expires now."""

    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()

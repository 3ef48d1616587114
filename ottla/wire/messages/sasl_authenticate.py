"""SaslAuthenticate (key 36): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int64, Message, field


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """Carry one message of the SASL exchange from the client."""

    auth_bytes: Bytes = field()


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """Carry one message of the SASL exchange from the server."""

    error_code: Int16 = field()
    error_message: str | None = field()
    auth_bytes: Bytes = field()
    session_lifetime_ms: Int64 = field("1+", ignorable=True)

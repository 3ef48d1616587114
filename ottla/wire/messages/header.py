"""The headers that come before every request and response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, field


class RequestHeader(Message, versions="1-2", flexible="2+"):
    """What comes before every request: its API, its version, and the id that its response will carry."""

    request_api_key: Int16 = field()
    request_api_version: Int16 = field()
    correlation_id: Int32 = field()
    client_id: str | None = field(
        "1+",
        flexible="none",
        doc="Not compact in any version, so that a header can be read before its version is understood.",
    )


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    """What comes before every response: the id of its request."""

    correlation_id: Int32 = field()

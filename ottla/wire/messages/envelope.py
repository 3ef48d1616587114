"""Envelope (key 58): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Message, field


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """A client's request, forwarded by a broker to the controller."""

    request_data: Bytes = field(doc="The client's request with its header.")
    request_principal: Bytes | None = field(doc="A version (int16) and a `DefaultPrincipalData`.")
    client_host_address: Bytes = field()


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    """The controller's answer to a forwarded request."""

    response_data: Bytes | None = field(default=None, doc="The response with its header.")
    error_code: Int16 = field()

"""SaslHandshake (key 17): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Message, field


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    """Choose a SASL mechanism before authenticating."""

    mechanism: str = field()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """The mechanisms that the server offers."""

    error_code: Int16 = field()
    mechanisms: list[str] = field()

"""SaslHandshake (key 17): out of place on a listener without SASL, where nobody has to say who they are."""

from __future__ import annotations

from ottla.errors import IllegalSaslState
from ottla.server.context import RequestContext
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API_KEY = 17


def handle(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refused, as Kafka refuses it on a PLAINTEXT listener."""
    raise IllegalSaslState("SaslHandshake request received on a listener without SASL")

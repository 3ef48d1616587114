"""SaslAuthenticate (key 36): out of place on a listener without SASL, where nobody has to say who they are."""

from __future__ import annotations

from ottla.errors import IllegalSaslState
from ottla.server.context import RequestContext
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API_KEY = 36


def handle(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refused, as Kafka refuses it once a connection is authenticated."""
    raise IllegalSaslState("SaslAuthenticate request received after successful authentication")

"""The principal in an Envelope request."""

from __future__ import annotations

from ottla.wire.schema import Bool, Message, field


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """Who sent a forwarded request."""

    type: str = field()
    name: str = field()
    token_authenticated: Bool = field()

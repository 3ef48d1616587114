"""What connections carry: frames of bytes, and a link to a peer that answers each request once."""

from typing import TYPE_CHECKING

from ottla.lazy import front_door
from ottla.net.framing import BadFrame, FrameReader, ReceiveBuffer

if TYPE_CHECKING:
    from ottla.net.backoff import Backoff
    from ottla.net.connection import BadAnswer, Connection, ConnectionRefused
    from ottla.net.handshake import Exchange, VersionsExchange
    from ottla.net.link import Link, LinkObserver, LinkSettings
    from ottla.net.request import Build, OnAnswer, Request, settling
    from ottla.net.versions import ApiVersions

# A node that asks nobody has no use for them.
_LAZY = {
    "ApiVersions": "versions",
    "Backoff": "backoff",
    "BadAnswer": "connection",
    "Build": "request",
    "Connection": "connection",
    "ConnectionRefused": "connection",
    "Exchange": "handshake",
    "Link": "link",
    "LinkObserver": "link",
    "LinkSettings": "link",
    "OnAnswer": "request",
    "Request": "request",
    "VersionsExchange": "handshake",
    "settling": "request",
}

__all__ = [
    "ApiVersions",
    "Backoff",
    "BadAnswer",
    "BadFrame",
    "Build",
    "Connection",
    "ConnectionRefused",
    "Exchange",
    "FrameReader",
    "Link",
    "LinkObserver",
    "LinkSettings",
    "OnAnswer",
    "ReceiveBuffer",
    "Request",
    "VersionsExchange",
    "settling",
]

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)

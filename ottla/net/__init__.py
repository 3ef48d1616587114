"""What connections carry: frames of bytes, and a link to a peer that answers each request once."""

from ottla.net.backoff import Backoff
from ottla.net.connection import BadAnswer, Connection, ConnectionRefused
from ottla.net.framing import BadFrame, FrameReader, ReceiveBuffer
from ottla.net.handshake import Exchange, VersionsExchange
from ottla.net.link import Link, LinkObserver, LinkSettings
from ottla.net.request import Build, OnAnswer, Request, settling
from ottla.net.versions import ApiVersions

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

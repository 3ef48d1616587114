"""DescribeQuorum (key 55): how far the voters of the metadata log have come."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import ControllerContext
from ottla.server.deciding import decide
from ottla.wire import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

API_KEY = 55


def handle(context: ControllerContext, request: DescribeQuorumRequest) -> Awaitable[Message]:
    """What the controller decides."""
    return decide(context, request)

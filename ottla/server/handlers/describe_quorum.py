"""DescribeQuorum (key 55): how far the voters of the metadata log have come. The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.server.context import BrokerContext
from ottla.server.forwarding import forward
from ottla.wire import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

API_KEY = 55


def handle(context: BrokerContext, request: DescribeQuorumRequest) -> Awaitable[Message]:
    """The controller's answer."""
    return forward(context, request)

"""`ControllerServices`: what the handlers of a controller's listeners work with, gathered by the composition root."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from ottla.server.context import Connection
from ottla.server.node_context import NodeContext, QuorumView
from ottla.wire import Message
from ottla.world import Promise


class Decider(Protocol):
    """The controller of this node: decides while it leads the quorum, and raises `NotController` while it does not."""

    def handle(self, request: Message, *, version: int) -> Awaitable[Message]:
        """The answer to a request that changes or describes metadata, in the form of `version`."""
        ...

    def heard_over(self, broker_id: int, epoch: int, carrier: Connection, /) -> None:
        """A broker's heartbeat has come over this connection."""
        ...


class QuorumMember(QuorumView, Protocol):
    """This node's part in the metadata quorum."""

    def handle(self, request: Message, *, version: int, listener: str | None) -> Message | Promise[Message]:
        """The answer to a request of another member: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot.

        It names the leader's address on that `listener`, by which the request came in.
        """
        ...


class ControllerServices:
    """The services of the controller role. What it shares with the broker role is in `node`."""

    __slots__ = ("controller", "node", "raft")

    def __init__(self, node: NodeContext, controller: Decider, raft: QuorumMember) -> None:
        self.node = node
        self.controller = controller
        self.raft = raft

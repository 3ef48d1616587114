"""The way from a node to the active controller: a call where that is this node's own, else a connection to another.

Promises: a request is answered once, or fails within `retry_ms`. It goes to whoever leads the metadata quorum when it
is sent, and again, with a pause, while the leader is not known, cannot be reached, says that it leads no more, or is
not the leader any more and has not answered. With a quorum of this node alone there is nobody else to ask: what its
controller says is the answer. At most `PENDING_MAX` requests wait. A client's request travels in an Envelope with the
client's principal (KIP-590), this node's own (registration, heartbeats, producer ids, ...) as they are.

A connection is served in turn, so what must not wait behind others has a channel of its own, as in Kafka. Made by the
composition root; called by handlers and by whatever of a broker tells the controller something.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ottla.errors import NetworkException, NotController, RequestTimedOut, UnknownServerError, UnsupportedVersion
from ottla.raft import VoterSet
from ottla.server import ControllerContext, Dispatcher, RequestContext
from ottla.wire import Message
from ottla.world import Address, NodeWorld, Promise

log = logging.getLogger(__name__)

FORWARDING_RETRY_MS = 60_000
"""How long a client's request is tried, as in Kafka."""
PAUSE_MS = 50
"""Between two tries; Kafka's `reconnect.backoff.ms` of these connections."""
LOOK_MS = 100
"""How often a request that waits looks whether another node leads by now. Kafka does not look: a controller that hangs
keeps a request for `controller.socket.timeout.ms`."""
PENDING_MAX = 1_000
"""How many requests of one channel may wait for the controller."""


class LeaderLink(Protocol):
    """Requests to one peer, each in the highest version that both sides know: an `ottla.net.Link`."""

    def send(self, request: Message, *, timeout_ms: float) -> Promise[Message]:
        """The answer; `NetworkException`, `RequestTimedOut` or `UnsupportedVersion` when there is none."""
        ...

    def close(self) -> None: ...


Connect = Callable[[int, Address], LeaderLink]
"""A link to the node of that id at that address."""


class Quorum(Protocol):
    """What is known of the metadata quorum now."""

    @property
    def leader_id(self) -> int: ...

    @property
    def voters(self) -> VoterSet: ...


class ControllerChannel:
    """A `ControllerLink`. `local` is what this node's controller serves, if it has one."""

    def __init__(
        self,
        world: NodeWorld,
        quorum: Quorum,
        *,
        name: str,
        node_id: int,
        listener_name: str,
        connect: Connect,
        local: Dispatcher | None = None,
        retry_ms: int = FORWARDING_RETRY_MS,
        request_timeout_ms: int = 30_000,
    ) -> None:
        """`listener_name` is the controller listener by which leaders are reached; `name` is for the log."""
        self._world = world
        self._quorum = quorum
        self._subject = f"[NodeToControllerChannelManager id={node_id} name={name}]"
        self._node_id = node_id
        self._listener_name = listener_name
        self._connect = connect
        self._local = local
        self._retry_ms = retry_ms
        self._request_timeout_ms = min(request_timeout_ms, retry_ms)
        self._link: LeaderLink | None = None
        self._linked_to: tuple[int, Address] | None = None
        self._pending_count = 0
        self._is_closed = False

    @property
    def pending_count(self) -> int:
        """How many requests wait for their answers."""
        return self._pending_count

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        """The answer to a request of this node itself."""
        local = self._local

        def here() -> Awaitable[Message]:
            assert local is not None, "asked only where there is a controller"
            answer: Awaitable[Message] = local.services.controller.handle(request, version=version)
            return answer

        if self._is_alone:
            return here()
        return self._until_answered(here, lambda: request, _as_it_is)

    def forward(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        """The answer to a client's request, in the client's name."""
        if self._is_alone:
            return self._call(context, request)
        from ottla.server import unwrap_answer, wrap_request  # with its messages, so only where there are other nodes
        from ottla.wire.messages.envelope import EnvelopeResponse

        def read(response: Message) -> Message:
            assert isinstance(response, EnvelopeResponse), f"{response.schema.name} answers an Envelope"
            return unwrap_answer(response, request, version=context.version)

        envelope = wrap_request(context, request)
        return self._until_answered(lambda: self._call(context, request), lambda: envelope, read)

    def close(self) -> None:
        """Whoever waits is told that there is no answer; no request is sent any more."""
        self._is_closed = True
        self._disconnect()

    # In this process

    @property
    def _is_alone(self) -> bool:
        """Whether this node's controller is the only one there is."""
        return self._local is not None and self._quorum.voters.ids == [self._node_id]

    def _call(self, context: RequestContext, request: Message) -> Awaitable[Message]:
        """Handled as if the client had come to the controller's listener: the connection tells who it is."""
        local = self._local
        assert local is not None, "asked only where there is a controller"
        assert request.schema.api_key is not None, f"{request.schema.name} is no request"
        route = local.find(request.schema.api_key, context.version)
        own = ControllerContext(
            context.version,
            context.correlation_id,
            context.client_id,
            context.connection,
            local.node,
            local.services,
        )
        answer = route.handle(own, request)
        assert answer is not None, f"{route.api.name} is always answered"
        assert not isinstance(answer, Message), "a controller's answer waits for its records"
        return answer

    # Elsewhere

    async def _until_answered(
        self,
        here: Callable[[], Awaitable[Message]],
        request: Callable[[], Message],
        read: Callable[[Message], Message],
    ) -> Message:
        if self._pending_count >= PENDING_MAX:
            raise RequestTimedOut(f"{PENDING_MAX} requests wait for the controller already")
        deadline_ms = self._world.clock.monotonic_ms() + self._retry_ms
        self._pending_count += 1
        try:
            while True:
                try:
                    return await self._once(here, request, read, deadline_ms)
                except (NotController, NetworkException, RequestTimedOut) as error:
                    log.debug("%s Trying again: %s", self._subject, error)
                    if self._is_closed or self._world.clock.monotonic_ms() + PAUSE_MS >= deadline_ms:
                        raise RequestTimedOut("The active controller did not answer in time") from error
                await self._world.tasks.sleep_ms(PAUSE_MS)
        finally:
            self._pending_count -= 1

    async def _once(
        self,
        here: Callable[[], Awaitable[Message]],
        request: Callable[[], Message],
        read: Callable[[Message], Message],
        deadline_ms: float,
    ) -> Message:
        leader_id = self._quorum.leader_id
        if leader_id == self._node_id and self._local is not None:
            return await here()
        link = self._link_to(leader_id)
        remaining_ms = deadline_ms - self._world.clock.monotonic_ms()
        watch = _Watch(self._world, lambda: self._give_up_on(leader_id, link))
        try:
            response = await link.send(request(), timeout_ms=max(1, min(remaining_ms, self._request_timeout_ms)))
        except UnsupportedVersion as error:
            log.error("%s The controller %d does not know the request: %s", self._subject, leader_id, error)
            raise UnknownServerError from error
        finally:
            watch.stop()
        try:
            return read(response)
        except NotController:
            if self._link is link:
                self._disconnect()
            raise

    def _give_up_on(self, leader_id: int, link: LeaderLink) -> None:
        """Disconnect from a node that is not the leader any more: one that hangs would keep its requests to the end of
        their time."""
        now_leading = self._quorum.leader_id
        if self._link is link and now_leading >= 0 and now_leading != leader_id:
            log.info("%s Node %d has not answered, and node %d leads now", self._subject, leader_id, now_leading)
            self._disconnect()

    def _link_to(self, leader_id: int) -> LeaderLink:
        """A link to the leader; `NotController` where it is not known who or where that is."""
        voter = self._quorum.voters.nodes.get(leader_id)
        address = None if voter is None else voter.listeners.get(self._listener_name)
        if self._is_closed or address is None:
            raise NotController("The active controller is not known")
        if self._link is None or self._linked_to != (leader_id, address):
            self._disconnect()
            log.info("%s Recorded new KRaft controller, from now on will use node %s (id: %d)",
                     self._subject, address, leader_id)  # fmt: skip
            self._link, self._linked_to = self._connect(leader_id, address), (leader_id, address)
        return self._link

    def _disconnect(self) -> None:
        link, self._link, self._linked_to = self._link, None, None
        if link is not None:
            link.close()


class _Watch:
    """Looks every `LOOK_MS` whether what is waited for can still come."""

    def __init__(self, world: NodeWorld, look: Callable[[], None]) -> None:
        self._tasks = world.tasks
        self._look = look
        self._timer = self._tasks.later(LOOK_MS, self._on_time)

    def stop(self) -> None:
        self._timer.cancel()

    def _on_time(self) -> None:
        self._timer = self._tasks.later(LOOK_MS, self._on_time)
        self._look()


def _as_it_is(response: Message) -> Message:
    """The answer to this node's own request; `NotController` where the one that was asked is not the active one."""
    from ottla.server import has_error  # with its messages, so only where there are other nodes

    if has_error(response, NotController.code):
        raise NotController
    return response

"""Requests to one peer: a connection on demand, kept, and made again with a growing backoff.

Promises: every request is answered exactly once and within its time-out, whatever happens to the peer, the network or
the name: with the response, or with the `KafkaError` that kept it from coming. It goes out in the highest version that
both sides know. Requests go out in the order they came, at most `in_flight_max` wait for their answers and at most
`queue_max` for the connection. A request without an answer in time ends the connection, because nothing behind it will
be answered either. A peer that cannot be reached is not tried more often than its backoff allows; a connection that
nobody uses is closed. A callback that raises on its response is called again with that as the error.

Errors: `NetworkException` when the connection could not be made or broke (the request may or may not have been carried
out; `BadAnswer` when the peer does not speak the protocol, `ConnectionRefused` when it was not: nobody listens there),
`RequestTimedOut`, `UnsupportedVersion` when the peer does not know the API, what the peer said where it refused the
connection, and `InternalError` for whatever else is raised while a request is built, encoded or sent, or its response
is handled.

Everything runs on the one thread of the world's tasks. The client has one link for each broker and lane, a node one for
each peer and purpose, and so have the simulator's clients.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from ottla.errors import KafkaError, NetworkException, RequestTimedOut, as_kafka_error
from ottla.net.backoff import Backoff
from ottla.net.connection import Connection, ConnectionRefused, InFlight
from ottla.net.framing import ReceiveBuffer
from ottla.net.handshake import Exchange, VersionsExchange
from ottla.net.request import OnAnswer, Request, Subject, api_name, choose_version, not_sent, settling, tell
from ottla.net.versions import ApiVersions
from ottla.wire import APIS, Message
from ottla.world import Address, ClientWorld, NodeWorld, Promise, Stream, StreamHandler, Timer, connect_failure

log = logging.getLogger(__name__)

FRAME_MAX = 1 << 30
"""The largest response that is taken: memory is only used for what has really arrived."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How a link connects, and its bounds. The defaults are those of Kafka's clients."""

    client_id: str
    """Sent with every request, for the peer's logs, metrics and quotas."""
    connect_timeout_ms: float = 10_000
    """How long a connection may take to be ready, handshake included; doubled with every failure."""
    connect_timeout_max_ms: float = 30_000
    reconnect_backoff_ms: float = 50
    """How long to wait before a peer that could not be reached is tried again; doubled with every failure."""
    reconnect_backoff_max_ms: float = 1_000
    idle_ms: float = 540_000
    """A connection that was not used for this long is closed; never when below 0."""
    in_flight_max: int = 100
    queue_max: int = 10_000
    """How many requests wait for the connection, or for room in flight; who comes then is refused at once."""
    frame_max: int = FRAME_MAX
    is_strict: bool = False
    """Whether bytes behind the end of a response are damage. Kafka's clients let them pass."""


class LinkObserver:
    """Told what becomes of a link and what goes over it. Whoever wants to know overrides what it wants to know."""

    def connecting(self) -> None:
        """A connection is about to be tried."""

    def opened(self) -> None:
        """A connection was made; the handshake follows."""

    def ready(self) -> None:
        """Requests can be sent."""

    def sent(self, size: int, now_ms: float) -> None:
        """A request of this many bytes has gone out."""

    def received(self, size: int, sent_ms: float, now_ms: float) -> None:
        """A response of this many bytes has come to a request of that time."""

    def closed(self, error: KafkaError) -> None:
        """A connection that was made has ended."""

    def failed(self, error: NetworkException, reason: str) -> KafkaError:
        """An attempt to connect has come to nothing; what to tell those who wait for it."""
        return error

    def lost(self) -> None:
        """There is no connection any more, or again none; those who waited were told."""


def ask_versions() -> tuple[Exchange, ...]:
    """The handshake of a connection without authentication."""
    return (VersionsExchange(),)


class _Pending(NamedTuple):
    request: Request
    on_answer: OnAnswer
    deadline_ms: float
    timeout_ms: float


class Link:
    """See the module. It connects when something is sent, or `connect` is called."""

    def __init__(
        self,
        world: ClientWorld | NodeWorld,
        address: Address,
        settings: LinkSettings,
        *,
        subject: str,
        node_id: int = -1,
        receive_buffer: ReceiveBuffer | None = None,
        observer: LinkObserver | None = None,
        handshake: Callable[[], Iterable[Exchange]] = ask_versions,
        log: logging.Logger = log,
    ) -> None:
        """`subject` stands before its log lines, as in `RaftManager id=1`. Links may share a `receive_buffer`, which
        `hands_over`."""
        self.address = address
        self.settings = settings
        self.peer = f"{address} (id: {node_id})"
        self.is_connecting = False
        self.is_slow = False
        """Whether a request has waited for the connection for longer than it could, and there is none yet."""
        self.failures = 0
        """Attempts in a row that came to nothing."""
        self._world = world
        self._now_ms = world.clock.monotonic_ms
        self._node_id = node_id
        self.subject = Subject(subject, log)
        self._receive_buffer = ReceiveBuffer(hands_over=True) if receive_buffer is None else receive_buffer
        self._observer = LinkObserver() if observer is None else observer
        self._handshake = handshake
        self._connect_timeout = Backoff(settings.connect_timeout_ms, settings.connect_timeout_max_ms, world)
        self._backoff = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, world)
        self._wire: _Wire | None = None
        """The connection; none yet while one is being made in the sense of TCP."""
        self._attempt = 0
        self._is_wanted = False
        """Whether to connect when the backoff is over."""
        self._connect_by_ms = inf
        self._connect_timeout_ms = 0.0
        self._retry_at_ms = 0.0
        self._throttled_until_ms = 0.0
        self._used_ms = 0.0
        self._pending: deque[_Pending] = deque()
        self._timer: Timer | None = None
        self._timer_at_ms = inf
        """When the timer comes. It may come early, never late, for whatever is due next."""
        self._closed: KafkaError | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a request would go out at once, but for a throttle."""
        wire = self._wire
        return wire is not None and wire.connection.is_ready

    @property
    def versions(self) -> ApiVersions | None:
        """What the peer speaks, while there is a connection that has learnt it."""
        return None if self._wire is None else self._wire.connection.versions

    @property
    def load(self) -> int:
        """How many requests wait for their answers, or for the connection."""
        return len(self._pending) + (0 if self._wire is None else self._wire.connection.in_flight_count)

    def retry_in_ms(self) -> float:
        """How long this peer is not to be connected to yet."""
        if self.is_ready or self.is_connecting:
            return 0.0
        return max(0.0, self._retry_at_ms - self._now_ms())

    # Sending

    def send(self, request: Request, *, timeout_ms: float) -> Promise[Any]:
        """Ask the peer; the promise is its response, or fails with the `KafkaError` that kept it from coming."""
        promise = self._world.tasks.promise()
        self.send_then(request, timeout_ms, settling(promise))
        return promise

    def send_then(self, request: Request, timeout_ms: float, on_answer: OnAnswer) -> None:
        """The same with a callback, for what happens thousands of times a second. It may be called before this returns
        when nothing could be sent."""
        now_ms = self._now_ms()
        wire = self._wire
        if (
            wire is None
            or self._pending
            or not wire.connection.is_ready
            or wire.connection.is_full
            or now_ms < self._throttled_until_ms
        ):
            self._enqueue(_Pending(request, on_answer, now_ms + timeout_ms, timeout_ms))
        else:
            self._transmit(wire, request, now_ms, now_ms + timeout_ms, on_answer)

    def send_only(self, request: Request) -> KafkaError | None:
        """Send a request that is not answered (Produce with acks=0), if there is a connection; why it was not sent."""
        wire = self._wire
        if wire is None or not wire.connection.is_ready:
            return NetworkException("not connected")
        assert wire.connection.versions is not None, "a connection that is ready knows what the peer speaks"
        now_ms = self._now_ms()
        try:
            wire.send_only(*choose_version(request, wire.connection.versions, self.peer), now_ms)
        except Exception as error:  # noqa: BLE001  it is the caller's
            return not_sent(request, error)
        self._used_ms = now_ms
        return None

    def _enqueue(self, pending: _Pending) -> None:
        refusal = self._closed
        if refusal is None and len(self._pending) >= self.settings.queue_max:
            refusal = NetworkException(f"{len(self._pending)} requests wait for {self.peer} already")
        if refusal is not None:
            self._tell(pending, refusal)
            return
        self._pending.append(pending)
        self._wake_by(pending.deadline_ms)
        wire = self._wire
        if wire is None or not wire.connection.is_ready:
            self.connect()
        elif not wire.connection.is_full:
            self._wake_by(self._throttled_until_ms)

    def _transmit(self, wire: _Wire, request: Request, now_ms: float, deadline_ms: float, on_answer: OnAnswer) -> None:
        assert wire.connection.versions is not None, "a connection that is ready knows what the peer speaks"
        try:
            message, version = choose_version(request, wire.connection.versions, self.peer)
            wire.send(message, version, now_ms, deadline_ms, on_answer)
        except Exception as error:  # noqa: BLE001  it is the caller's
            # Nothing of it was sent: there is no such version, or it cannot carry what was asked for.
            tell(on_answer, None, not_sent(request, error), api_name(request), self.subject)
            return
        self._used_ms = now_ms
        if deadline_ms < self._timer_at_ms:
            self._wake_by(deadline_ms)

    def _flush(self, now_ms: float) -> None:
        """Send what has waited for the connection, for room in flight, or for the end of a throttle."""
        while self._pending:
            wire = self._wire
            if wire is None or not wire.connection.is_ready or wire.connection.is_full:
                return
            if now_ms < self._throttled_until_ms:
                self._wake_by(self._throttled_until_ms)
                return
            pending = self._pending.popleft()
            self._transmit(wire, pending.request, now_ms, max(pending.deadline_ms, now_ms + 1), pending.on_answer)

    def _tell(self, pending: _Pending, error: KafkaError) -> None:
        tell(pending.on_answer, None, error, api_name(pending.request), self.subject)

    # Answers

    def on_answered(self, request: InFlight, response: Message, now_ms: float) -> None:
        """Called by the connection of this link."""
        assert request.on_answer is not None, "a handshake is not the link's"
        self._used_ms = now_ms
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            # The broker has answered at once and means: nothing more until then (KIP-219).
            self._throttled_until_ms = now_ms + throttle_ms
        tell(request.on_answer, response, None, APIS[request.api_key].name, self.subject)
        if self._pending:
            self._flush(now_ms)

    # Connecting

    def connect(self) -> None:
        """Connect, now or when the backoff is over; nothing when that is under way or done."""
        if self._closed is not None or self.is_connecting or self.is_ready:
            return
        now_ms = self._now_ms()
        if now_ms < self._retry_at_ms:
            self._is_wanted = True
            self._wake_by(self._retry_at_ms)
            return
        self._is_wanted = False
        self.is_connecting = True
        self._attempt += 1
        attempt = self._attempt
        self._connect_timeout_ms = self._connect_timeout.delay_ms(self.failures)
        self._connect_by_ms = now_ms + self._connect_timeout_ms
        self._wake_by(self._connect_by_ms)
        self.subject.log.debug("[%s] Initiating connection to node %s", self.subject.name, self.peer)

        def on_connected(result: Stream | OSError) -> StreamHandler | None:
            if attempt != self._attempt:
                if not isinstance(result, OSError):
                    result.abort()
                return None
            if isinstance(result, OSError):
                self._on_failed(connect_failure(result), kind=_kind_of(result))
                return None
            return self._on_connected(result)

        self._observer.connecting()
        self._world.network.connect(self.address.host, self.address.port, on_connected)

    def _on_connected(self, stream: Stream) -> StreamHandler:
        settings = self.settings
        connection = Connection(
            client_id=settings.client_id,
            receive_buffer=self._receive_buffer,
            handshake=self._handshake(),
            frame_max=settings.frame_max,
            in_flight_max=settings.in_flight_max,
            is_strict=settings.is_strict,
        )
        wire = self._wire = _Wire(self, connection, stream, self._observer, self._now_ms)
        self._world.tasks.soon(wire.begin)
        return wire

    def on_ready(self) -> None:
        """Called by the connection of this link, when its handshake is done."""
        now_ms = self._now_ms()
        self.is_connecting = False
        self.is_slow = False
        self.failures = 0
        self._connect_by_ms = inf
        self._used_ms = now_ms
        if self.settings.idle_ms >= 0:
            self._wake_by(now_ms + self.settings.idle_ms)
        self._observer.ready()
        self._flush(now_ms)

    def on_ended(self, wire: _Wire, error: KafkaError) -> None:
        """Called by a connection of this link, before those who wait for its answers are told."""
        if wire is not self._wire:
            return  # given up before, by this link itself
        self._wire = None
        if self.is_connecting:
            self._on_failed(str(error), error)
        else:
            self.subject.log.info("[%s] Node %d disconnected: %s", self.subject.name, self._node_id, error)
            self._lost(error)

    def _on_failed(
        self, reason: str, refusal: KafkaError | None = None, kind: type[NetworkException] = NetworkException
    ) -> None:
        """An attempt to connect came to nothing; `refusal` is what the peer said, if it said anything."""
        self.is_connecting = False
        self._connect_by_ms = inf
        if self.failures & (self.failures + 1) == 0:  # the first, and then ever more rarely
            self.subject.log.warning(
                "[%s] Connection to node %d (%s) could not be established: %s. Is a broker running there?",
                self.subject.name, self._node_id, self.address, reason,
            )  # fmt: skip
        if refusal is not None and not refusal.retriable:
            self._lost(refusal)
        else:
            self._lost(self._observer.failed(kind(f"no connection to {self.peer}: {reason}"), reason))

    def _lost(self, error: KafkaError) -> None:
        self._retry_at_ms = self._now_ms() + self._backoff.delay_ms(self.failures)
        self.failures += 1
        self._fail_pending(error)
        self._observer.lost()

    def _fail_pending(self, error: KafkaError) -> None:
        pending, self._pending = self._pending, deque()
        for one in pending:
            self._tell(one, error)

    # Time

    def _wake_by(self, at_ms: float) -> None:
        if at_ms >= self._timer_at_ms or self._closed is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        # The clock counts whole milliseconds: a shorter wait would find nothing changed, and wait again.
        self._timer = self._world.tasks.later(max(1.0, at_ms - self._now_ms()), self._wake)

    def _wake(self) -> None:
        """Do what is due, and come again for what is due next."""
        self._timer, self._timer_at_ms = None, inf
        now_ms = self._now_ms()
        self._expire_pending(now_ms)
        wire = self._wire
        if self.is_connecting:
            if now_ms >= self._connect_by_ms:
                self._give_up_connecting()
        elif wire is not None:
            self._look_after(wire, now_ms)
        elif (self._is_wanted or self._pending) and now_ms >= self._retry_at_ms:
            self.connect()
        self._wake_by(self._next_ms(now_ms))

    def _next_ms(self, now_ms: float) -> float:
        """When there is something to do, if nothing happens before."""
        next_ms = min((one.deadline_ms for one in self._pending), default=inf)
        wire = self._wire
        if self.is_connecting:
            return min(next_ms, self._connect_by_ms)
        if wire is not None:
            next_ms = min(next_ms, wire.connection.deadline_ms)
            if self._pending and not wire.connection.is_full:
                next_ms = min(next_ms, self._throttled_until_ms)
            if self.settings.idle_ms >= 0:
                next_ms = min(next_ms, (now_ms if self.load else self._used_ms) + self.settings.idle_ms)
        elif self._is_wanted or self._pending:
            next_ms = min(next_ms, self._retry_at_ms)
        return next_ms

    def _expire_pending(self, now_ms: float) -> None:
        late = [one for one in self._pending if one.deadline_ms <= now_ms]
        if not late:
            return
        self._pending = deque(one for one in self._pending if one.deadline_ms > now_ms)
        if not self.is_ready:
            self.is_slow = True
            reason = f"not connected to {self.peer}"
        elif now_ms < self._throttled_until_ms:
            reason = f"a throttle of {self.peer} did not end"
        else:
            reason = f"too many requests before it were not answered by {self.peer}"
        for one in late:
            what = f"{api_name(one.request)} was not sent: {reason} within {one.timeout_ms:.0f} ms"
            self._tell(one, RequestTimedOut(what))

    def _give_up_connecting(self) -> None:
        reason = f"not set up within {self._connect_timeout_ms:.0f} ms"
        if self._wire is not None:
            self._wire.fail(NetworkException(reason))
        else:
            self._attempt += 1  # whatever comes of it comes too late
            self._on_failed(reason)

    def _look_after(self, wire: _Wire, now_ms: float) -> None:
        late = wire.connection.overdue(now_ms)
        if late is not None:
            name, waited_ms = APIS[late.api_key].name, late.deadline_ms - late.sent_ms
            what = f"{name} (correlation id {late.correlation_id}) was not answered within {waited_ms:.0f} ms"
            wire.fail(RequestTimedOut(what))
        elif self._pending:
            self._flush(now_ms)
        elif 0 <= self.settings.idle_ms <= now_ms - self._used_ms and not self.load:
            self.subject.log.debug("[%s] About to close the idle connection to node %s", self.subject.name, self.peer)
            self._wire = None
            wire.close(NetworkException("the connection was idle"))

    # Ending

    def close(self, error: KafkaError | None = None) -> None:
        """End for good: what waits fails with `error`, and so does what is sent from now on."""
        if self._closed is not None:
            return
        self._closed = error = error or NetworkException(f"the link to {self.peer} is closed")
        self._attempt += 1
        self.is_connecting = False
        if self._timer is not None:
            self._timer.cancel()
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close(error)
        self._fail_pending(error)


def _kind_of(error: OSError) -> type[NetworkException]:
    return ConnectionRefused if isinstance(error, ConnectionRefusedError) else NetworkException


class _Wire:
    """A `Connection` on a stream, as the stream's handler: bytes in, frames out, those told who wait."""

    __slots__ = ("_link", "_now_ms", "_observer", "_stream", "connection")

    def __init__(
        self, link: Link, connection: Connection, stream: Stream, observer: LinkObserver, now_ms: Callable[[], int]
    ) -> None:
        self.connection = connection
        self._link = link
        self._stream = stream
        self._observer = observer
        self._now_ms = now_ms
        observer.opened()

    def begin(self) -> None:
        """Begin the handshake; the link's `on_ready` or `on_ended` follows."""
        if self.connection.is_open:
            self._shake_hands(None, self._now_ms())

    def _shake_hands(self, response: Message | None, now_ms: float) -> None:
        try:
            asked = self.connection.advance(response)
            if asked is not None:
                self.send(*asked, now_ms, inf, None)  # the link bounds how long all of it may take
        except Exception as error:  # noqa: BLE001  it is told to all who wait
            self.fail(as_kafka_error(error, "The handshake failed"))
            return
        if asked is None:
            self._link.on_ready()

    # Out

    def send(
        self, request: Message, version: int, now_ms: float, deadline_ms: float, on_answer: OnAnswer | None
    ) -> None:
        frame = self.connection.encode(request, version)
        self._stream.send(frame.parts)  # type: ignore[arg-type]  # a request has no slices of files
        self._observer.sent(frame.size, now_ms)
        api_key = request.schema.api_key
        assert api_key is not None, "only what is part of an API was encoded"
        self.connection.expect(InFlight(frame.correlation_id, api_key, version, on_answer, now_ms, deadline_ms))

    def send_only(self, request: Message, version: int, now_ms: float) -> None:
        frame = self.connection.encode(request, version)
        self._stream.send(frame.parts)  # type: ignore[arg-type]
        self._observer.sent(frame.size, now_ms)

    # In

    def get_buffer(self) -> memoryview:
        return self.connection.reader.get_buffer()

    def on_received(self, count: int) -> None:
        connection = self.connection
        now_ms = self._now_ms()
        connection.received(count)
        try:
            while connection.is_open:
                answer = connection.next_answer()
                if answer is None:
                    return
                request = answer.request
                self._observer.received(answer.size, request.sent_ms, now_ms)
                if request.on_answer is None:
                    self._shake_hands(answer.response, now_ms)
                else:
                    self._link.on_answered(request, answer.response, now_ms)
        except KafkaError as error:
            self.fail(error)

    def on_drained(self) -> None:
        pass

    # Ending

    def on_closed(self, error: OSError | None) -> None:
        self._end(NetworkException("the broker closed the connection" if error is None else str(error)))

    def fail(self, error: KafkaError) -> None:
        """Give the connection up because of `error`."""
        self._end(error)
        self._stream.abort()

    def close(self, error: KafkaError) -> None:
        """Send what is unsent, then close; what waits for an answer fails with `error`."""
        self._end(error)
        self._stream.close()

    def _end(self, error: KafkaError) -> None:
        if not self.connection.is_open:
            return
        waiting = self.connection.end()
        self._observer.closed(error)
        # First the link, so that those who are told find no connection that is gone already.
        self._link.on_ended(self, error)
        for one in waiting:
            assert one.on_answer is not None, "nobody waits for what a handshake asked"
            tell(one.on_answer, None, error, APIS[one.api_key].name, self._link.subject)

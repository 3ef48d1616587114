"""One connection of a client: its requests in, its responses out, in the order of the requests.

Promises: requests begin in the order in which they came, and the next one begins when the one before is answered
(`handlers` says which may overlap); responses leave in request order; all responses that one wake-up produced leave in
one `send`. Memory is bounded: while a client does not take its responses none of its requests is begun or read, so at
most `FLUSH_MIN` bytes of small responses and one more response wait for it. A client that sends what cannot be read is
disconnected with one log line, as Kafka does it. A request that is answered at once costs no task, promise or closure.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import Any

from ottla.errors import KafkaError
from ottla.net import BadFrame, FrameReader, ReceiveBuffer
from ottla.server.complaints import Complaints
from ottla.server.context import CloseConnection, Connection, RequestContext
from ottla.server.dispatch import API_VERSIONS, Answer, Dispatcher, Route
from ottla.server.metrics import ApiMetrics, ListenerMetrics
from ottla.wire import DecodeError, Message, decode_prefix, encode_into, encode_parts
from ottla.wire.messages.header import RequestHeader
from ottla.world import Clock, Part, Stream, Tasks

log = logging.getLogger(__name__)

FLUSH_MIN = 64 * 1024
"""Responses of one wake-up are sent together up to this size."""
REQUESTS_MAX = 32
"""How many requests one connection may have served before the others have their turn."""
OVERLAP_MAX = 64
"""How many requests that may overlap wait at the same time."""

_HEAD = struct.Struct(">Iih")
"""API key and version in one, correlation id, size of the client id."""
_SIZE = struct.Struct(">i")
_SIZE_AND_ID = struct.Struct(">ii")


class Port:
    """What all sessions of one listener share."""

    __slots__ = (
        "clock",
        "complaints",
        "dispatcher",
        "frame_max",
        "listener_name",
        "make_context",
        "metrics",
        "node",
        "receive_buffer",
        "services",
        "sessions",
        "tasks",
        "whole_max",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        listener_name: str,
        *,
        frame_max: int,
        receive_buffer: ReceiveBuffer,
        complaints: Complaints,
    ) -> None:
        node = dispatcher.node
        self.dispatcher = dispatcher
        self.make_context = dispatcher.role.context
        self.node = node
        self.services = dispatcher.services
        self.listener_name = listener_name
        self.frame_max = frame_max
        self.whole_max = frame_max + _SIZE.size
        """The largest frame with its size."""
        self.receive_buffer = receive_buffer
        self.complaints = complaints
        self.clock: Clock = node.world.clock
        self.tasks: Tasks = node.world.tasks
        self.metrics: ListenerMetrics = node.metrics.listener(listener_name)
        self.sessions: dict[Session, None] = {}


class Session:
    """A `StreamHandler`: the server's side of one connection."""

    __slots__ = (
        "_answered",
        "_common",
        "_context",
        "_is_clear",
        "_is_deferred",
        "_is_ending",
        "_is_last",
        "_is_paused",
        "_out",
        "_parts",
        "_port",
        "_queued_bytes",
        "_reader",
        "_stream",
        "_unsent_bytes",
        "_waiting",
        "active_ms",
        "connection",
    )

    def __init__(self, port: Port, stream: Stream) -> None:
        self._port = port
        self._stream = stream
        self._reader = FrameReader(port.receive_buffer, port.frame_max)
        self._common = port.receive_buffer.view
        self._is_clear = False
        """Whether what is received next begins with a frame, at the start of the common buffer."""
        self.connection = Connection(port.dispatcher, port.listener_name, stream.peer)
        self.active_ms = port.clock.monotonic_ms()
        """When the peer last sent or took something."""
        self._out = bytearray()
        """Responses that are still being gathered, after `_parts`."""
        self._parts: list[Part] = []
        self._queued_bytes = 0
        """Bytes in `_parts`."""
        self._waiting: deque[_Waiting] = deque()
        """Requests begun and not answered, and answered ones behind them."""
        self._unsent_bytes = 0
        self._is_deferred = False
        self._is_last = False
        """No request is begun any more: the connection ends when those that wait are answered."""
        self._is_paused = False
        self._is_ending = False
        self._answered: list[ApiMetrics] = []
        """Of each request that this wake-up has brought and answered."""
        self._context: RequestContext | None = None
        """Of a request whose head was known and that was answered at once: nobody has kept it, so it serves the next
        one as well."""
        port.sessions[self] = None
        port.metrics.created += 1

    # In

    def get_buffer(self) -> memoryview:
        buffer = self._reader.get_buffer()
        self._is_clear = buffer is self._common
        return buffer

    def on_received(self, count: int) -> None:
        port = self._port
        port.metrics.bytes_in += count
        self.active_ms = port.clock.monotonic_ms()
        common = self._common
        if (
            self._is_clear
            and 4 < count <= port.whole_max
            and _SIZE.unpack_from(common)[0] == count - 4
            and not (self._waiting or self._is_paused or self._is_ending or self._is_last)
        ):
            # One request and nothing else, as nearly always: there is nothing to be put together, and nothing to keep.
            self._serve(common[4:count])
        else:
            self._reader.received(count)
            self._serve()

    def on_drained(self) -> None:
        self.active_ms = self._port.clock.monotonic_ms()
        self._serve()

    def on_closed(self, error: OSError | None) -> None:
        self._is_ending = True
        self._waiting.clear()
        self._parts.clear()
        port = self._port
        port.sessions.pop(self, None)
        port.metrics.closed += 1
        self.connection.close()

    @property
    def is_waiting(self) -> bool:
        """A request is not answered yet, so silence is the server's doing."""
        return bool(self._waiting)

    def took_something(self) -> bool:
        """Whether less is unsent than when last asked: a slow reader, but not a dead one."""
        before, self._unsent_bytes = self._unsent_bytes, self._stream.unsent_bytes
        return 0 < self._unsent_bytes < before

    def end(self) -> None:
        """Send what is answered, then close."""
        if not self._is_ending:
            self._is_ending = True
            self._waiting.clear()
            self._flush()
            self._stream.close()

    def abort(self) -> None:
        """Close now, even what is closing already and waits for a peer that takes nothing."""
        self._is_ending = True
        self._stream.abort()

    # Serving

    def _serve(self, frame: memoryview | None = None) -> None:
        """Begin `frame`, which waits for nothing, or all requests that may be begun; then send what is answered."""
        is_stalled = False
        try:
            if frame is not None:
                self._begin(frame)
            else:
                is_stalled = self._begin_all()
            if self._out or self._parts:
                self._flush()
        except BadFrame as error:
            self._complain("frame", str(error))
            return
        except CloseConnection as error:
            log.debug("[SocketServer %s] Closing %s: %s", self._port.listener_name, self._stream.peer, error)
            self._end_when_answered()
            return
        except Exception:
            log.error("[SocketServer %s] Closing %s after a failure", self._port.listener_name, self._stream.peer,
                      exc_info=True)  # fmt: skip
            self.abort()
            return
        finally:
            if self._answered:
                self._count_times()
        if is_stalled or self._is_paused or self._is_deferred or self._stream.unsent_bytes:
            self._steer(is_stalled)

    def _begin_all(self) -> bool:
        """Begin requests until there are none, one must wait, or others should have their turn; whether one must."""
        reader = self._reader
        served = 0
        is_stalled = False
        while not (self._is_last or self._is_ending or self._is_deferred or self._stream.unsent_bytes):
            waiting = self._waiting
            if waiting and (len(waiting) >= OVERLAP_MAX or not waiting[-1].route.may_overlap):
                is_stalled = True
                break
            if served == REQUESTS_MAX:
                self._is_deferred = True
                self._port.tasks.soon(self._serve_deferred)
                break
            frame = reader.next_frame()
            if frame is None:
                break
            if not self._begin(frame):
                reader.put_back(frame)
                is_stalled = True
                break
            served += 1
            if len(self._out) + self._queued_bytes >= FLUSH_MIN:
                self._flush()
        reader.keep()
        return is_stalled

    def _serve_deferred(self) -> None:
        self._is_deferred = False
        self._serve()

    def _steer(self, is_stalled: bool) -> None:
        """Read on, or not.

        A connection with a request that waits is read until something comes in behind it: most clients send nothing,
        and stopping and starting again would cost two system calls a request.
        """
        if self._is_ending or self._is_last:
            return
        is_blocked = self._is_deferred or self._stream.unsent_bytes > 0 or (is_stalled and self._reader.held_bytes > 0)
        if is_blocked != self._is_paused:
            self._is_paused = is_blocked
            if is_blocked:
                self._stream.pause_reading()
            else:
                self._stream.resume_reading()

    def _begin(self, frame: memoryview) -> bool:
        """Handle one request. False when it has to wait for the ones before it."""
        port = self._port
        size = len(frame)
        if size < 10:
            self._complain("header", f"a request of {size} bytes is shorter than its header")
            return True
        key, correlation_id, id_size = _HEAD.unpack_from(frame)
        dispatcher = port.dispatcher
        route = dispatcher.routes.get(key) or dispatcher.route(key)
        if route is None:
            self._refuse(key, correlation_id)
            return True
        if self._waiting and not route.may_overlap:
            return False
        metrics = route.metrics
        version = route.version
        heads = route.heads
        found = None if heads is None else heads.find(frame, id_size)
        data = frame if route.is_lent else bytes(frame)
        try:
            position = 10 + id_size
            if id_size > 0:
                client_id: str | None = str(data[10:position], "utf-8")
            elif id_size == 0:
                client_id = ""
            else:
                client_id, position = None, 10
            if found is not None:
                head, records = found
                request: Message = head.request
            else:
                if position > size or id_size < -1 or (route.is_flexible and (position == size or data[position])):
                    # Tags that a later client may send, or an error that the decoder can name.
                    _, position = decode_prefix(RequestHeader, 2 if route.is_flexible else 1, data)
                elif route.is_flexible:
                    position += 1
                request, _ = decode_prefix(route.request_class, version, data, position)
        except (DecodeError, UnicodeDecodeError) as error:
            self._complain("request", f"{route.api.name} v{version} cannot be read: {error}")
            return True
        metrics.requests += 1
        metrics.sizes[size.bit_length()] += 1
        try:
            answer: Answer
            if found is not None:
                context = self._context
                if context is None or context.client_id != client_id or context.version != version:
                    context = port.make_context(
                        version, correlation_id, client_id, self.connection, port.node, port.services
                    )
                else:
                    self._context = None
                    context.correlation_id = correlation_id
                answer = route.handle_one(context, head, records, self._out)
                if type(answer) is int:
                    self._context = context
                    metrics.response_bytes += answer
                    self._answered.append(metrics)
                    return True
            else:
                context = port.make_context(
                    version, correlation_id, client_id, self.connection, port.node, port.services
                )
                answer = route.handle(context, request)
            if type(answer) is not route.response_class and answer is not None and not isinstance(answer, Message):
                promise: Any = answer
                if hasattr(promise, "result") and promise.done():
                    # A coordinator with one replica has answered already: no need to wait for the loop's next turn.
                    answer = promise.result()
        except CloseConnection:
            raise
        except Exception as error:
            answer = route.error_response(request, error)
            if answer is None:
                raise CloseConnection(f"{route.api.name} failed and has no error response: {error}") from error
        if heads is not None and found is None:
            heads.learn(frame, position, request, answer)  # type: ignore[arg-type]  # it is Produce's
        if type(answer) is route.response_class or isinstance(answer, Message):
            if self._waiting:
                done = _Waiting(route, request, correlation_id, self.active_ms)
                done.parts = self._encode_apart(done, answer)
                self._waiting.append(done)
            else:
                self._encode(route, request, correlation_id, answer)
            self._answered.append(metrics)
        elif answer is not None:
            self._wait(_Waiting(route, request, correlation_id, self.active_ms), answer)
        return True

    def _count_times(self) -> None:
        """Requests are answered that this wake-up has brought: their answers leave together."""
        elapsed_ms = self._port.clock.monotonic_ms() - self.active_ms
        for metrics in self._answered:
            if elapsed_ms:
                metrics.total_time_ms.update(elapsed_ms)
                metrics.local_time_ms.update(elapsed_ms)
            else:
                metrics.instant += 1
        self._answered.clear()

    def _refuse(self, key: int, correlation_id: int) -> None:
        """A version that is not served: told to a client that asks for the versions, otherwise closed, as by Kafka."""
        api_key, version = key >> 16, key & 0xFFFF
        if api_key == API_VERSIONS:
            from ottla.wire.frames import unsupported_api_versions

            route = self._port.dispatcher.routes.get(API_VERSIONS << 16) or self._port.dispatcher.route(
                API_VERSIONS << 16
            )
            assert route is not None, "every listener serves ApiVersions"
            self._encode(route, route.request_class(), correlation_id, unsupported_api_versions())
            return
        self._complain("version", f"version {version} of API {api_key} is not served on this listener")

    # Out

    def _encode(self, route: Route, request: Message, correlation_id: int, response: Message) -> None:
        """Append a response to what will be sent."""
        out = self._out
        start = len(out)
        try:
            out += route.response_head
            if route.has_parts:
                parts = encode_parts(response, route.version, out)
                size = sum(map(len, parts)) - start
                _SIZE_AND_ID.pack_into(out, start, size - 4, correlation_id)
                last = parts[-1]
                if last is not out:
                    if isinstance(last, bytearray):
                        parts.pop()
                        self._out = last
                    else:
                        self._out = bytearray()
                    self._parts += parts  # type: ignore[arg-type]  # a slice of records is a slice of a file
                    self._queued_bytes += size + start - len(self._out)
            else:
                encode_into(response, route.version, out)
                size = len(out) - start
                _SIZE_AND_ID.pack_into(out, start, size - 4, correlation_id)
        except Exception as error:
            del out[start:]
            failed = route.error_response(request, error)
            if failed is None or failed == response:
                raise
            self._encode(route, request, correlation_id, failed)
            return
        route.metrics.response_bytes += size

    def _flush(self) -> None:
        parts = self._parts
        out = self._out
        if not parts:
            # Small responses and nothing else, as nearly always.
            if out:
                self._out = bytearray()
                self._port.metrics.bytes_out += len(out)
                self._stream.send((out,))
            return
        if out:
            self._seal()
        self._parts = []
        self._port.metrics.bytes_out += self._queued_bytes
        self._queued_bytes = 0
        self._stream.send(parts)

    def _seal(self) -> None:
        """What is gathered so far becomes a part."""
        self._parts.append(self._out)
        self._queued_bytes += len(self._out)
        self._out = bytearray()

    def _encode_apart(self, waiting: _Waiting, response: Message) -> list[Part]:
        """The parts of a response that cannot be sent before others are."""
        before = self._parts, self._out, self._queued_bytes
        self._parts, self._out = [], bytearray()
        try:
            self._encode(waiting.route, waiting.request, waiting.correlation_id, response)
            self._seal()
            return self._parts
        finally:
            self._parts, self._out, self._queued_bytes = before

    # Waiting

    def _wait(self, waiting: _Waiting, answer: Awaitable[Message] | Any) -> None:
        self._waiting.append(waiting)
        if hasattr(answer, "add_done_callback"):
            answer.add_done_callback(partial(self._on_done, waiting))
        else:
            self._port.tasks.spawn(self._await(waiting, answer), f"{waiting.route.api.name} of {self._stream.peer}")

    async def _await(self, waiting: _Waiting, answer: Awaitable[Message]) -> None:
        response: Message | None
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001  # answered, and logged if it is none of Kafka's
            self._settle(waiting, None, error)
        else:
            self._settle(waiting, response, None)

    def _on_done(self, waiting: _Waiting, promise: Any) -> None:
        try:
            response = promise.result()
        except Exception as error:  # noqa: BLE001  # answered, and logged if it is none of Kafka's
            self._settle(waiting, None, error)
        else:
            self._settle(waiting, response, None)

    def _settle(self, waiting: _Waiting, response: Message | None, error: Exception | None) -> None:
        """A request that waited has its answer: release it and what waited behind it, then go on."""
        if self._is_ending:
            if error is not None and not isinstance(error, KafkaError | CloseConnection):
                waiting.route.error_response(waiting.request, error)  # which logs it
            return
        metrics = waiting.route.metrics
        metrics.total_time_ms.update(self._port.clock.monotonic_ms() - waiting.started_ms)
        try:
            if error is not None and not isinstance(error, CloseConnection):
                response = waiting.route.error_response(waiting.request, error)
                if response is None:
                    error = CloseConnection(f"{waiting.route.api.name} failed and has no error response: {error}")
            if isinstance(error, CloseConnection):
                raise error
            waiting.parts = [] if response is None else self._encode_apart(waiting, response)
        except CloseConnection as reason:
            log.debug("[SocketServer %s] Closing %s: %s", self._port.listener_name, self._stream.peer, reason)
            self.end()
            return
        except Exception:
            log.error("[SocketServer %s] Closing %s after a failure", self._port.listener_name, self._stream.peer,
                      exc_info=True)  # fmt: skip
            self.abort()
            return
        queue = self._waiting
        while queue and queue[0].parts is not None:
            for part in queue.popleft().parts or ():
                self._parts.append(part)
                self._queued_bytes += len(part)  # type: ignore[arg-type]  # a slice has a length too
        if self._is_last and not queue:
            self.end()
        else:
            self._serve()

    def _end_when_answered(self) -> None:
        """What came before is answered, nothing after it is looked at."""
        if not self._waiting:
            self.end()
        elif not self._is_last:
            self._is_last = True
            self._is_paused = True
            self._stream.pause_reading()
            self._flush()

    def _complain(self, kind: str, reason: str) -> None:
        """The peer cannot be understood: answer what it asked before, then close."""
        self._port.complaints.say(
            kind, "[SocketServer %s] Closing the connection from %s: %s", self._port.listener_name, self._stream.peer,
            reason,
        )  # fmt: skip
        self._end_when_answered()


class _Waiting:
    """A request that is begun and not answered, or answered and not its turn."""

    __slots__ = ("correlation_id", "parts", "request", "route", "started_ms")

    def __init__(self, route: Route, request: Message, correlation_id: int, started_ms: int) -> None:
        self.route = route
        self.request = request
        self.correlation_id = correlation_id
        self.started_ms = started_ms
        self.parts: list[Part] | None = None

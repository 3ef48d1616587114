"""A client's connection: requests out, responses in, each matched to its request.

Promises: the responses come in the order of the requests, or `Violation` says so; a connection that breaks fails every
request that waits, with the `OSError`; a request without an answer for too long breaks the connection, as in real
clients, because nothing else on it will be answered either.
"""

from __future__ import annotations

import errno
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.sim.history import Violation
from ottla.wire import Message, find_api
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader
from ottla.world import NodeWorld, Promise, Stream, StreamHandler, Timer

REQUEST_TIMEOUT_MS = 20_000
BUFFER_SIZE = 64 * 1024


class _Waiting(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    answer: Promise[Any]
    timer: Timer


class Link:
    """One connection; made by `open_link`, of no more use once it is closed."""

    def __init__(self, world: NodeWorld, stream: Stream, client_id: str, complain: Callable[[Violation], None]) -> None:
        self._world = world
        self._stream = stream
        self._client_id = client_id
        self._complain = complain
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()
        self._next_id = 1
        self.is_open = True

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def send(self, request: Message, version: int, *, timeout_ms: float = REQUEST_TIMEOUT_MS) -> Promise[Any]:
        """Send a request; the promise is its response."""
        answer = self._world.tasks.promise()
        if not self.is_open:
            answer.set_exception(OSError(errno.ENOTCONN, "the connection is closed"))
            return answer
        correlation_id, api_key = self._send(request, version)
        timer = self._world.tasks.later(timeout_ms, lambda: self._break(TimeoutError(errno.ETIMEDOUT, "no answer")))
        self._waiting.append(_Waiting(correlation_id, api_key, version, answer, timer))
        return answer

    def send_only(self, request: Message, version: int) -> None:
        """Send a request that is not answered."""
        if self.is_open:
            self._send(request, version)

    def send_raw(self, data: bytes) -> None:
        """Send bytes that may be no request at all."""
        if self.is_open:
            self._stream.send([data])

    def _send(self, request: Message, version: int) -> tuple[int, int]:
        api_key = request.schema.api_key
        assert api_key is not None, "a request has an API"
        correlation_id = self._next_id
        self._next_id += 1
        header = RequestHeader(api_key, version, correlation_id, self._client_id)
        self._stream.send([write_request(header, request)])
        return correlation_id, api_key

    def stop_reading(self) -> None:
        self._stream.pause_reading()

    def read_on(self) -> None:
        self._stream.resume_reading()

    def close(self) -> None:
        self._stream.close()

    def get_buffer(self) -> memoryview:
        return self._buffer

    def on_received(self, count: int) -> None:
        self._received += self._buffer[:count]
        position = 0
        while len(self._received) - position >= 4:
            (size,) = struct.unpack_from(">i", self._received, position)
            if len(self._received) - position - 4 < size:
                break
            frame = bytes(self._received[position + 4 : position + 4 + size])
            position += 4 + size
            self._on_frame(frame)
        del self._received[:position]

    def _on_frame(self, frame: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", frame)
        if not self._waiting:
            self._complain(Violation(f"{self._client_id} got response {correlation_id} and waits for none"))
            return
        waiting = self._waiting.popleft()
        waiting.timer.cancel()
        if waiting.correlation_id != correlation_id:
            name = find_api(waiting.api_key).name
            self._complain(
                Violation(f"{self._client_id} waits for {name} {waiting.correlation_id} and got {correlation_id}")
            )
            return
        response = read_response(frame, waiting.api_key, waiting.version, strict=True)
        if not waiting.answer.done():
            waiting.answer.set_result(response.body)

    def on_drained(self) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        self._fail(error or ConnectionResetError(errno.ECONNRESET, "the peer has closed the connection"))

    def _break(self, error: OSError) -> None:
        self._fail(error)
        self._stream.abort()

    def _fail(self, error: OSError) -> None:
        self.is_open = False
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.timer.cancel()
            if not waiting.answer.done():
                waiting.answer.set_exception(error)


async def open_link(
    world: NodeWorld, host: str, port: int, client_id: str, complain: Callable[[Violation], None]
) -> Link:
    """A new connection; `OSError` when there is none to be had."""
    told = world.tasks.promise()

    def on_connected(result: Stream | OSError) -> StreamHandler | None:
        if isinstance(result, OSError):
            told.set_exception(result)
            return None
        link = Link(world, result, client_id, complain)
        told.set_result(link)
        return link

    world.network.connect(host, port, on_connected)
    link: Link = await told
    return link

"""The wire between a client and its brokers, for a test that looks at each request and decides what becomes of it.

`WatchedNetwork` is a client's `Network`. What the client sends is cut into requests and shown to a `Meddler` before it
goes on to the broker: the request may be lost, its answer may be lost after it was carried out, come late, be changed,
or be another one altogether. Everything else is the broker's own. Answers stay in order, as on any connection: one that
is held holds up those behind it.

A broker that speaks fewer versions than it does is one whose answer to ApiVersions is changed on the way.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.net import FrameReader, ReceiveBuffer
from ottla.sim import VirtualNodeWorld
from ottla.sim.stream import VirtualStream
from ottla.wire import APIS, Message
from ottla.wire.frames import Request, read_request, read_response, unsupported_api_versions, write_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.produce import ProduceRequest
from ottla.world import Stream, StreamHandler

FRAME_MAX = 1 << 26
APIS_BY_NAME = {api.name: api for api in APIS.values()}


class Meddling(NamedTuple):
    """What becomes of a request."""

    is_lost: bool = False
    """It does not arrive, and neither does what comes behind it on the connection, which has fallen silent."""
    loses_answer: bool = False
    """It is carried out, and the connection breaks instead of the answer."""
    delay_ms: float = 0
    change: Callable[[Any], None] | None = None
    """Called with the broker's answer, to change it."""
    answer: Message | None = None
    """Answered with this, and not carried out: what no healthy broker can be brought to say."""


FINE = Meddling()
Meddler = Callable[[int, Request], Meddling]
"""Is given the broker's number and the request."""


class WatchedNetwork:
    """The network of a client, with a meddler on every connection to a broker."""

    def __init__(
        self, world: VirtualNodeWorld, brokers: Mapping[str, int], versions: Mapping[str, tuple[int, int]]
    ) -> None:
        self.world = world
        self.brokers = brokers
        self.versions = dict(versions)
        self.requests: list[tuple[int, str, int]] = []
        """Everything that was asked: broker, API, version."""
        self.meddle: Meddler = lambda broker, request: FINE

    def connect(self, host: str, port: int, on_connected: Callable[[Stream | OSError], StreamHandler | None]) -> None:
        def connected(found: Stream | OSError) -> StreamHandler | None:
            if isinstance(found, OSError) or host not in self.brokers:
                return on_connected(found)
            assert isinstance(found, VirtualStream)
            tap = _Tap(self, self.brokers[host], found)
            handler = on_connected(tap)
            if handler is None:
                return None
            tap.handler = handler
            return tap

        self.world.network.connect(host, port, connected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.network, name)


@dataclass(eq=False, slots=True)
class _Asked:
    """A request that will be answered."""

    request: Request
    meddling: Meddling
    answer: bytes | None = None


class _Tap:
    """One connection: the stream that the client gets, and the handler that its real stream gets."""

    def __init__(self, network: WatchedNetwork, broker: int, stream: VirtualStream) -> None:
        self._network = network
        self._broker = broker
        self._stream = stream
        self.local, self.peer, self.unsent_bytes = stream.local, stream.peer, 0
        self.handler: StreamHandler
        self._sent = bytearray()
        self._reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
        self._asked: deque[_Asked] = deque()
        self._is_silent = False
        self._is_closed = False
        self._ready_us = 0

    # The client's side

    def send(self, parts: Sequence[Any]) -> None:
        for part in parts:
            self._sent += part
        while len(self._sent) >= 4:
            end = 4 + int.from_bytes(self._sent[:4])
            if len(self._sent) < end:
                break
            frame = bytes(self._sent[:end])
            del self._sent[:end]
            self._pass_on(frame)

    def pause_reading(self) -> None:
        self._stream.pause_reading()

    def resume_reading(self) -> None:
        self._stream.resume_reading()

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        self._stream.abort()

    def _pass_on(self, frame: bytes) -> None:
        if self._is_silent:
            return
        network = self._network
        request = read_request(frame[4:])
        name = APIS[request.header.request_api_key].name
        network.requests.append((self._broker, name, request.header.request_api_version))
        meddling = network.meddle(self._broker, request)
        if meddling is FINE and isinstance(request.body, ApiVersionsRequest) and network.versions:
            meddling = self._fewer_versions(request)
        if meddling.is_lost:
            self._is_silent = True
            return
        asked = _Asked(request, meddling)
        if not (isinstance(request.body, ProduceRequest) and request.body.acks == 0):
            self._asked.append(asked)
        if meddling.answer is None:
            self._stream.send([frame])
        else:
            asked.answer = _written(request, meddling.answer)
            self._go_on()

    def _fewer_versions(self, request: Request) -> Meddling:
        """As an old broker tells what it speaks, or that it does not speak this version of the question (KIP-511)."""
        versions = {APIS_BY_NAME[name].key: given for name, given in self._network.versions.items()}
        key = request.header.request_api_key
        first, last = versions.get(key, APIS[key].advertised)
        if not first <= request.header.request_api_version <= last:
            refusal = unsupported_api_versions()
            assert isinstance(refusal, ApiVersionsResponse)
            refusal.api_keys = [ApiVersion(key, first, last)]
            return Meddling(answer=refusal)

        def change(answer: ApiVersionsResponse) -> None:
            for one in answer.api_keys:
                one.min_version, one.max_version = versions.get(one.api_key, (one.min_version, one.max_version))

        return Meddling(change=change)

    # The broker's side

    def get_buffer(self) -> memoryview:
        return self._reader.get_buffer()

    def on_received(self, count: int) -> None:
        self._reader.received(count)
        while (frame := self._reader.next_frame()) is not None:
            asked = next(one for one in self._asked if one.answer is None)
            asked.answer = self._changed(asked, bytes(frame))
        self._reader.keep()
        self._go_on()

    def on_drained(self) -> None:
        self.handler.on_drained()

    def on_closed(self, error: OSError | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.handler.on_closed(error)

    def _changed(self, asked: _Asked, frame: bytes) -> bytes:
        request, change = asked.request, asked.meddling.change
        if change is None:
            return len(frame).to_bytes(4) + frame
        answer = read_response(frame, request.header.request_api_key, request.version).body
        change(answer)
        return _written(request, answer)

    def _go_on(self) -> None:
        loop = self._network.world.loop
        while self._asked and self._asked[0].answer is not None:
            asked = self._asked.popleft()
            assert asked.answer is not None
            if asked.meddling.loses_answer:
                self._asked.clear()
                self._is_silent = True
                for end in (self._stream, self._stream.other):
                    end.fail(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
                return
            self._ready_us = max(self._ready_us, loop.now_us + round(asked.meddling.delay_ms * 1000))
            loop.call_at_us(self._ready_us, self._deliver, asked.answer, context=self._network.world.life.context)

    def _deliver(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._is_closed:
            buffer = self.handler.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.handler.on_received(count)


def _written(request: Request, answer: Message) -> bytes:
    is_refusal = isinstance(answer, ApiVersionsResponse) and answer.error_code
    parts = write_response(request.header.correlation_id, answer, 0 if is_refusal else request.version)
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # bytes only: no files here


def only(apis: Iterable[tuple[int, str, int]], name: str) -> list[tuple[int, int]]:
    """Broker and version of every request of one API."""
    return [(broker, version) for broker, api, version in apis if api == name]

"""A peer on the virtual network that does what a test says, down to the byte at which it falls silent."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from ottla.net import FrameReader, Link, LinkObserver, LinkSettings, ReceiveBuffer
from ottla.sim import (
    Host,
    Life,
    Pace,
    VirtualClock,
    VirtualDisk,
    VirtualLoop,
    VirtualNetwork,
    VirtualNodeWorld,
    node_world,
)
from ottla.wire import APIS, Message
from ottla.wire.frames import Request, read_request, write_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.world import Address, Stream

PORT = 9092
VERSIONS = {18: (0, 4), 3: (0, 13)}


def quick(chance: Random) -> Pace:
    """Bytes that are cut anywhere and come at once: a test may say how long something takes."""
    pace = Pace(chance)
    pace.delay_us, pace.stall_chance = (20, 200), 0.0
    return pace


class Session:
    """The peer's end of a connection."""

    def __init__(self, peer: Peer, stream: Stream) -> None:
        self.peer = peer
        self.stream = stream
        self.sent_bytes = 0
        self.is_closed = False
        self._reader = FrameReader(ReceiveBuffer(), 1 << 20)

    def get_buffer(self) -> memoryview:
        return self._reader.get_buffer()

    def on_received(self, count: int) -> None:
        self._reader.received(count)
        while not self.is_closed:
            frame = self._reader.next_frame()
            if frame is None:
                break
            request = read_request(bytes(frame))
            self.peer.requests.append(request)
            self.peer.on_request(self, request)
        self._reader.keep()

    def answer(self, request: Request, response: Message | None = None, *, correlation_id: int | None = None) -> None:
        """Answer it, as far as the peer's bytes go."""
        if response is None:
            response = self.peer.response(request)
        chosen = request.header.correlation_id if correlation_id is None else correlation_id
        self.send(b"".join(bytes(part) for part in write_response(chosen, response, request.version)))  # type: ignore[arg-type]

    def send(self, data: bytes) -> None:
        left = self.peer.bytes_max - self.sent_bytes
        if self.is_closed or left < 0:
            return
        self.sent_bytes += len(data)
        if data[:left]:
            self.stream.send([data[:left]])
        if len(data) >= left:
            self.peer.on_exhausted(self)

    def close(self) -> None:
        self.is_closed = True
        self.stream.close()

    def abort(self) -> None:
        self.is_closed = True
        self.stream.abort()

    def on_drained(self) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        self.is_closed = True


class Peer:
    """Host `peer`, which listens on 9092 unless told otherwise, and host `here`, which has the link."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(seed))
        self.network.pace = quick
        self.clock = VirtualClock()
        self.loop.attach(self.clock)
        self.host = self.network.add_host("peer")
        self.seed = seed
        self.world = self._world(self.host)
        self.here = self._world(self.network.add_host("here"))
        self.sessions: list[Session] = []
        self.requests: list[Request] = []
        self.bytes_max = 1 << 30
        """After so many bytes of a connection comes `on_exhausted`, and nothing more."""
        self.on_exhausted: Callable[[Session], None] = lambda session: None
        self.on_request: Callable[[Session, Request], None] = lambda session, request: session.answer(request)
        self.listener = self.world.network.listen("", PORT, self._accept)

    def _world(self, host: Host) -> VirtualNodeWorld:
        disk = VirtualDisk(Random(f"{self.seed} {host.name} disk"), self.clock)
        return node_world(self.network, host, self.clock, disk, Life(host.name), f"{self.seed} {host.name}")

    def _accept(self, stream: Stream) -> Session:
        session = Session(self, stream)
        self.sessions.append(session)
        return session

    def listen_again(self) -> None:
        self.listener = self.world.network.listen("", PORT, self._accept)

    def response(self, request: Request) -> Message:
        if request.header.request_api_key == 18:
            return ApiVersionsResponse(api_keys=[ApiVersion(key, *bounds) for key, bounds in VERSIONS.items()])
        return MetadataResponse(cluster_id="virtual")

    def link(self, observer: LinkObserver | None = None, **settings: Any) -> Link:
        made = LinkSettings(client_id="test", **settings)
        return Link(self.here, Address("peer", PORT), made, subject="Test", node_id=7, observer=observer)

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run it to its end, on the host that has the link."""
        task = self.loop.create_task(main, context=self.here.life.context.copy())
        try:
            return self.loop.run_until_complete(task)
        finally:
            self.here.life.end()
            self.world.life.end()
            self.loop.close()

    @property
    def now_ms(self) -> int:
        return self.clock.monotonic_ms()

    def asked(self) -> list[str]:
        return [APIS[request.header.request_api_key].name for request in self.requests]


def metadata() -> MetadataRequest:
    return MetadataRequest(topics=[])

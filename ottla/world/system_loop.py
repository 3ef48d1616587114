"""The real network and the real tasks, on an asyncio event loop.

Connections are plain non-blocking sockets, not asyncio transports: those hide `sendfile` and copy what they are given.
`run_node` is the way in: it makes the loop (uvloop's where it is installed, else asyncio's) and the `NodeWorld`, and
runs one coroutine to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import random
import signal
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ottla.types import Buffer
from ottla.world.network import BACKLOG, Accept, Address, Part, Slice, Stream, StreamHandler
from ottla.world.open_files import OpenFiles, open_file_limit, raise_open_file_limit
from ottla.world.system import SystemClock, SystemDisk
from ottla.world.tasks import Promise, Task, Timer
from ottla.world.world import NodeWorld

log = logging.getLogger(__name__)

T = TypeVar("T")

ACCEPTS_MAX = 64
"""How many connections one wake-up takes, so that a flood of them does not hold everything else up."""
DESCRIPTORS_KEPT_MAX = 64
"""How many descriptors connections leave for files: a checkpoint or the sync of a directory needs one for a moment."""
INLINE_MAX = 32 * 1024
"""A file slice up to this size is read and sent with what surrounds it: one call instead of three."""
SEND_BUFFER_BYTES = 200 * 1024
"""What the kernel may hold of a connection to be sent.

Left to itself it grows to megabytes. Then the receiver copies from memory what it could have copied from the cache.
With Kafka's default of 100 KiB the sender wakes up twice as often and needs a sixth more CPU; above 200 KiB little is
left to gain, and Linux allows no more than 208 KiB unless `net.core.wmem_max` says otherwise.
"""
_PARTS_MAX = 512


GARBAGE_THRESHOLDS = (700, 10, 1_000)
"""Python's own, but for the last: a full collection after millions of objects, not after 70,000 and a quarter more.

What a node makes while it opens thousands of logs stays, and each full collection on the way looks at all of it again.
"""


def run_node(main: Callable[[NodeWorld, Promise[str]], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in the real world until it returns. Its promise resolves when the process is asked to stop: with the
    signal's name. A second signal ends the process as it would without a handler."""
    # What is imported stays for good: without it a full collection takes microseconds instead of 12 ms.
    raise_open_file_limit()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()  # off, where the caller imported without looking for garbage
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:

        async def start() -> T:
            loop = asyncio.get_running_loop()
            world = NodeWorld(
                clock=SystemClock(),
                disk=SystemDisk(OpenFiles()),
                random=random.SystemRandom(),
                tasks=SystemTasks(loop),
                network=SystemNetwork(loop),
            )
            stop: Promise[str] = loop.create_future()
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` means it
                    loop.add_signal_handler(number, _ask_to_stop, loop, stop, number)
            return await main(world, stop)

        return runner.run(start())


def _ask_to_stop(loop: asyncio.AbstractEventLoop, stop: Promise[str], number: signal.Signals) -> None:
    loop.remove_signal_handler(number)
    if not stop.done():
        stop.set_result(number.name)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop; None for asyncio's own. On uvloop a round trip takes an eighth less."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet, of the kind that `run_node` uses."""
    return (_loop_factory() or asyncio.new_event_loop)()


class SystemTasks:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[Any]] = set()

    def soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon(call)

    def later(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        return self._loop.call_later(delay_ms / 1000, call)

    def promise(self) -> Promise[Any]:
        return self._loop.create_future()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        task = self._loop.create_task(work, name=name)
        # The loop holds tasks weakly; this keeps one alive until it is done.
        self._running.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("[Tasks] %s failed", task.get_name(), exc_info=task.exception())

    def sleep_ms(self, delay_ms: float) -> Awaitable[None]:
        return asyncio.sleep(delay_ms / 1000)

    def in_thread(self, work: Callable[[], T], *, at_once: bool = False) -> Awaitable[T]:
        if not at_once:
            return self._loop.run_in_executor(None, work)
        done: asyncio.Future[T] = self._loop.create_future()
        threading.Thread(target=self._run, args=(work, done), name="at-once", daemon=True).start()
        return done

    def _run(self, work: Callable[[], T], done: asyncio.Future[T]) -> None:
        result: T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  whatever it is, the one who waits gets it
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(_settle, done, result, failure)


def _settle(done: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(result)
    else:
        done.set_exception(failure)


class SystemNetwork:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def listen(self, host: str, port: int, accept: Accept, *, backlog: int = BACKLOG) -> SystemListener:
        return SystemListener(self._loop, _listening_socket(host, port, backlog), accept)

    def connect(self, host: str, port: int, on_connected: Callable[[Stream | OSError], StreamHandler | None]) -> None:
        async def run() -> None:
            try:
                sock = await self._connect(host, port)
            except OSError as error:
                on_connected(error)
                return
            stream = SystemStream(self._loop, sock)
            stream.start(on_connected(stream))

        task = self._loop.create_task(run())
        _connecting.add(task)
        task.add_done_callback(_connecting.discard)

    def own_name(self, timeout_ms: float) -> Awaitable[str]:
        from ottla.world.own_name import own_name  # most nodes are told their names

        return own_name(self._loop, timeout_ms)

    async def _connect(self, host: str, port: int) -> socket.socket:
        """A connection to the first address of `host` that takes one."""
        failure: OSError | None = None
        found = _numeric(host, port) or await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            try:
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = failure or error
            except BaseException:
                sock.close()
                raise
            else:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return sock
        raise failure or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")


_connecting: set[asyncio.Task[None]] = set()


def _numeric(host: str, port: int) -> list[Any]:
    """What `getaddrinfo` says of a numeric IPv4 address, without the thread and the memory that a look-up takes.

    `getaddrinfo` imports the tables of international domain names for every string.
    """
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return []
    return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]


def _listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    if not host:
        # All addresses of both families where the machine has IPv6, as a Java server listens.
        try:
            return _bound_socket(socket.AF_INET6, ("::", port), backlog)
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
            return _bound_socket(socket.AF_INET, ("0.0.0.0", port), backlog)
    infos = _numeric(host, port) or socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
    return _bound_socket(infos[0][0], infos[0][4], backlog)


def _bound_socket(family: int, address: Any, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _address(name: Any) -> Address:
    """An address of a socket; an IPv4 peer of a socket for both families has its IPv4 form."""
    return Address(name[0].removeprefix("::ffff:") if "." in name[0] else name[0], name[1])


class SystemListener:
    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, accept: Accept) -> None:
        self._loop = loop
        self._sock = sock
        self._accept = accept
        self.address = _address(sock.getsockname())
        self._is_paused = True
        self.resume()

    def _on_ready(self) -> None:
        for _ in range(ACCEPTS_MAX):
            if self._is_paused:
                return  # by the owner, because of the connection just taken
            try:
                sock, _peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: the connection stays in the queue, and asking again at once would spin.
                log.error("[Listener %s] Cannot accept a connection: %s", self.address, error)
                self._wait()
                return
            fd = sock.fileno()
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            try:
                stream = SystemStream(self._loop, sock)
            except OSError:
                sock.close()  # the peer has gone already
                continue
            stream.start(self._accept(stream))
            if _is_scarce(fd) and not self._is_paused:
                log.error("[Listener %s] Accepts no more connections until descriptors are free", self.address)
                self._wait()
                return

    def _wait(self) -> None:
        self._loop.remove_reader(self._sock)
        self._loop.call_later(1, self._try_again)

    def pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._sock)

    def resume(self) -> None:
        if self._is_paused and self._sock.fileno() >= 0:
            self._is_paused = False
            self._loop.add_reader(self._sock, self._on_ready)

    def _try_again(self) -> None:
        if self._is_paused:
            return
        try:
            probe = os.dup(self._sock.fileno())
            os.close(probe)
        except OSError:
            probe = open_file_limit()
        if _is_scarce(probe):
            self._loop.call_later(1, self._try_again)
        else:
            self._loop.add_reader(self._sock, self._on_ready)

    def close(self) -> None:
        self.pause()
        self._sock.close()


def _is_scarce(fd: int) -> bool:
    """Whether few descriptors are left, now that the system, which gives the lowest that is free, gave this one."""
    limit = open_file_limit()
    return fd >= limit - min(DESCRIPTORS_KEPT_MAX, limit // 8)


class SystemStream:
    """A non-blocking socket, its handler, and what is still to be sent."""

    __slots__ = (
        "_fd",
        "_handler",
        "_is_closing",
        "_is_reading",
        "_is_writing",
        "_loop",
        "_queue",
        "_sock",
        "local",
        "peer",
        "unsent_bytes",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self.local = _address(sock.getsockname())
        self.peer = _address(sock.getpeername())
        self._handler: StreamHandler | None = None
        self._queue: deque[memoryview | Slice] = deque()
        self.unsent_bytes = 0
        self._is_reading = False
        self._is_writing = False
        self._is_closing = False

    def start(self, handler: StreamHandler | None) -> None:
        """Begin to read for `handler`; without one the connection is refused."""
        if handler is None:
            self._sock.close()
            return
        self._handler = handler
        if self._sock.fileno() >= 0:
            self.resume_reading()

    # In

    def _on_readable(self) -> None:
        handler = self._handler
        assert handler is not None, "a stream is read only once it has a handler"
        try:
            count = self._sock.recv_into(handler.get_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._shut(error)
            return
        if count == 0:
            self._shut(None)
        else:
            handler.on_received(count)

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing and self._handler is not None:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    # Out

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closing:
            return
        queue = self._queue
        is_full = self._is_writing
        if not queue and len(parts) == 1 and type(data := parts[0]) is bytearray:
            # The everyday response, small and with nothing before it.
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._loop.call_soon(self._shut, error)
                return
            if sent == len(data):
                return
            parts = (memoryview(data)[sent:],)
            is_full = True
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                view = memoryview(part)
                if len(view):
                    queue.append(view)
                    self.unsent_bytes += len(view)
            elif part.size:
                queue.append(part if part.size > INLINE_MAX else memoryview(part.read()))
                self.unsent_bytes += part.size
        if not is_full:
            try:
                self._write()
            except OSError as error:
                # Told later: the owner is in the middle of something.
                self._loop.call_soon(self._shut, error)
                return
        if queue and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(self._fd, self._on_writable)

    def _write(self) -> None:
        """Send until all is sent or the socket takes no more.

        A socket that took a part is full: it is not asked again before the loop says that it has room. Asking at once
        costs a call that fails and, while the peer reads, many that send a few KiB each.
        """
        queue = self._queue
        while queue:
            if isinstance(queue[0], memoryview):
                views: list[Buffer] = []
                has_file_next = False
                for part in queue:
                    if not isinstance(part, memoryview):
                        has_file_next = True
                        break
                    views.append(part)
                    if len(views) == _PARTS_MAX:
                        break
                # What precedes a file goes into the same packet as its first bytes.
                flags = socket.MSG_MORE if has_file_next else 0
                try:
                    if len(views) == 1:
                        sent = self._sock.send(views[0], flags)
                    else:
                        sent = self._sock.sendmsg(views, (), flags)
                except (BlockingIOError, InterruptedError):
                    return
                self._forget(sent)
                if sent < sum(map(len, views)):
                    return
            elif not self._send_file(queue[0]):
                return

    def _send_file(self, part: Slice) -> bool:
        """Send a slice, or what the socket takes of it; False when that was not all."""
        try:
            sent = os.sendfile(self._fd, part.file.fileno(), part.position, part.size)
        except (BlockingIOError, InterruptedError):
            return False
        if sent == 0:
            raise OSError(errno.EIO, "the file ended before what was to be sent of it", part.file.path)
        self.unsent_bytes -= sent
        if sent == part.size:
            self._queue.popleft()
            return True
        self._queue[0] = _Rest(part.file, part.position + sent, part.size - sent)
        return False

    def _forget(self, sent: int) -> None:
        """Take what was sent off the queue."""
        queue = self._queue
        self.unsent_bytes -= sent
        while sent:
            head = queue[0]
            assert isinstance(head, memoryview), "only buffers were sent"
            if sent < len(head):
                queue[0] = head[sent:]
                return
            sent -= len(head)
            queue.popleft()

    def _on_writable(self) -> None:
        try:
            self._write()
        except OSError as error:
            self._shut(error)
            return
        if self._queue:
            return
        self._stop_writing()
        if self._is_closing:
            self._shut(None)
        elif self._handler is not None:
            self._handler.on_drained()

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._fd)

    # The end

    def close(self) -> None:
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if not self._queue:
            self._loop.call_soon(self._shut, None)

    def abort(self) -> None:
        self.pause_reading()
        self._is_closing = True
        self._loop.call_soon(self._shut, None)

    def _shut(self, error: OSError | None) -> None:
        if self._sock.fileno() < 0:
            return
        self.pause_reading()
        self._stop_writing()
        self._is_closing = True
        self._queue.clear()
        self.unsent_bytes = 0
        self._sock.close()
        handler, self._handler = self._handler, None
        if handler is not None:
            handler.on_closed(error)


class _Rest:
    """What is left to send of a file slice."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: Any, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        data: bytes = self.file.read_at(self.position, self.size)
        return data

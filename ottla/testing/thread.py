"""A node on a thread of the test's own process: the quickest way to have one, and the default."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from ottla.testing.errors import ClusterError
from ottla.testing.host import Host, Orders
from ottla.world.threads import LoopThread

STOP_TIMEOUT_S = 30.0
_LOGGERS_OF_NODES = tuple(
    f"ottla.{name}" for name in ("coordinator", "metadata", "net", "node", "raft", "replica", "server", "storage")
)


class ThreadNode:
    """A `NodeUnderTest`. Each life has a thread of its own, which ends with it."""

    def __init__(self, name: str, host: str) -> None:
        self._name = name
        self._host_name = host
        self._thread: LoopThread | None = None
        self._host: Host | None = None
        self._started: Future[None] = Future()
        self._hold: threading.Event | None = None
        self._port = 0
        self._ahead_ms = 0

    @property
    def is_running(self) -> bool:
        return self._host is not None

    @property
    def is_paused(self) -> bool:
        return self._hold is not None

    @property
    def address(self) -> str:
        return f"{self._host_name}:{self._port}"

    def begin(self, orders: Orders) -> None:
        assert self._thread is None, "it runs already"
        _say_nothing_unasked()
        thread = self._thread = LoopThread(self._name)
        try:
            host = self._host = thread.call(lambda: Host(orders, thread.world, self._ahead_ms))
        except BaseException:
            self._end(None)
            raise
        started = self._started = Future[None]()
        thread.post(lambda: thread.world.tasks.spawn(_start(host, started), "start"))

    def is_ready(self, timeout_s: float) -> bool:
        try:
            self._started.result(timeout_s)
        except FutureTimeout:
            if self._started.done():
                raise  # it is why the node cannot start
            return False
        assert self._host is not None, "it runs"
        self._port = self._host.port
        return True

    def stop(self) -> None:
        assert self._thread is not None, "it does not run"
        assert self._host is not None, "it does not run"
        host, self._host = self._host, None
        try:
            self._thread.run(host.stop(), STOP_TIMEOUT_S)
        finally:
            self._end(host)

    def kill(self) -> None:
        if self._thread is None or self._host is None:
            return
        host, self._host = self._host, None
        if self.is_paused:
            self.resume()  # it dies where it stands
        else:
            self._thread.call(host.die)
        self._end(host)

    def _end(self, host: Host | None) -> None:
        """Let the thread end, and whatever its node has left open."""
        assert self._thread is not None, "it does not run"
        self._thread.close()
        self._thread = None
        if host is not None:
            host.disk.close_all()

    def pause(self) -> None:
        """Nothing runs on its loop. What it has handed to other threads, such as a device sync, still ends."""
        assert self._thread is not None, "it does not run"
        assert self._host is not None, "it does not run"
        hold = self._hold = threading.Event()
        is_held = threading.Event()
        host = self._host

        def stand_still() -> None:
            is_held.set()
            hold.wait()
            if self._host is not host:  # it was killed meanwhile
                host.die()

        self._thread.post(stand_still)
        is_held.wait()

    def resume(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.set()

    def ask(self, command: str, *arguments: Any) -> Any:
        assert self._thread is not None, "it does not run"
        assert self._host is not None, "it does not run"
        answer = self._thread.run(self._host.command(command, list(arguments)))
        self._ahead_ms = self._host.clock.ahead_ms
        return answer


async def _start(host: Host, started: Future[None]) -> None:
    try:
        await host.start()
    except Exception as error:  # noqa: BLE001  whatever it is, the one who waits gets it
        started.set_exception(error)
    except BaseException:
        started.set_exception(ClusterError("the node was killed while it started"))
        raise
    else:
        started.set_result(None)


def _say_nothing_unasked() -> None:
    """Nodes warn of faults, and here those were asked for: only a program that has set up logging hears of them."""
    for name in _LOGGERS_OF_NODES:
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())

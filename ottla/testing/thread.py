"""A node on a thread of the test's own process: the quickest way to have one, and the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.testing.host import Host
from ottla.world.threads import LoopThread

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class ThreadNode:
    """A `NodeUnderTest`. Each life has a thread of its own, which ends with it."""

    def __init__(self, name: str, host: str, settings_for: Callable[[int], dict[str, str]]) -> None:
        """`settings_for` gives the settings for a port: 0 at first, then always the one that was chosen."""
        self._name = name
        self._host_name = host
        self._settings_for = settings_for
        self._thread: LoopThread | None = None
        self._host: Host | None = None
        self._port = 0
        self._ahead_ms = 0

    @property
    def is_running(self) -> bool:
        return self._host is not None

    @property
    def address(self) -> str:
        return f"{self._host_name}:{self._port}"

    def start(self) -> None:
        assert self._thread is None, "it runs already"
        thread = self._thread = LoopThread(self._name)
        host = None
        try:
            host = thread.call(lambda: Host(self._settings_for(self._port), thread.world, self._ahead_ms))
            thread.run(host.start(), START_TIMEOUT_S)
        except BaseException:
            self._end(host)
            raise
        self._host = host
        self._port = host.port

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
        self._thread.call(host.die)
        self._end(host)

    def _end(self, host: Host | None) -> None:
        """Let the thread end, and whatever its node has left open."""
        assert self._thread is not None, "it does not run"
        self._thread.close()
        self._thread = None
        if host is not None:
            host.disk.close_all()

    def ask(self, command: str, *arguments: Any) -> Any:
        assert self._thread is not None, "it does not run"
        assert self._host is not None, "it does not run"
        answer = self._thread.run(self._host.command(command, list(arguments)))
        self._ahead_ms = self._host.clock.ahead_ms
        return answer

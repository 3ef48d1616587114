"""`DirectSelector`: an event loop's selector that calls the owners of connections itself.

For every event asyncio makes an entry in a queue, takes it out again and enters a context: as much Python as the
request that the event brings. Descriptors that are added here with `add_reader` and `add_writer` are called from inside
`select`; whatever asyncio registers (its own pipe, listeners, signals) goes its usual way. Both kinds hang on one
epoll, so a wake-up is one system call. Linux only: elsewhere, and on uvloop, connections use the loop's own readers.
"""

from __future__ import annotations

import logging
import select
import selectors
from collections.abc import Callable
from typing import Any, Protocol

log = logging.getLogger(__name__)

EVENTS_MAX = 256
"""How many descriptors one wake-up serves; those left over are first the next time."""


class Watch(Protocol):
    """What calls the owner of a descriptor when it can be read or written: an event loop, or a `DirectSelector`."""

    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> object: ...

    def remove_reader(self, fd: int, /) -> object: ...

    def add_writer(self, fd: int, callback: Callable[[], Any], /) -> object: ...

    def remove_writer(self, fd: int, /) -> object: ...


if hasattr(select, "epoll"):

    class DirectSelector(selectors.EpollSelector):
        """See the module. A call that raises is logged: its owner should have known what to do."""

        def __init__(self) -> None:
            super().__init__()
            self._readers: dict[int, Callable[[], Any]] = {}
            self._writers: dict[int, Callable[[], Any]] = {}
            # asyncio's descriptors stay on the epoll of the parent, which is one more descriptor on this one.
            self._inner_fd = self.fileno()
            self._epoll = select.epoll()
            self._epoll.register(self._inner_fd, select.EPOLLIN)

        def add_reader(self, fd: int, callback: Callable[[], Any], /) -> None:
            is_known = fd in self._readers or fd in self._writers
            self._readers[fd] = callback
            self._watch(fd, is_known)

        def add_writer(self, fd: int, callback: Callable[[], Any], /) -> None:
            is_known = fd in self._readers or fd in self._writers
            self._writers[fd] = callback
            self._watch(fd, is_known)

        def remove_reader(self, fd: int, /) -> None:
            if self._readers.pop(fd, None) is not None:
                self._watch(fd, True)

        def remove_writer(self, fd: int, /) -> None:
            if self._writers.pop(fd, None) is not None:
                self._watch(fd, True)

        def _watch(self, fd: int, is_known: bool) -> None:
            events = (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)
            if not events:
                self._epoll.unregister(fd)
            elif is_known:
                self._epoll.modify(fd, events)
            else:
                self._epoll.register(fd, events)

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            """Call the owners of what is ready; returns what is asyncio's to call."""
            ready: list[tuple[selectors.SelectorKey, int]] = []
            for fd, events in self._epoll.poll(-1 if timeout is None else max(timeout, 0), EVENTS_MAX):
                if fd == self._inner_fd:
                    ready = super().select(0)
                    continue
                # An error or a hang-up is for both sides to find out. Either may be gone by now: a call before this
                # one may have ended the connection.
                if events & ~select.EPOLLOUT and (call := self._readers.get(fd)) is not None:
                    self._call(call)
                if events & ~select.EPOLLIN and (call := self._writers.get(fd)) is not None:
                    self._call(call)
            return ready

        def _call(self, call: Callable[[], Any]) -> None:
            try:
                call()
            except Exception:
                log.error("[Network] A connection failed in an unexpected way", exc_info=True)

        def close(self) -> None:
            self._epoll.close()
            super().close()

"""An asyncio event loop on virtual time: it never waits, it moves the clocks to the next timer.

Everything that runs is a call in one queue, ordered by its time and then by when it was asked for, so the order depends
on nothing but the calls themselves. Coroutines are ordinary asyncio tasks: code written for the real loop runs here.

A call belongs to the `Life` in whose context it was asked for; a dead life's calls are dropped, which is how a node can
be killed in the middle of everything while the others go on. The calls of a paused life wait until it goes on; where
calls cost time, those of one life come one after another, each when the one before it has been paid for.

Promises: no call runs inside another; time moves only when nothing is left to do at the present instant. A run in which
nothing is left to happen raises `Deadlock`, one in which too much happens raises `Runaway`: neither hangs.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, NoReturn, TypeVar

from ottla.sim.clock import VirtualClock
from ottla.sim.faults import SimulatedCrash
from ottla.sim.life import LIFE, Life
from ottla.world import ClientWorld

log = logging.getLogger(__name__)

T = TypeVar("T")

STEPS_MAX = 3_000_000
"""Calls in a whole run."""
INSTANT_STEPS_MAX = 50_000
"""Calls without time passing: beyond this something keeps itself busy."""


class Deadlock(AssertionError):
    """What was waited for can never happen: nothing is left to run."""


class Runaway(AssertionError):
    """More happened than any sound run has need of."""


class NotVirtual(RuntimeError):
    """What was asked for is real, and virtual time has nothing of the kind."""


class Call:
    """Something to be called, now or at a time."""

    __slots__ = ("args", "callback", "context", "life", "when_us")

    def __init__(self, when_us: int, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.when_us = when_us
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        self.life = context.get(LIFE)

    def cancel(self) -> None:
        self.callback = None  # what it would have held alive goes with it
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        """The time it is planned for, as `VirtualLoop.time` tells it."""
        return self.when_us / 1_000_000


class _Promise(asyncio.Future[Any]):
    """A future that knows whose it is."""

    __slots__ = ("life",)

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop=loop)
        self.life = LIFE.get()


# To the type checker a loop must have sockets, signals and processes; asyncio itself asks for none of them.
_Loop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_Loop):  # type: ignore[misc]
    """The queue of calls, and the time. Microseconds inside; the clocks show whole milliseconds."""

    def __init__(self, *, steps_max: int = STEPS_MAX, instant_steps_max: int = INSTANT_STEPS_MAX) -> None:
        self.now_us = 0
        self.step_count = 0
        self._steps_max = steps_max
        self._instant_steps_max = instant_steps_max
        self._steps_before = 0
        """The calls up to the present instant."""
        self._lives: list[Life] = []
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[int, int, Call]] = []
        self._timer_count = 0
        self._is_closed = False
        self._is_running = False
        self._outside = Context()

    def attach(self, clock: VirtualClock) -> None:
        """Let this clock go with the loop's time. Each node has its own, which may be wrong about the wall time."""
        clock.follow(self)

    def keep(self, life: Life) -> None:
        """Keep a life, and so what it left unfinished, until the loop is closed.

        A task that is forgotten while it waits complains when the garbage collector finds it, at a time of its own.
        """
        self._lives.append(life)

    # Asking for calls.

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Call:
        call = Call(self.now_us, callback, args, copy_context() if context is None else context)
        self._ready.append(call)
        return call

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Call:
        return self.call_at_us(round(when * 1_000_000), callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Call:
        return self.call_at_us(self.now_us + round(delay * 1_000_000), callback, *args, context=context)

    def call_at_us(
        self, when_us: int, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Call:
        """Call at a time of the loop, in microseconds; at once when it has passed."""
        when_us = max(when_us, self.now_us)
        call = Call(when_us, callback, args, copy_context() if context is None else context)
        self._timer_count += 1
        heapq.heappush(self._timers, (when_us, self._timer_count, call))
        return call

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Call:
        return self.call_soon(callback, *args, context=context)

    # What asyncio's tasks and futures ask of a loop.

    def time(self) -> float:
        return self.now_us / 1_000_000

    def create_future(self) -> asyncio.Future[Any]:
        return _Promise(self)

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def running_world(self) -> ClientWorld:
        """The world of the life whose call runs now: `ottla.world.threads.running_world` asks for it."""
        life = LIFE.get()
        if life is None or life.world is None:
            raise RuntimeError("this runs in no simulated process: make the client inside of one, or give it a world")
        return life.world

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Drop what is still planned. Coroutines that never finished are forgotten without a word."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        # What died with its node, or failed just before and was still to be told, had nobody left to tell.
        future = context.get("future")
        is_over = isinstance(future, _Promise) and future.life is not None and future.life.is_over
        if not (self._is_closed or is_over or isinstance(context.get("exception"), SimulatedCrash)):
            log.error("[Loop] %s", context.get("message"), exc_info=context.get("exception"))

    # Running.

    def run_until_complete(self, future: Awaitable[T]) -> T:
        """Run until `future` is done; its result, or its exception."""
        waited = asyncio.ensure_future(future, loop=self)
        self.run_until(waited.done)
        return waited.result()

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Run calls until the condition holds. It is asked after every call."""
        assert not self._is_running, "the loop runs once at a time"
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._is_running = True
        try:
            while not is_done():
                self._step()
        finally:
            self._is_running = False
            asyncio._set_running_loop(before)

    def _step(self) -> None:
        """Run one call, after moving the time to it."""
        while not self._ready:
            if not self._timers:
                raise Deadlock(f"nothing is left to run at {self.now_us / 1000:.3f} ms")
            self._move_to(self._timers[0][0])
        call = self._ready.popleft()
        life = call.life
        if life is None or not life.is_still:
            self._run(call)
        elif not life.is_over:
            life.held.append(call)

    def _run(self, call: Call) -> None:
        callback, life = call.callback, call.life
        if callback is None:
            return
        self.step_count += 1
        if self.step_count > self._steps_max or self.step_count - self._steps_before > self._instant_steps_max:
            self._run_away()
        try:
            call.context.run(callback, *call.args)
        except SimulatedCrash:
            assert life is not None, "only the disk of a node raises this"
            life.was_told_to_die = True
        except Exception as error:
            if life is None:
                raise  # the simulator's own mistake
            log.error("[Loop] A call of %s failed", life.name, exc_info=error)
        if life is not None:
            # The disk is asked too, because a node that swallows the exception dies all the same.
            disk = life.disk
            if (life.was_told_to_die or (disk is not None and disk.is_halted)) and not life.is_over:
                life.on_crash()
            if life.cost_us is not None and not life.is_over:
                self._keep_busy(life, life.cost_us())

    # Lives that stand still.

    def pause(self, life: Life) -> None:
        """Let nothing of this life run until `resume`, as SIGSTOP does; its time goes on."""
        life.is_paused = life.is_still = True

    def resume(self, life: Life) -> None:
        """Let it go on, with all that should have happened meanwhile."""
        life.is_paused = False
        # Soon, not now: who resumes it may be a task, and inside of one no other runs.
        self.call_soon(self._go_on, life, context=self._outside)

    def _keep_busy(self, life: Life, cost_us: int) -> None:
        if cost_us:
            life.is_still = True
            life.busy_until_us = self.now_us + cost_us
            self.call_at_us(life.busy_until_us, self._go_on, life, context=self._outside)

    def _go_on(self, life: Life) -> None:
        """Run what was held back. Where calls cost time, no more than the processor has time for."""
        while not (life.is_over or life.is_paused or life.busy_until_us > self.now_us):
            if life.cost_us is None or not life.held:
                life.is_still = False
                self._ready.extend(life.held)
                life.held.clear()
                return
            self._run(life.held.popleft())

    def _run_away(self) -> NoReturn:
        now = f"at {self.now_us / 1000:.3f} ms"
        if self.step_count > self._steps_max:
            raise Runaway(f"{self.step_count} calls {now}: the run does not come to an end")
        raise Runaway(f"{self.step_count - self._steps_before} calls {now} without time passing")

    def _move_to(self, when_us: int) -> None:
        """Let the time come, and make ready all that is due then."""
        if when_us > self.now_us:
            self._steps_before = self.step_count
            self.now_us = when_us
        timers = self._timers
        while timers and timers[0][0] <= when_us:
            self._ready.append(heapq.heappop(timers)[2])


_THREAD = "a thread, and virtual time has none: do the work in a coroutine"
_SOCKET = "a real socket, and the virtual network has none: use Ottla's Async clients"
_SYSTEM = "the real system, and a simulated process stands on none"
_REAL = {
    "run_in_executor": _THREAD,
    "set_default_executor": _THREAD,
    **dict.fromkeys(
        (
            "create_connection",
            "create_server",
            "create_datagram_endpoint",
            "create_unix_connection",
            "create_unix_server",
            "connect_accepted_socket",
            "start_tls",
            "sendfile",
            "getaddrinfo",
            "getnameinfo",
            "add_reader",
            "remove_reader",
            "add_writer",
            "remove_writer",
            "sock_recv",
            "sock_recv_into",
            "sock_recvfrom",
            "sock_recvfrom_into",
            "sock_sendall",
            "sock_sendto",
            "sock_sendfile",
            "sock_connect",
            "sock_accept",
        ),
        _SOCKET,
    ),
    **dict.fromkeys(
        (
            "subprocess_exec",
            "subprocess_shell",
            "connect_read_pipe",
            "connect_write_pipe",
            "add_signal_handler",
            "remove_signal_handler",
        ),
        _SYSTEM,
    ),
}
"""What asyncio's loops have and this one cannot have."""


def _refusal(name: str, what: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotVirtual(f"{name} needs {what}")

    return refuse


for _name, _what in _REAL.items():
    setattr(VirtualLoop, _name, _refusal(_name, _what))

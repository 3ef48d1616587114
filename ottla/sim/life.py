"""One life of a node or of a client: from its start until it is stopped, killed, or dies of its disk.

Whatever a node asks the loop to call is marked with its life, through the context that asyncio hands on by itself. When
the life ends, nothing of it runs any more: timers, callbacks, tasks, all gone between two calls, as after kill -9.

A life that is paused (SIGSTOP) or whose processor is busy is *still*: the loop keeps its calls back, in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from ottla.sim.disk import VirtualDisk
from ottla.sim.faults import SimulatedCrash
from ottla.world import ClientWorld, number_anew

if TYPE_CHECKING:
    from ottla.sim.loop import Call

LIFE: ContextVar[Life | None] = ContextVar("life", default=None)
"""Whose context this is."""


class Life:
    """What belongs together and dies together."""

    __slots__ = (
        "busy_until_us",
        "context",
        "cost_us",
        "disk",
        "held",
        "is_over",
        "is_paused",
        "is_still",
        "name",
        "on_crash",
        "tasks",
        "was_told_to_die",
        "world",
    )

    def __init__(self, name: str, disk: VirtualDisk | None = None, on_crash: Callable[[], None] | None = None) -> None:
        self.name = name
        self.is_over = False
        self.is_paused = False
        self.is_still = False
        """Whether none of its calls may run now: it is over, paused, or its processor is busy."""
        self.held: deque[Call] = deque()
        """The calls whose time came while it was still."""
        self.cost_us: Callable[[], int] | None = None
        """How long the processor was busy with the call that has just returned; nothing costs time without it."""
        self.busy_until_us = 0
        self.world: ClientWorld | None = None
        """What a client gets that is made in this life and is given nothing else."""
        self.was_told_to_die = False
        """Whether the disk has raised `SimulatedCrash`: it is ended as soon as the call in which that was is over."""
        self.disk = disk
        self.on_crash: Callable[[], None] = on_crash or self.end
        self.tasks: list[asyncio.Task[Any]] = []
        self.context: Context = copy_context()
        """In which everything of this life runs."""
        self.context.run(LIFE.set, self)
        self.context.run(number_anew)

    def end(self) -> None:
        """Let nothing of this life run any more; called from outside of it.

        Its coroutines are ended here and now, in the order they were begun, by a `SimulatedCrash` at the place where
        they wait: left to the garbage collector, their `finally` blocks would run at a moment that no seed decides.
        """
        if self.is_over:
            return
        self.is_over = self.is_still = True
        self.held.clear()
        if self.disk is not None:
            self.disk.halt()
        with warnings.catch_warnings():
            # What a task was to wait for that had not begun itself: nobody ever will.
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            for task in self.tasks:
                if not task.done():
                    coroutine: Any = task.get_coro()
                    with contextlib.suppress(SimulatedCrash, Exception):
                        coroutine.throw(SimulatedCrash(f"{self.name} is dead"))
                    with contextlib.suppress(RuntimeError, SimulatedCrash):
                        coroutine.close()

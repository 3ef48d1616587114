"""`ottla.world.Tasks` on the virtual loop, for one life of one node.

What blocks takes time here too: `in_thread` does its work after a while and tells of it a while later, so that
everything else can happen before a device sync, and between the sync and the news of it. What a slow disk needs for the
work comes on top of that, and only whoever waits for it waits. Timers go by the host's clock, which may drift.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from ottla.sim.clock import VirtualClock
from ottla.sim.faults import SimulatedCrash
from ottla.sim.life import Life
from ottla.sim.loop import VirtualLoop
from ottla.world import Promise, Task, Timer

log = logging.getLogger(__name__)

T = TypeVar("T")

THREAD_US_MAX = 3_000
SLOW_THREAD_US_MAX = 120_000
"""A device that is busy with something else."""


class VirtualTasks:
    """The tasks of one life."""

    def __init__(self, loop: VirtualLoop, life: Life, chance: Random, clock: VirtualClock) -> None:
        self._loop = loop
        self._clock = clock
        self._life = life
        self._chance = chance
        self.slow_thread_chance = 0.02
        self.turn_us_max = 0
        """How long others may be at work when a task lets them have their turn."""
        loop.keep(life)

    def soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon(call, context=self._life.context)

    def later(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        loop = self._loop
        return loop.call_at_us(loop.now_us + self._clock.true_us(delay_ms), call, context=self._life.context)

    def promise(self) -> Promise[Any]:
        return self._loop.create_future()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        life = self._life
        if life.is_over:
            work.close()
            raise SimulatedCrash(f"{life.name} is dead: {name} is not begun")
        task = self._loop.create_task(work, name=name, context=life.context.copy())
        life.tasks.append(task)
        task.add_done_callback(self._on_done, context=life.context)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._life.tasks.remove(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, SimulatedCrash):
            self._life.was_told_to_die = True
        elif error is not None:
            log.error("[Tasks] %s failed", task.get_name(), exc_info=error)

    def sleep_ms(self, delay_ms: float) -> Awaitable[None]:
        if not delay_ms and self.turn_us_max:
            return asyncio.sleep(self._chance.randrange(self.turn_us_max) / 1_000_000)
        return asyncio.sleep(self._clock.true_us(delay_ms) / 1_000_000 if self._clock.drift_ppm else delay_ms / 1000)

    def in_thread(self, work: Callable[[], T], *, at_once: bool = False) -> Awaitable[T]:
        told: asyncio.Future[T] = self._loop.create_future()
        self._after_a_while(lambda: self._run(work, told))
        return told

    def _run(self, work: Callable[[], T], told: asyncio.Future[T]) -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who waits gets it
            failure = error
            self._after_a_while(lambda: None if told.done() else told.set_exception(failure), self._disk_us())
            return
        self._after_a_while(lambda: None if told.done() else told.set_result(result), self._disk_us())

    def _disk_us(self) -> int:
        """How long the disk was at work in this thread: the loop's thread does not wait for it."""
        return 0 if self._life.disk is None else self._life.disk.take_time_us(self._loop.now_us)

    def _after_a_while(self, call: Callable[[], object], disk_us: int = 0) -> None:
        chance = self._chance
        us_max = SLOW_THREAD_US_MAX if chance.random() < self.slow_thread_chance else THREAD_US_MAX
        delay_us = disk_us + chance.randrange(us_max)
        self._loop.call_at_us(self._loop.now_us + delay_us, call, context=self._life.context)

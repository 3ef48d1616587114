"""What the active controller does by the clock.

Promises: a task runs again only after its last run is committed or refused, so a slow disk never piles them up. They
run while the controller is active and at no other time. The first run is an interval after it became active, whatever
there is to do by then, as Kafka's `PeriodicTaskControlManager` has it in 4.3. A task that failed runs again after its
interval, where Kafka's waits five minutes. Called by the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.errors import NotController
from ottla.machine import Result
from ottla.world import Promise, Tasks, Timer

log = logging.getLogger(__name__)

AGAIN_MS = 10
"""How soon a task runs again that has more to do."""


class PeriodicTasks:
    """Decisions that nobody asked for, each with its interval."""

    def __init__(self, tasks: Tasks, submit: Callable[[str, Callable[[], Result[bool]]], Promise[bool]]) -> None:
        self._tasks = tasks
        self._submit = submit
        self._timers: dict[str, Timer] = {}
        self._term: object | None = None
        """What tells this time of being active from the last one; None while not active."""

    def start(self, tasks: dict[str, tuple[float, Callable[[], Result[bool]]]]) -> None:
        """Run these by name: the interval in milliseconds, and a decision that says whether there is more to do."""
        self._term = object()
        for name, (interval_ms, decide) in tasks.items():
            self._schedule(name, interval_ms, interval_ms, decide)

    def stop(self) -> None:
        self._term = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _schedule(self, name: str, delay_ms: float, interval_ms: float, decide: Callable[[], Result[bool]]) -> None:
        term = self._term

        def run() -> None:
            self._submit(name, decide).add_done_callback(on_done)

        def on_done(promise: Promise[bool]) -> None:
            has_more = False
            try:
                has_more = promise.result()
            except NotController:
                pass  # leadership is lost, and the next leader has tasks of its own; or too much is uncommitted
            except Exception:
                log.exception("[PeriodicTask] %s failed", name)
            if self._term is not None and self._term is term:
                self._schedule(name, AGAIN_MS if has_more else interval_ms, interval_ms, decide)

        self._timers[name] = self._tasks.later(delay_ms, run)

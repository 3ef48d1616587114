"""Waiting in the course of a run, in nobody's life: for a time, or for something that may not take for ever."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

from ottla.sim.history import Violation
from ottla.sim.loop import VirtualLoop

T = TypeVar("T")

POLL_MS = 100


async def sleep_ms(loop: VirtualLoop, delay_ms: float) -> None:
    done = loop.create_future()
    loop.call_later(delay_ms / 1000, done.set_result, None, context=Context())
    await done


async def within(loop: VirtualLoop, work: Coroutine[Any, Any, T], limit_ms: int, what: str) -> T:
    """The result of something; `Violation` when it takes longer than that."""
    task = loop.create_task(work)
    deadline = loop.call_later(limit_ms / 1000, task.cancel)
    try:
        return await task
    except BaseException as error:
        if deadline.when_us <= loop.now_us and task.cancelled():
            raise Violation(f"{what} takes longer than {limit_ms} ms") from error
        raise
    finally:
        deadline.cancel()


async def until(loop: VirtualLoop, missing: Callable[[], list[str]], limit_ms: int, what: str) -> None:
    """Wait until nothing is missing any more; `Violation` names what still is when the time is over."""
    deadline_us = loop.now_us + limit_ms * 1000
    while found := missing():
        if loop.now_us > deadline_us:
            raise Violation(f"{what}: {limit_ms} ms are not enough, and still {'; '.join(found[:5])}")
        await sleep_ms(loop, POLL_MS)

"""Numbers that grow within a process: 1 for its first producer, 2 for its second, as in the names of clients.

A simulated process is a process of its own, so it counts anew: a seed runs the same whatever ran before it.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count

_PROCESS: dict[str, count[int]] = {}
_SIMULATED: ContextVar[dict[str, count[int]] | None] = ContextVar("numbers of a simulated process", default=None)


def next_number(kind: str) -> int:
    """1 for the first of this kind, then 2, and so on."""
    counts = _SIMULATED.get()
    return next((_PROCESS if counts is None else counts).setdefault(kind, count(1)))


def number_anew() -> None:
    """Count from 1 again in the present context and those copied from it."""
    _SIMULATED.set({})

"""The `client.id` of a client that was given none: what it is, and a number that grows within the process.

The one counter here is why a simulation, which must run the same twice in a process, names its clients itself.
"""

from __future__ import annotations

from itertools import count

_COUNTS: dict[str, count[int]] = {}


def next_number(kind: str) -> int:
    """1 for the process's first client of this kind, then 2, and so on."""
    return next(_COUNTS.setdefault(kind, count(1)))

"""Whether something can be read, with any number of files open: select() knows only the first 1,024."""

from __future__ import annotations

import select
from typing import Protocol


class HasFile(Protocol):
    def fileno(self) -> int: ...


def is_ready(*readers: HasFile, wait_s: float = 0) -> bool:
    """Whether one of them has something to read, or has come to its end, in that time."""
    poll = select.poll()
    for one in readers:
        poll.register(one.fileno(), select.POLLIN)
    return bool(poll.poll(wait_s * 1000))

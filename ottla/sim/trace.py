"""What happened in a run, line by line: the last of it to be read when a seed fails, all of it in one digest.

Two runs of a seed are the same run when their digests are equal; the test of that runs under different hash seeds.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

LINES_MAX = 5_000


class Trace:
    """The lines of one run, each with its virtual time."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._digest = hashlib.sha256()
        self.line_count = 0

    def __call__(self, line: str) -> None:
        text = f"{self._now_us() / 1000:>12.3f}  {line}"
        self._lines.append(text)
        self._digest.update(text.encode())
        self.line_count += 1

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:16]

    def last(self, count: int = 200) -> str:
        return "\n".join(list(self._lines)[max(0, len(self._lines) - count) :])

"""Producer ids for this broker to give out, from the blocks that the controller hands it.

Promises: an id is given once. Blocks are the controller's to keep apart between brokers, and what is left of one when
a broker stops is never used. Called by `ottla.server.producer_ids`, which fetches blocks.
"""

from __future__ import annotations

from ottla.world import Promise

PREFETCH_SHARE = 0.9
"""The next block is asked for when this much of the current one is used, so that nobody has to wait for it."""


class ProducerIds:
    __slots__ = ("_end", "_following", "_next", "_prefetch_at", "fetching")

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._following: tuple[int, int] | None = None
        self.fetching: Promise[None] | None = None
        """Resolved when the block that was asked for has come, or will not come."""

    def take(self) -> int | None:
        """The next id; None when a block has to come first."""
        if self._next == self._end:
            if self._following is None:
                return None
            (start, count), self._following = self._following, None
            self._next, self._end = start, start + count
            self._prefetch_at = start + int(count * PREFETCH_SHARE)
        taken = self._next
        self._next += 1
        return taken

    @property
    def has_any(self) -> bool:
        """Whether `take` has one to give."""
        return self._next < self._end or self._following is not None

    @property
    def wants_block(self) -> bool:
        """Whether the next block should be asked for by now."""
        return self._following is None and self._next >= self._prefetch_at

    def add(self, start: int, count: int) -> None:
        """A block has come."""
        assert count > 0, f"a block of {count} producer ids from {start}"
        self._following = (start, count)

"""Who is told when the group gives or takes partitions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ottla.types import TopicPartition

Told: TypeAlias = Callable[[list[TopicPartition]], Awaitable[object] | object]
"""A function, or a coroutine function for an `AsyncConsumer`."""


class RebalanceListener:
    """To be derived from. The methods run inside `poll()`, `unsubscribe()` and `close()`, and may commit, seek and
    pause; with an `AsyncConsumer` they may be coroutines. What they raise is raised by the call that they run in."""

    def on_assigned(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        """These are new; nothing was read of them yet."""
        return None

    def on_revoked(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        """These are about to be given to others: the last moment to commit."""
        return None

    def on_lost(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        """These may belong to others already, and commits are refused. Without more, what `on_revoked` does."""
        return self.on_revoked(partitions)


class FunctionListener(RebalanceListener):
    """A listener of single functions."""

    def __init__(self, on_assigned: Told | None, on_revoked: Told | None, on_lost: Told | None) -> None:
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost or on_revoked

    def on_assigned(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        return None if self._on_assigned is None else self._on_assigned(partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        return None if self._on_revoked is None else self._on_revoked(partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> Awaitable[object] | object:
        return None if self._on_lost is None else self._on_lost(partitions)

"""What a coordinator writes: records with a key and a value, and the marks that end transactions."""

from __future__ import annotations

from typing import NamedTuple

from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire import Message


class CoordinatorRecord(NamedTuple):
    """A key, and the value that it has from now on; None ends it (a tombstone)."""

    key: Message
    value: Message | None = None
    version: int = 0
    """Of the value, as it is written."""


class EndMarker(NamedTuple):
    """The end of a transaction that has records in a shard's partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Of the transaction coordinator that decided."""
    is_commit: bool


class Producer(NamedTuple):
    """The transactional producer on whose behalf records are written."""

    id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


Entry = CoordinatorRecord | EndMarker

"""`SnapshotGenerator`: has a snapshot of the image written when raft says that one is due.

Promises: one at a time, of an image that ends where a batch of the log ends; a snapshot that fails is logged and tried
again at a later image, because the log still has everything. A publisher like any other, added last.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from typing import Protocol

from ottla.metadata.delta import Delta
from ottla.metadata.image import Image
from ottla.wire.metadata import VersionedRecord
from ottla.world import Tasks

log = logging.getLogger(__name__)


class SnapshotStore(Protocol):
    """What writes snapshots: `RaftNode`."""

    @property
    def snapshot_due(self) -> str | None: ...

    def create_snapshot(self, offset: int, epoch: int, records: Iterable[VersionedRecord]) -> Awaitable[object]: ...


class SnapshotGenerator:
    """Asks after every image."""

    def __init__(self, tasks: Tasks, store: SnapshotStore) -> None:
        self._tasks = tasks
        self._store = store
        self._is_busy = False

    def on_metadata(self, delta: Delta, image: Image) -> None:
        if self._is_busy or delta.is_snapshot or not delta.is_batch_aligned:
            return
        reason = self._store.snapshot_due
        if reason is not None:
            self._is_busy = True
            log.info("[SnapshotGenerator] Creating a snapshot at offset %d because %s", image.offset + 1, reason)
            self._tasks.spawn(self._create(image), "metadata-snapshot")

    async def _create(self, image: Image) -> None:
        try:
            await self._store.create_snapshot(image.offset + 1, image.epoch, image.records())
        except Exception:
            log.exception("[SnapshotGenerator] The snapshot at offset %d failed", image.offset + 1)
        finally:
            self._is_busy = False

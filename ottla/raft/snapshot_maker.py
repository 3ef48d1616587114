"""Snapshots of the metadata log: when one is due, and writing it while everything else goes on.

Promises: one at a time; records are taken in small steps and the file is frozen in a thread, so nobody waits; one that
cannot be ended leaves nothing behind. Called by `driver`, which says when the log may not be used any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from ottla.raft.batches import MetadataRecord
from ottla.raft.config import RaftSettings
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.snapshot import SnapshotId, SnapshotWriter
from ottla.world import NodeWorld

_RECORDS_A_STEP = 64
"""How many records a snapshot takes before others get a turn: about a millisecond."""


class SnapshotMaker:
    """The snapshots that one node makes."""

    def __init__(
        self,
        world: NodeWorld,
        config: RaftSettings,
        log: MetadataLog,
        *,
        check_usable: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._world = world
        self._config = config
        self._log = log
        self._check_usable = check_usable
        self._is_stopping = is_stopping
        self._last_ms = world.clock.monotonic_ms()
        self.is_under_way = False

    def note_new(self) -> None:
        """There is a new snapshot, made here or fetched: the next is due that much later."""
        self._last_ms = self._world.clock.monotonic_ms()

    @property
    def due(self) -> str | None:
        """Why a snapshot should be made now, by `metadata.log.max.*`; None when none should."""
        if self.is_under_way:
            return None
        bytes_max = self._config.metadata_log_max_record_bytes_between_snapshots
        if self._log.bytes_since_snapshot >= bytes_max:
            return f"we have replayed at least {bytes_max} bytes"
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        waited_ms = self._world.clock.monotonic_ms() - self._last_ms
        if interval_ms and waited_ms >= interval_ms and self._log.bytes_since_snapshot:
            return f"we have waited at least {interval_ms // 60_000} minute(s)"
        return None

    async def create(self, id: SnapshotId, records: Iterable[MetadataRecord]) -> int | None:
        """Write one and take it into the log; its size. None when there is one, when one is being written, when the
        node stops before this one is done, or when the log begins above it by then."""
        writer = None if self.is_under_way else self._log.new_snapshot(id)
        if writer is None:
            return None
        self.is_under_way = True
        try:
            if not await self._write(writer, records):
                return None
            self._check_usable()  # the log may have failed meanwhile
            if not self._log.add_snapshot(id):
                return None
        finally:
            self.is_under_way = False
        self.note_new()
        return writer.size

    async def _write(self, writer: SnapshotWriter, records: Iterable[MetadataRecord]) -> bool:
        """Whether it could be ended before the node stops."""
        try:
            remaining = iter(records)
            while step := list(islice(remaining, _RECORDS_A_STEP)):
                writer.append(step)
                await self._world.tasks.sleep_ms(0)
                if self._is_stopping():
                    writer.give_up()
                    return False
            writer.finish()
            await self._world.tasks.in_thread(writer.freeze)
        except Exception:
            writer.give_up()
            raise
        return True

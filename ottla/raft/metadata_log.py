"""The log of `__cluster_metadata` and its snapshots: opened, read, appended to, cut at its start.

Promises:
- Every start reads the log from its first segment on and cuts it behind the last whole batch, as Kafka does: nothing
  torn is ever read, and no checkpoint has to be right.
- The log begins at or before its oldest snapshot, and there is a snapshot wherever the log does not begin at 0: the
  whole state can always be read.
- The voters and the `kraft.version` are known at every offset from the latest snapshot on; where the log has none, the
  voters of the settings count. Nobody else keeps them.

Called by `driver`, on its one thread; `sync` of a plan may run in another.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from ottla.config import LogConfig
from ottla.errors import CorruptMessage
from ottla.raft.batches import BATCH_BYTES_MAX, decode_control, decode_records
from ottla.raft.config import RaftSettings
from ottla.raft.files import parent_of
from ottla.raft.format import METADATA_DIR
from ottla.raft.listener import CommittedBatch
from ottla.raft.log_view import EpochEnd
from ottla.raft.messages import PARTITION
from ottla.raft.snapshot import DELETED, Snapshot, SnapshotId, SnapshotReceiver, SnapshotWriter, parse_name
from ottla.raft.voters import EMPTY_VOTERS, History, VoterSet
from ottla.records import Batch, batches
from ottla.storage import AppendOrigin, Chores, Isolation, LogDir, SyncPlan, load_log
from ottla.types import METADATA_TOPIC_ID, Buffer
from ottla.wire.data.control import KRaftVersionRecord, VotersRecord
from ottla.world import World

log = logging.getLogger(__name__)

READ_BYTES_MAX = 64 * 1024
"""How much is read and told at once, unless one batch is larger: some hundred records, a few milliseconds."""
SNAPSHOT_BATCH_BYTES_MAX = 1 << 20
"""Smaller than Kafka's 8 MiB, so that no batch takes longer than a few milliseconds to build."""
DELETE_DELAY_MS = 60_000
"""How long a deleted snapshot is kept under another name, for whoever still reads it."""


class MetadataLog:
    """See the module."""

    def __init__(
        self, world: World, config: RaftSettings, log_dir: str, static_voters: VoterSet = EMPTY_VOTERS
    ) -> None:
        self._world = world
        self._config = config
        self._static_voters = static_voters
        self.directory = f"{log_dir.rstrip('/')}/{METADATA_DIR}"
        self.chores = Chores(world.clock)
        is_new = not world.disk.exists(self.directory)
        self._log = load_log(
            world,
            LogDir(log_dir),
            self.directory,
            _log_config(config),
            self.chores,
            partition=PARTITION,
            topic_id=METADATA_TOPIC_ID,
        )
        if is_new:
            world.disk.sync_dir(parent_of(self.directory))
        self.bytes_since_snapshot = 0
        """How much of the log the latest snapshot does not contain."""
        self._voters: History[VoterSet] = History()
        self._kraft_versions: History[int] = History()
        self._snapshots: list[SnapshotId] = []
        self._snapshot_facts: dict[SnapshotId, tuple[int, int]] = {}
        self._find_snapshots()
        self._truncate_to_latest_snapshot()
        self._read_control_records()

    # What it is

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def size(self) -> int:
        return self._log.size

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, or of the snapshot that the log begins with; 0 when there is nothing."""
        latest = self._log.epochs.latest_epoch
        if latest is not None:
            return latest
        return self._snapshots[-1].epoch if self._snapshots else 0

    @property
    def flushed_offset(self) -> int:
        """Everything below is on the device."""
        return self._log.recovery_point

    @property
    def voters(self) -> VoterSet:
        found = self._voters.latest
        return self._static_voters if found is None else found

    @property
    def voters_offset(self) -> int | None:
        return self._voters.latest_offset

    @property
    def kraft_version(self) -> int:
        return self._kraft_versions.latest or 0

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch at or below `epoch`, and where it ends; the log's end for one above all."""
        found = self._log.end_offset_for_epoch(epoch)
        if found is None:
            return EpochEnd(self.last_epoch, self.end_offset)
        earliest = self.earliest_snapshot_id
        if earliest is not None and found == (epoch, earliest.offset):
            # Below all epochs of the log: the last that is known is the one that the log's first snapshot ends with.
            return EpochEnd(earliest.epoch, earliest.offset)
        return EpochEnd(*found)

    @property
    def failure(self) -> str | None:
        """Why the device can no longer be used, once it cannot."""
        return self._log.log_dir.failure

    # Append, read, commit

    def begin_epoch(self, epoch: int) -> None:
        """An epoch begins at the log's end; on disk before any batch of it is."""
        self._log.epochs.assign(epoch, self.end_offset)

    def append(self, data: bytes, *, epoch: int) -> int:
        """Append one whole batch of this leader's; returns the last offset."""
        info = self._log.append_as_leader(data, leader_epoch=epoch, origin=AppendOrigin.RAFT_LEADER)
        self._note_appended(data)
        return info.last_offset

    def append_fetched(self, data: Buffer, *, epoch: int) -> None:
        """Append batches of the leader of `epoch`, those that are whole; `CorruptMessage` if they cannot follow."""
        offset = self.end_offset
        for batch in batches(data):
            if batch.base_offset != offset:
                raise CorruptMessage(f"A batch begins at offset {batch.base_offset} where {offset} was fetched")
            offset = batch.next_offset
        info = self._log.append_as_follower(data, leader_epoch=epoch)
        # Raft tells by the recovery point what is durable, and that waits for the epochs' file.
        self._log.epochs.flush()
        self._note_appended(memoryview(data)[: info.size])

    def _note_appended(self, data: Buffer) -> None:
        for batch in batches(data):
            if batch.is_control:
                self._note_control(batch)
        self.bytes_since_snapshot += len(data)

    def truncate_to(self, offset: int) -> None:
        """Drop everything at and above `offset`."""
        assert offset >= self.high_watermark, f"{offset} is below the high watermark {self.high_watermark}"
        segment_count = len(self._log.segments)
        self._log.truncate_to(offset)
        if len(self._log.segments) != segment_count:
            # A segment that a power cut brought back would follow others than those it was written behind.
            self._world.disk.sync_dir(self.directory)
        self._voters.truncate_to(offset)
        self._kraft_versions.truncate_to(offset)
        latest = self.latest_snapshot_id
        self.bytes_since_snapshot = self._bytes_from(self.start_offset if latest is None else latest.offset)

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Batches from `offset` on, committed or not, for a follower."""
        found = self._log.read(offset, bytes_max=bytes_max, isolation=Isolation.LOG_END)
        return b"" if found.slice is None else bytes(found.slice.read())

    def plan_sync(self) -> SyncPlan | None:
        """What to sync so that all of the log survives a power cut; None when it would already.

        The indexes are left out: every start rebuilds them. So a commit costs one sync of one file.
        """
        plan = self._log.plan_flush()
        if plan is not None:
            plan.files = [file for file in plan.files if file.path.endswith(".log")]
        return plan

    def advance_high_watermark(self, offset: int) -> None:
        self._log.advance_high_watermark(offset)

    def read_committed(self, offset: int) -> list[CommittedBatch]:
        """Batches from `offset` on, some of them; none at the high watermark."""
        return list(self._decoded(offset, Isolation.HIGH_WATERMARK))

    def timestamp_before(self, offset: int) -> int:
        """The timestamp of the batch that ends at `offset`."""
        found = self._log.read(offset - 1, bytes_max=1, isolation=Isolation.LOG_END)
        assert found.slice is not None, f"offset {offset - 1} is in the log"
        batch = next(batches(found.slice.read()))
        assert batch.next_offset == offset, f"{offset} is inside a batch, [{batch.base_offset}, {batch.last_offset}]"
        return batch.max_timestamp

    def _decoded(self, offset: int, isolation: Isolation) -> Iterator[CommittedBatch]:
        found = self._log.read(offset, bytes_max=READ_BYTES_MAX, isolation=isolation)
        if found.slice is None:
            return
        for batch in batches(found.slice.read()):
            batch.ensure_valid()
            yield CommittedBatch(
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                epoch=batch.leader_epoch,
                timestamp=batch.max_timestamp,
                records=decode_records(batch),
                size=batch.size,
            )

    # The voters in the log

    def _read_control_records(self) -> None:
        offset = self.start_offset
        latest = self.latest_snapshot()
        if latest is not None:
            offset = latest.offset
            if latest.kraft_version:
                self._kraft_versions.add(offset - 1, latest.kraft_version)
            if latest.voters is not None:
                self._voters.add(offset - 1, latest.voters)
        while offset < self.end_offset:
            found = self._log.read(offset, bytes_max=1 << 20, isolation=Isolation.LOG_END)
            assert found.slice is not None, f"offset {offset} is below the log's end"
            for batch in batches(found.slice.read()):
                offset = batch.next_offset
                self.bytes_since_snapshot += batch.size
                if batch.is_control:
                    batch.ensure_valid()
                    self._note_control(batch)

    def _note_control(self, batch: Batch) -> None:
        for offset, message in decode_control(batch):
            if isinstance(message, KRaftVersionRecord):
                self._kraft_versions.add(offset, message.k_raft_version)
            elif isinstance(message, VotersRecord):
                self._voters.add(offset, VoterSet.from_record(message))

    # Snapshots

    @property
    def latest_snapshot_id(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def earliest_snapshot_id(self) -> SnapshotId | None:
        return self._snapshots[0] if self._snapshots else None

    @property
    def snapshot_ids(self) -> list[SnapshotId]:
        return list(self._snapshots)

    def latest_snapshot(self) -> Snapshot | None:
        return self._open(self._snapshots[-1]) if self._snapshots else None

    def snapshot_size(self, id: SnapshotId) -> int | None:
        """Its bytes; None when there is no such snapshot."""
        return self._facts(id)[0] if id in self._snapshots else None

    def read_snapshot(self, id: SnapshotId, position: int, bytes_max: int) -> bytes:
        """A part of a snapshot's file, for a follower."""
        file = self._world.disk.open(f"{self.directory}/{id.name}", read_only=True)
        try:
            return bytes(file.read_at(position, min(bytes_max, file.size() - position)))
        finally:
            file.close()

    def receive_snapshot(self, id: SnapshotId) -> SnapshotReceiver:
        """Begin the file of a snapshot that the leader has."""
        return SnapshotReceiver(self._world.disk, f"{self.directory}/{id.name}", id)

    def install(self, id: SnapshotId) -> None:
        """A snapshot of the leader's is on disk: the log begins again where it ends."""
        assert id.offset >= self.high_watermark, f"{id} is below the high watermark {self.high_watermark}"
        if id not in self._snapshots:
            insort(self._snapshots, id)
        self._truncate_fully_at(id)
        self._voters, self._kraft_versions = History(), History()
        self.bytes_since_snapshot = 0
        self._read_control_records()

    def new_snapshot(self, id: SnapshotId) -> SnapshotWriter | None:
        """Begin a snapshot; None when there is one there, or when the log begins there or above it already."""
        if id.offset <= self.start_offset or id in self._snapshots:
            return None
        if id.offset > self.high_watermark:
            raise ValueError(f"a snapshot at {id} would hold what is not committed: {self.high_watermark} on")
        if self._log.epochs.epoch_for_offset(id.offset - 1) != id.epoch:
            raise ValueError(f"the batch before offset {id.offset} is not of epoch {id.epoch}")
        kraft_version = self._kraft_versions.at(id.offset - 1) or 0
        return SnapshotWriter(
            self._world.disk,
            self._world.clock,
            f"{self.directory}/{id.name}",
            epoch=id.epoch,
            last_contained_log_timestamp=self.timestamp_before(id.offset),
            kraft_version=kraft_version,
            voters=self._voters.at(id.offset - 1) if kraft_version else None,
            batch_bytes_max=SNAPSHOT_BATCH_BYTES_MAX,
        )

    def add_snapshot(self, id: SnapshotId) -> bool:
        """A snapshot is on disk: it counts from now on. False if the log begins above it by now, and it is gone."""
        if id.offset < self.start_offset:
            self._world.disk.remove(f"{self.directory}/{id.name}")
            return False
        insort(self._snapshots, id)
        self.bytes_since_snapshot = self._bytes_from(id.offset)
        self._voters.forget_before(id.offset - 1)
        self._kraft_versions.forget_before(id.offset - 1)
        return True

    def _bytes_from(self, offset: int) -> int:
        place = self._log.read(offset, bytes_max=1, isolation=Isolation.LOG_END).start
        behind = sum(s.size for s in self._log.segments if s.base_offset >= place.segment_base_offset)
        return behind - place.position

    def clean(self) -> bool:
        """Delete old snapshots, and the log below the oldest that stays, by `metadata.max.retention.*`; True if any.

        The latest snapshot always stays, so both limits are soft.
        """
        return self._clean_by_size() | self._clean_by_age()

    def _clean_by_size(self) -> bool:
        limit = self._config.metadata_max_retention_bytes
        is_cleaned = False
        while limit >= 0 and len(self._snapshots) > 1:
            snapshots_size = sum(self._facts(id)[0] for id in self._snapshots)
            if self.size + snapshots_size <= limit:
                break
            cause = f"the log's {self.size} and the snapshots' {snapshots_size} bytes are more than {limit}"
            if not self._delete_before(self._snapshots[1], cause):
                break
            is_cleaned = True
        return is_cleaned

    def _clean_by_age(self) -> bool:
        limit_ms = self._config.metadata_max_retention_ms
        now_ms = self._world.clock.now_ms()
        is_cleaned = False
        while limit_ms >= 0 and len(self._snapshots) > 1:
            timestamp = self._facts(self._snapshots[0])[1]
            if now_ms - timestamp <= limit_ms:
                break
            cause = f"its timestamp {timestamp} is older than {limit_ms} ms"
            if not self._delete_before(self._snapshots[1], cause):
                break
            is_cleaned = True
        return is_cleaned

    def _delete_before(self, id: SnapshotId, cause: str) -> bool:
        """Let the log begin at a snapshot: older snapshots and the segments wholly below it go."""
        if self.start_offset >= id.offset or not self._log.advance_log_start(id.offset, "a newer snapshot"):
            return False
        below = [s for s, following in pairwise(self._log.segments) if following.base_offset <= id.offset]
        self._log.delete_segments(below, f"log start offset {id.offset} breach")
        self._forget_before(id, cause)
        return True

    def _forget_before(self, id: SnapshotId, cause: str) -> None:
        for old in [old for old in self._snapshots if old < id]:
            log.info("[RaftLog %s] Marking snapshot %s for deletion because %s", PARTITION, old, cause)
            self._snapshots.remove(old)
            self._snapshot_facts.pop(old, None)
            path = f"{self.directory}/{old.name}"
            self._world.disk.rename(path, path + DELETED)
            self.chores.later(DELETE_DELAY_MS, f"removal of {old}", partial(self._remove, path + DELETED))

    def _remove(self, path: str) -> None:
        if self._world.disk.exists(path):
            self._world.disk.remove(path)

    def _facts(self, id: SnapshotId) -> tuple[int, int]:
        """A snapshot's size, and the time of the last record that it contains."""
        if id not in self._snapshot_facts:
            snapshot = self._open(id)
            self._snapshot_facts[id] = (
                self._world.disk.size(snapshot.path),
                snapshot.last_contained_log_timestamp,
            )
        return self._snapshot_facts[id]

    def _open(self, id: SnapshotId) -> Snapshot:
        return Snapshot(self._world.disk, f"{self.directory}/{id.name}", id)

    def _find_snapshots(self) -> None:
        """Take what is complete and at or above the log's start; remove what an interrupted write or deletion left."""
        leftovers = []
        for name in self._world.disk.names(self.directory):
            parsed = parse_name(name)
            if parsed is None:
                continue
            id, suffix = parsed
            if suffix or id.offset < self.start_offset:
                leftovers.append(name)
            else:
                self._snapshots.append(id)
        self._snapshots.sort()
        if self.start_offset > 0 and not self._snapshots:
            raise ValueError(
                f"{self.directory} begins at offset {self.start_offset} and has no snapshot of what came before"
            )
        for name in leftovers:
            log.info("[RaftLog %s] Deleted unneeded snapshot file %s", PARTITION, name)
            self._world.disk.remove(f"{self.directory}/{name}")

    def _truncate_to_latest_snapshot(self) -> None:
        """A snapshot from the leader may be complete while the log still ends before it: then the log begins there."""
        latest = self.latest_snapshot_id
        if latest is None:
            return
        # Also where the log's last epoch is above the snapshot's: then it is of a leader that lost what it had.
        if latest.offset > self.end_offset or latest.epoch > (self._log.epochs.latest_epoch or 0):
            self._truncate_fully_at(latest)

    def _truncate_fully_at(self, id: SnapshotId) -> None:
        log.info("[RaftLog %s] Truncating the log fully: it begins again at snapshot %s", PARTITION, id)
        self._log.truncate_fully_and_start_at(id.offset)
        # As in `truncate_to`, the old segments must not come back.
        self._world.disk.sync_dir(self.directory)
        self._forget_before(id, "the log was truncated fully")

    # Life

    def close(self) -> None:
        self._log.close()

    def abandon(self) -> None:
        """Give the descriptors back and write nothing."""
        self._log.abandon()


def _log_config(config: RaftSettings) -> LogConfig:
    """Neither age nor size deletes from this log: snapshots do."""
    return LogConfig().with_topic(
        {
            "max.message.bytes": BATCH_BYTES_MAX,
            "segment.ms": config.metadata_log_segment_ms,
            "retention.ms": -1,
            "retention.bytes": -1,
            **_segment_size(config.metadata_log_segment_bytes),
        }
    )


def _segment_size(size: int) -> dict[str, int]:
    # Below Kafka's least for a topic there is only the internal setting, which tests use.
    return {"segment.bytes": size} if size >= 1024 * 1024 else {"internal.segment.bytes": size}

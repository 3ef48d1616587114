"""The log of one partition: segments, the offsets that bound what may be seen, and the producers' state.

Promises:
- Offsets are assigned without holes and in order; what `append` returned is readable at once up to the log end, and
  durable once `flush` has covered it (`recovery_point`).
- Nothing is changed before every check has passed: a refused append leaves the log as it was.
- A device that fails takes its whole directory offline and raises `KafkaStorageError`; the log is not written again.
- `read` returns a slice of a file, never bytes, and never anything beyond the end its isolation allows.

`Log` has what all of these share: where it is, its segments, its bounds, its life. Each deed has a class of its own
with the state that only it needs: `log_appender`, `log_reader`, `watermarks`, `log_flusher`, `log_trimmer`.

It is synchronous, knows no network and no threads, and leaves slow work to `chores`. Called by the partition (leader
and follower), by the controller's metadata log and by `log_manager`; made by `loader.load_log`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.config import LogConfig
from ottla.errors import InconsistentTopicId, KafkaStorageError
from ottla.storage import names
from ottla.storage.atomic_file import directory_of
from ottla.storage.chores import DirectoryChores, SyncPlan
from ottla.storage.leader_epochs import LeaderEpochCache
from ottla.storage.log_appender import AppendInfo, LogAppender
from ottla.storage.log_dir import LogDir
from ottla.storage.log_flusher import LogFlusher
from ottla.storage.log_reader import Isolation, LogRead, LogReader
from ottla.storage.log_trimmer import LogTrimmer
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.partition_metadata import PartitionMetadata
from ottla.storage.producer_append import TRANSACTION_VERSION_UNKNOWN
from ottla.storage.producer_state import ProducerStateManager
from ottla.storage.segment import Segment, TimedOffset
from ottla.storage.segments import Segments
from ottla.storage.transaction_index import AbortedTxn
from ottla.storage.validator import AppendOrigin
from ottla.storage.watermarks import Watermarks
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.world import World

log = logging.getLogger(__name__)


class Log:
    """See the module. The attributes are there to read; only this package changes them."""

    def __init__(
        self,
        world: World,
        log_dir: LogDir,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        *,
        segments: Segments,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        chores: DirectoryChores,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        topic_id: Uuid | None = None,
    ) -> None:
        self.world = world
        self.log_dir = log_dir
        self.directory = directory
        self.partition = partition
        self.config = config
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.chores = chores
        self.log_end_offset = log_end_offset
        self.batches_end = log_end_offset
        """Where the last batch ends: below the log's end where a truncation has cut a batch in two."""
        self.log_start_offset = max(log_start_offset, segments.first.base_offset)
        self.is_closed = False
        self.topic_id = topic_id
        self.is_unsettled = epochs.unwritten_from is not None
        """Whether the topic's id is yet to be written down, before a record is, or the leader's epoch, soon after."""
        self._is_writing_epochs = False
        self._is_id_written = topic_id is not None
        self._metadata_file = PartitionMetadata(world.disk, f"{directory}/{names.PARTITION_METADATA}")
        self.appender = LogAppender(self)
        self.reader = LogReader(self)
        self.watermarks = Watermarks(self)
        self.flusher = LogFlusher(self, recovery_point)
        self.trimmer = LogTrimmer(self)

    def __repr__(self) -> str:
        return (
            f"Log({self.directory!r}, log_start_offset={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset})"
        )

    # Where it begins, ends and may be seen

    @property
    def end(self) -> OffsetMetadata:
        active = self.segments.active
        return OffsetMetadata(self.log_end_offset, active.base_offset, active.size)

    @property
    def high_watermark(self) -> int:
        return self.watermarks.high_watermark

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is not decided, or whose decision is not replicated yet."""
        return self.watermarks.first_unstable_offset

    @property
    def last_stable_offset(self) -> int:
        return self.watermarks.last_stable_offset

    @property
    def recovery_point(self) -> int:
        """Everything below survives a power cut."""
        return self.flusher.recovery_point

    @property
    def last_flushed_ms(self) -> int:
        return self.flusher.last_flushed_ms

    @property
    def truncation_count(self) -> int:
        """Grows with every truncation: a cleaner that sees it change starts over."""
        return self.trimmer.truncation_count

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def unflushed_count(self) -> int:
        return self.log_end_offset - self.recovery_point

    @property
    def is_future(self) -> bool:
        return self.directory.endswith(names.FUTURE_DIR)

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept within the log; returns what it became."""
        return self.watermarks.update(offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to `offset`; False when it is there or beyond already."""
        return self.watermarks.advance(offset)

    def advance_high_watermark_to_end(self) -> bool:
        """As `advance_high_watermark`, for a log that has no other replicas: its end is what everybody has."""
        return self.watermarks.advance_to_end()

    def visible_end(self, isolation: Isolation) -> OffsetMetadata:
        """Where a reader's view ends, with its place in the files."""
        return self.watermarks.visible_end(isolation)

    # Append

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader begins at the log's end: known now to followers that ask, and in the file soon after it appends."""
        self.check_usable()
        self.epochs.begin(leader_epoch, self.log_end_offset)
        self.is_unsettled = True

    def settle(self) -> None:
        """What comes before a record: the log's name and the topic's id are written down, the epochs will be."""
        self.check_usable()
        try:
            self._write_id()
        except OSError as error:
            self.log_dir.fail(f"writing partition metadata of {self.partition}", error)
        self.write_epochs_later()
        self.is_unsettled = False

    def write_epochs_later(self) -> None:
        """The file of the epochs follows what is in memory: not here, where somebody waits for an append."""
        if self.epochs.unwritten_from is not None and not self._is_writing_epochs:
            self._is_writing_epochs = True
            self.chores.later(0, f"leader epochs of {self.partition}", self._plan_epochs)

    def _plan_epochs(self) -> SyncPlan | None:
        self._is_writing_epochs = False
        if self.epochs.unwritten_from is None or self.is_closed or self.log_dir.is_offline:
            return None
        doing = f"writing the leader epochs of {self.partition}"
        self._is_writing_epochs = True
        try:
            file = self.epochs.prepare()
        except OSError as error:
            self.log_dir.fail(doing, error)

        def publish() -> None:
            self._is_writing_epochs = False
            file.close()
            if self.is_closed:
                return
            try:
                if self.epochs.publish():
                    self.flusher.on_new_name()
            except OSError as error:
                self.log_dir.fail(doing, error)
            self.write_epochs_later()

        return SyncPlan(self.world.disk, [file], on_done=publish, on_failed=self.flusher.on_failed)

    def _write_id(self) -> None:
        if self.topic_id is not None and not self._is_id_written:
            self._metadata_file.write(self.topic_id)
            self.world.disk.sync_dir(directory_of(self.directory))
            self._is_id_written = True

    def plan_settle(self) -> SyncPlan | None:
        """The same for the name and the id of a log that was just made, while nobody waits for it to be written to."""
        if self.topic_id is None or self._is_id_written or self.is_closed or self.log_dir.is_offline:
            return None
        doing = f"writing partition metadata of {self.partition}"
        try:
            file = self._metadata_file.prepare(self.topic_id)
        except OSError as error:
            self.log_dir.fail(doing, error)

        def publish() -> None:
            file.close()
            # An append may have come first, and a deletion as well.
            if self._is_id_written or self.is_closed:
                return
            try:
                self._metadata_file.publish()
            except OSError as error:
                self.log_dir.fail(doing, error)
            self._is_id_written = True

        return SyncPlan(self.world.disk, [file], [directory_of(self.directory)], publish)

    def sync_snapshot_later(self) -> None:
        """Recovery has written a producer snapshot: retention may in time remove the records that it was made from."""
        self.chores.later(0, f"producer snapshot of {self.partition}", self._plan_snapshot_sync)

    def _plan_snapshot_sync(self) -> SyncPlan | None:
        offset = self.producers.latest_snapshot_offset
        if offset is None or self.is_closed or self.log_dir.is_offline:
            return None
        file = self.world.disk.open(self.producers.snapshots.path(offset))
        return SyncPlan(self.world.disk, [file], [self.directory], on_done=file.close)

    def append_as_leader(
        self,
        data: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendInfo:
        """Append one batch, giving it the next offsets and the leader's epoch. A writable `data` is stamped in place.

        A batch of an idempotent producer that is already in the log is answered with the offsets it has there.
        `RAFT_LEADER` batches come with their offsets and epoch set, and there may be several.
        """
        return self.appender.append_as_leader(data, leader_epoch, origin, verification_guard, transaction_version)

    def append_as_follower(self, data: Buffer, *, leader_epoch: int) -> AppendInfo:
        """Append batches as they came from the leader, offsets and epochs and all.

        Batches of a newer epoch than this replica knows are left out: they may be ones the leader will lose
        (KAFKA-18723). A cut-off batch at the end is left out too.
        """
        return self.appender.append_as_follower(data, leader_epoch=leader_epoch)

    # Read

    def read(
        self, offset: int, *, bytes_max: int, isolation: Isolation = Isolation.HIGH_WATERMARK, at_least_one: bool = True
    ) -> LogRead:
        """The batches from the one that holds `offset` on, up to `bytes_max` bytes and to what `isolation` allows.

        `at_least_one` lets a first batch through that alone exceeds the limit. `OffsetOutOfRange` below the log start
        and beyond the log end.
        """
        return self.reader.read(offset, bytes_max=bytes_max, isolation=isolation, at_least_one=at_least_one)

    def aborted_transactions(
        self, start_offset: int, upper_bound_offset: int, *, from_segment: Segment | None = None
    ) -> list[AbortedTxn]:
        """Aborted transactions that overlap [start, upper bound), from every segment that may know of one."""
        return self.reader.aborted_transactions(start_offset, upper_bound_offset, from_segment=from_segment)

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record at or after a time, or the place a `SpecialTimestamp` asks for; None when there is none."""
        return self.reader.offset_for_timestamp(timestamp)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int] | None:
        """The largest epoch at or below the one asked for, and where it ends; None when it is not known."""
        epoch, offset = self.epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if offset < 0 else (epoch, offset)

    # Roll and flush

    def roll_offset(self, expected_offset: int = 0) -> int:
        """Where `roll` would begin a segment."""
        return max(expected_offset, min(self.batches_end, self.log_end_offset))

    def roll(self, expected_offset: int = 0) -> Segment:
        """Close the active segment and begin a new one where its last batch ends, or beyond it at `expected_offset`.

        Where batches are missing before the log end, because a truncation has cut one or a leader has none there, they
        are missing inside of the new segment: between two segments they would be taken for a tail that a crash lost.
        """
        self.check_usable()
        try:
            offset = self.roll_offset(expected_offset)
            active = self.segments.active
            if active.base_offset == offset and active.size == 0:
                # Rolled while empty because an index was full: begin the same segment anew (KAFKA-6388). In its own
                # files: without any segment, a log that a crash leaves there would begin at zero again.
                active.begin_anew()
                return active
            assert offset > active.base_offset, f"{self}: rolling to {offset}, at or below {active}"
            for suffix in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
                path = f"{self.directory}/{names.offset_name(offset)}{suffix}"
                if self.world.disk.exists(path):
                    log.warning(
                        "[Log %s] Newly rolled segment file %s already exists; deleting it", self.partition, path
                    )
                    self.world.disk.remove(path)
            active.on_become_inactive()
            if self.recovery_point >= offset:
                # Its records are flushed already, so the chore below would pass it over, and a start after a power cut
                # would believe indexes whose last entries, and a file whose end, never reached the device.
                active.flush()
                self.world.disk.sync_dir(self.directory)
            segment = self.begin_segment(offset)
            # A snapshot at the new segment's start lets recovery begin there instead of reading what came before.
            self.producers.map_end_offset = offset
            snapshot = self.producers.take_snapshot(sync=False)
            if self.high_watermark >= self.log_end_offset:
                self.watermarks.set(self.end)
            self.chores.later(
                0, f"flush of {self.partition} up to {offset}", lambda: self.flusher.plan_roll_flush(offset, snapshot)
            )
        except OSError as error:
            self.log_dir.fail(f"rolling a segment for {self.partition}", error)
        log.info("[Log %s] Rolled new log segment at offset %d", self.partition, offset)
        return segment

    def begin_segment(self, offset: int) -> Segment:
        """An empty segment to append to. Its name is durable with the next flush."""
        segment = Segment.create(self.world, self.directory, offset, self.config)
        self.segments.add(segment)
        self.flusher.on_new_name()
        return segment

    def plan_flush(self, offset: int | None = None, *, including_active: bool = False) -> SyncPlan | None:
        """What to sync so that everything below `offset` (the log end by default) survives a power cut."""
        return self.flusher.plan_flush(offset, including_active=including_active)

    def flush(self, offset: int | None = None, *, including_active: bool = False) -> None:
        """Return when everything below `offset` (the log end by default) is on the device."""
        self.flusher.flush(offset, including_active=including_active)

    # Cut at either end

    def delete_records(self, offset: int) -> bool:
        """Raise the log start: what is below is gone for readers at once, and from disk with the next retention run."""
        return self.trimmer.advance_log_start(offset, "client delete records request")

    def advance_log_start(self, offset: int, reason: str) -> bool:
        return self.trimmer.advance_log_start(offset, reason)

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or above `offset`; False when there was nothing."""
        return self.trimmer.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything and begin again at `offset`."""
        self.trimmer.truncate_fully_and_start_at(offset, log_start_offset=log_start_offset)

    def delete_segments(self, deletable: Sequence[Segment], reason: str) -> int:
        """Delete the oldest segments. At least one always stays: when all may go, an empty one is begun first."""
        return self.trimmer.delete_segments(deletable, reason)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put `.cleaned` segments in the place of the ones they were made from, so that no crash loses either."""
        self.trimmer.replace_segments(new, old)

    def split_segment(self, segment: Segment) -> None:
        """Replace a segment whose offsets span more than an index can hold by as many as they need."""
        self.trimmer.split_segment(segment)

    # Life

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """The topic's id, which is written beside the log soon, and before any record is."""
        if self.topic_id is None:
            self.topic_id = topic_id
            self.is_unsettled = True
            self.chores.later(0, f"partition metadata of {self.partition}", self.plan_settle)
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"Tried to assign topic ID {topic_id} to log for topic partition {self.partition}, but log already "
                f"contained topic ID {self.topic_id}"
            )

    def rename_directory(self, name: str, *, durably: bool = True) -> None:
        """The partition's directory gets another name: it is to be deleted, or a future copy takes its place."""
        self.check_usable()
        directory = f"{self.directory.rpartition('/')[0]}/{name}"
        try:
            self.world.disk.rename(self.directory, directory)
            if durably:
                self.world.disk.sync_dir(directory_of(directory))
        except OSError as error:
            self.log_dir.fail(f"renaming the directory of {self.partition}", error)
        self.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
        self.producers.move_to(directory)
        self.epochs.move_to(directory)
        self._metadata_file = PartitionMetadata(self.world.disk, f"{directory}/{names.PARTITION_METADATA}")

    def remove_expired_producers(self) -> None:
        self.producers.remove_expired(self.world.clock.now_ms())

    def close(self) -> None:
        """Bring every file to its final form: with a clean-shutdown marker, the next start reads nothing again."""
        plan = self.plan_close()
        if plan is not None:
            try:
                plan.run()
            except OSError as error:
                self.log_dir.fail(f"closing {self.partition}", error)

    def plan_close(self) -> SyncPlan | None:
        """The same, for a thread to sync: nobody uses the log meanwhile, and when that is done it is closed."""
        if self.is_closed:
            return None
        self.log_dir.check_online()
        try:
            self._write_id()
            self.epochs.flush(self.log_end_offset)
            for segment in self.segments:
                segment.finish()
            snapshot = self.producers.take_snapshot(sync=False)
            plan = self.flusher.plan_flush(including_active=True) or SyncPlan(
                self.world.disk, on_failed=self.flusher.on_failed
            )
            on_flushed, file = plan.on_done, None
            if snapshot is not None and not self.producers.is_empty:
                # Without it the next start reads the log, and some of these producers' records may be deleted by then.
                file = self.world.disk.open(snapshot)
                plan.files.append(file)
                plan.directories = [self.directory]
        except OSError as error:
            self.log_dir.fail(f"closing {self.partition}", error)

        def done() -> None:
            on_flushed()
            if file is not None:
                file.close()
            self.is_closed = True
            for segment in self.segments:
                segment.abandon()

        plan.on_done = done
        return plan

    def abandon(self) -> None:
        """Give the descriptors back and write nothing: the directory has failed."""
        self.is_closed = True
        for segment in self.segments:
            segment.abandon()

    def delete(self) -> None:
        """Remove the directory and everything in it."""
        try:
            self.plan_delete().run()
        except OSError as error:
            self.log_dir.fail(f"deleting the log of {self.partition}", error)

    def plan_delete(self) -> SyncPlan:
        """The same, for a thread: only the descriptors are given back now."""
        self.abandon()
        return SyncPlan(self.world.disk, removed_trees=[self.directory])

    def check_usable(self) -> None:
        if self.is_closed or self.log_dir.failure is not None:
            self.log_dir.check_online()
            raise KafkaStorageError(f"The log of {self.partition} is already closed")

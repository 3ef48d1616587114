"""Opening a log: from whatever files a clean stop, a crash or a power cut has left, to a `Log` that can be trusted.

Promises: after a clean shutdown nothing is read but the tails of the indexes; otherwise every segment from the
recovery point on is read, its batches checked, its indexes rebuilt, and the log cut at the first batch that is not
whole. What was flushed and checkpointed is kept; what is torn is never served. Half-finished compactions and splits
are completed or undone. Called by `log_manager`, and by `dump-log`'s tests.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ottla.config import LogConfig
from ottla.records import Batch
from ottla.storage import names
from ottla.storage.chores import Chores, DirectoryChores
from ottla.storage.index import CorruptIndex
from ottla.storage.leader_epochs import LeaderEpochCache
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.partition_metadata import PartitionMetadata
from ottla.storage.producer_state import ProducerStateConfig, ProducerStateManager
from ottla.storage.rebuild import rebuild_producer_state, replay_batch
from ottla.storage.segment import Segment, SegmentOverflow
from ottla.storage.segments import Segments
from ottla.storage.snapshot_files import SnapshotFiles
from ottla.storage.split import split_segment
from ottla.storage.swap import remove_later, retire_segments
from ottla.types import TopicPartition, Uuid
from ottla.world import Entry, World

log = logging.getLogger(__name__)


def load_log(
    world: World,
    log_dir: LogDir,
    directory: str,
    config: LogConfig,
    chores: Chores,
    *,
    partition: TopicPartition | None = None,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    cleaned_to: int = 0,
    was_clean_shutdown: bool = False,
    topic_id: Uuid | None = None,
    producer_config: ProducerStateConfig | None = None,
) -> Log:
    """Open the log in `directory`, or begin one there. The offsets are what the checkpoints of the log dir say.

    `cleaned_to` is the cleaner's: below it, compaction may have left holes between segments.
    """
    name = partition or names.parse_partition_dir(directory.rpartition("/")[2])
    log_chores = chores.of(log_dir)
    loader = _Loader(
        world,
        directory,
        name,
        config,
        log_chores,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        cleaned_to=cleaned_to,
        was_clean_shutdown=was_clean_shutdown,
        producer_config=producer_config or ProducerStateConfig(),
    )
    loader.load()
    for segment in loader.segments:
        segment.rest()  # a node has thousands of logs, and most of them are idle
    opened = Log(
        world,
        log_dir,
        directory,
        name,
        config,
        segments=loader.segments,
        epochs=loader.epochs,
        producers=loader.producers,
        chores=log_chores,
        log_start_offset=loader.log_start_offset,
        log_end_offset=loader.log_end_offset,
        recovery_point=loader.recovery_point,
        topic_id=loader.topic_id,
    )
    if topic_id is not None:
        opened.assign_topic_id(topic_id)
    if not opened.producers.is_empty and loader.has_new_snapshots:
        opened.sync_snapshot_later()
    if opened.unflushed_count >= config.flush_messages:
        # Records whose append never came back, because its flush did not: nobody may see them before they are durable.
        opened.flush()
    return opened


class _Loader:
    """One opening, step by step; what it found is in its attributes at the end."""

    def __init__(
        self,
        world: World,
        directory: str,
        partition: TopicPartition,
        config: LogConfig,
        chores: DirectoryChores,
        *,
        log_start_offset: int,
        recovery_point: int,
        cleaned_to: int,
        was_clean_shutdown: bool,
        producer_config: ProducerStateConfig,
    ) -> None:
        self.world = world
        self.disk = world.disk
        self.directory = directory
        self.partition = partition
        self.config = config
        self.chores = chores
        self.checkpointed_start = log_start_offset
        self.checkpointed_recovery_point = recovery_point
        self.cleaned_to = cleaned_to
        self.was_clean_shutdown = was_clean_shutdown
        self.producer_config = producer_config
        self.segments = Segments()
        self.log_start_offset = log_start_offset
        self.log_end_offset = 0
        self.recovery_point = recovery_point
        self.topic_id: Uuid | None = None
        self.epochs: LeaderEpochCache
        self.producers: ProducerStateManager
        self.has_new_snapshots = False
        """Whether a snapshot was written, and not synced: that can wait until the log is open."""
        self._snapshots: SnapshotFiles
        self._recovered: ProducerStateManager | None = None
        """What the segments recovered so far have told of the producers."""

    def load(self) -> None:
        try:
            entries = self._scan()
        except FileNotFoundError:
            self.disk.make_dirs(self.directory)
            entries = []
        present = {entry.name for entry in entries}
        metadata = PartitionMetadata(self.disk, f"{self.directory}/{names.PARTITION_METADATA}")
        if names.PARTITION_METADATA in present:
            self.topic_id = metadata.read()
        if self._settle_leftovers(entries):
            entries = self._scan()
            present = {entry.name for entry in entries}
        self._snapshots = SnapshotFiles(self.disk, self.directory, present)
        known = list(self._snapshots.offsets)
        self.epochs = LeaderEpochCache(
            self.disk,
            f"{self.directory}/{names.LEADER_EPOCH_CHECKPOINT}",
            exists=names.LEADER_EPOCH_CHECKPOINT in present,
        )
        while True:
            try:
                self._load_segments(entries)
                self._recover()
                break
            except SegmentOverflow as overflow:
                split_segment(self.world, overflow.segment, self.segments, self.config, self.chores)
                entries = self._scan()
                for segment in self.segments:
                    segment.abandon()
                self.segments = Segments()
        self.log_start_offset = max(self.checkpointed_start, self.segments.first.base_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.epochs.truncate_from_start(self.checkpointed_start)
        self.producers = self._producer_state()
        self.producers.remove_stray_snapshots(self.segments.base_offsets)
        rebuild_producer_state(
            self.producers,
            self.segments,
            log_start_offset=self.log_start_offset,
            end_offset=self.log_end_offset,
            now_ms=self.world.clock.now_ms(),
            sync=False,
        )
        self.has_new_snapshots = not set(self._snapshots.offsets) <= set(known) or self._recovered is not None
        self._keep_batches(self.producers)

    def _scan(self) -> list[Entry]:
        return [entry for entry in self.disk.scan(self.directory) if not entry.is_dir]

    def _producer_state(self) -> ProducerStateManager:
        return ProducerStateManager(
            self.disk, self.directory, self.partition, self.producer_config, snapshots=self._snapshots
        )

    # What an interrupted deletion, compaction or split has left

    def _settle_leftovers(self, entries: Sequence[Entry]) -> bool:
        """Finish or undo it; True when files were touched."""
        deleted = [e.name for e in entries if e.name.endswith(names.DELETED) and ".checkpoint" not in e.name]
        cleaned = [e.name for e in entries if e.name.endswith(names.CLEANED)]
        swaps = [e for e in entries if e.name.endswith(names.SWAP)]
        if not deleted and not cleaned and not swaps:
            return False
        first_cleaned = min((offset for name in cleaned if (offset := names.offset_of(name)) is not None), default=None)
        # `.swap` files are made from the last segment to the first. One at or above a `.cleaned` belongs to a set that
        # was not complete, so the old segments are all still there (KAFKA-6264).
        whole: list[Entry] = []
        for swap in swaps:
            offset = names.offset_of(swap.name)
            if first_cleaned is not None and offset is not None and offset >= first_cleaned:
                deleted.append(swap.name)
            else:
                whole.append(swap)
        for name in [*deleted, *cleaned]:
            self.disk.remove(f"{self.directory}/{name}")
        self._finish_swaps(whole, entries)
        self.disk.sync_dir(self.directory)
        return True

    def _finish_swaps(self, swaps: Sequence[Entry], entries: Sequence[Entry]) -> None:
        """The set was complete: remove what it replaces and give it its names."""
        ranges = []
        for swap in swaps:
            base_offset = names.offset_of(swap.name)
            if base_offset is not None and swap.name.endswith(names.LOG + names.SWAP):
                log.info("[Log %s] Found %s from interrupted swap operation", self.partition, swap.name)
                segment = Segment(
                    self.world, self.directory, base_offset, self.config, size=swap.size, suffix=names.SWAP
                )
                ranges.append((base_offset, segment.read_next_offset()))
                segment.abandon()
        if ranges:
            start, end = min(ranges)[0], max(end for _, end in ranges)
            for entry in entries:
                offset = names.offset_of(entry.name)
                is_segment_file = entry.name.endswith((names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX))
                if is_segment_file and offset is not None and start <= offset < end:
                    log.info("[Log %s] Deleting %s, which was compacted or split already", self.partition, entry.name)
                    self.disk.remove(f"{self.directory}/{entry.name}")
        for swap in swaps:
            path = f"{self.directory}/{swap.name}"
            self.disk.rename(path, path[: -len(names.SWAP)])

    # The segments as they are

    def _load_segments(self, entries: Sequence[Entry]) -> None:
        sizes = {entry.name: entry.size for entry in entries}
        suspects = []
        for entry in entries:
            stem, dot, kind = entry.name.partition(".")
            offset = names.offset_of(entry.name)
            if offset is None or len(stem) != 20:
                continue
            kind = dot + kind
            if kind in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX) and stem + names.LOG not in sizes:
                log.warning("[Log %s] Found an orphaned index file %s, deleting it", self.partition, entry.name)
                self.disk.remove(f"{self.directory}/{entry.name}")
            elif kind == names.LOG:
                segment = Segment(
                    self.world,
                    self.directory,
                    offset,
                    self.config,
                    size=entry.size,
                    offset_index_size=sizes.get(stem + names.INDEX, -1),
                    time_index_size=sizes.get(stem + names.TIME_INDEX, -1),
                    txn_index_size=sizes.get(stem + names.TXN_INDEX, 0),
                )
                problem = self._problem_with(segment, stem, sizes)
                if problem:
                    suspects.append((segment, problem))
                self.segments.add(segment)
        # Those from the recovery point on will be read in any case, in order, up to the first that is damaged. Read
        # here they could lead to batches that a damaged one before them makes unreachable.
        unread = self._unflushed()
        for segment, problem in suspects:
            if segment in unread:
                continue
            log.warning(
                "[Log %s] Rebuilding the indexes of segment %d: %s", self.partition, segment.base_offset, problem
            )
            # Whole or not at all: the next start believes what it finds below the recovery point.
            segment.set_indexes_aside()
            self._recover_segment(segment, is_flushed=True)
            segment.put_indexes_in_place()

    def _problem_with(self, segment: Segment, stem: str, sizes: dict[str, int]) -> str | None:
        """Why the indexes cannot be used as they are; None when nothing speaks against it."""
        for name, index in ((stem + names.INDEX, segment.offset_index), (stem + names.TIME_INDEX, segment.time_index)):
            if name not in sizes:
                return f"{name} is missing"
            if sizes[name] % index.entry.size:
                return f"{name} has {sizes[name]} bytes, which is not a multiple of {index.entry.size}"
        try:
            segment.txn_index.check()
        except CorruptIndex as error:
            return str(error)
        return None

    # Recovery

    def _recover_segment(self, segment: Segment, *, is_flushed: bool = False) -> int:
        """Read a segment from its start: cut it behind its last valid batch, rebuild its indexes and a snapshot.

        Where segments are not flushed, all that follow are read too, in order.
        """
        producers = self._producer_state()
        rebuild_producer_state(
            producers,
            self.segments,
            # A snapshot from below the first segment would lack what was deleted between the two.
            log_start_offset=max(self.checkpointed_start, self.segments.first.base_offset),
            end_offset=segment.base_offset,
            now_ms=self.world.clock.now_ms(),
            sync=False,
        )
        self._keep_batches(producers)

        def on_batch(batch: Batch) -> None:
            epoch, offset = batch.leader_epoch, max(batch.base_offset, self.checkpointed_start)
            if is_flushed:
                # Every epoch was written down before this was flushed. To assign one anew would drop the later ones,
                # whose segments nobody is going to read.
                is_missing = epoch > (-1 if self.epochs.latest_epoch is None else self.epochs.latest_epoch)
            else:
                # The records are the truth. The file may know of epochs whose records a crash has taken, and may have
                # forgotten those below a log start that it has taken back.
                is_missing = 0 <= epoch != self.epochs.epoch_for_offset(offset)
            if is_missing and offset <= batch.last_offset:
                if not is_flushed:
                    # What the file says of this place was truncated, and the epoch before it may go on here.
                    self.epochs.truncate_from_end(offset)
                if epoch != self.epochs.latest_epoch:
                    self.epochs.assign(epoch, offset)
            if offset <= batch.last_offset:
                replay_batch(producers, batch, segment)
            else:
                # Below the log start compaction may have left a batch of a transaction and not its marker.
                producers.map_end_offset = batch.next_offset

        unflushed_from = None if self.was_clean_shutdown else self.checkpointed_recovery_point
        cut = segment.recover(on_batch, unflushed_from=unflushed_from)
        producers.take_snapshot(sync=False)
        self._recovered = producers
        return cut

    def _keep_batches(self, producers: ProducerStateManager) -> None:
        """Give producers that come from a snapshot, which holds the last batch of each, the older ones that recovery
        has just read. A client that was cut off sends again all it had in flight, and the first of that may be in the
        log already: Kafka has forgotten it by then, and tells the client that its sequence is out of order."""
        if self._recovered is not None:
            producers.take_batches_of(self._recovered)

    def _recover(self) -> None:
        """Settle where the log ends; after an unclean stop, by reading everything from the recovery point on."""
        unflushed = self._unflushed()
        for place, segment in enumerate(unflushed):
            log.info("[Log %s] Recovering unflushed segment %d", self.partition, segment.base_offset)
            cut = self._recover_segment(segment)
            following = unflushed[place + 1 :]
            if cut or (following and self._lost_its_tail(segment, following[0])):
                log.warning(
                    "[Log %s] Corruption found in segment %d, truncating to offset %d",
                    self.partition, segment.base_offset, segment.read_next_offset(),
                )  # fmt: skip
                self._remove(following[::-1])  # the last first, so that a crash in between leaves no hole
                break
        end = self._end_of_segments()
        if end is None:
            self.segments.add(Segment.create(self.world, self.directory, self.checkpointed_start, self.config))
            if self.checkpointed_start:
                # From now on only the name says where the log begins: the next checkpoint leaves a start out that is
                # the first segment's.
                self.disk.sync_dir(self.directory)
            self.log_end_offset = self.checkpointed_start
        else:
            self.log_end_offset = end
        # The recovery point only moves when something was flushed: moved here, it would let the next start skip
        # segments that a crash before their flush could still damage.
        if self.was_clean_shutdown and end is not None:
            self.recovery_point = end
        else:
            self.recovery_point = min(self.checkpointed_recovery_point, self.log_end_offset)

    def _lost_its_tail(self, segment: Segment, following: Segment) -> bool:
        """Whether batches are missing before the next segment: a power cut may keep a new file and lose the end of the
        one before it, and what follows a hole must not be served. (Kafka does serve it, and relies on replicas.)

        Compaction leaves such holes too, and syncs what it writes: below `cleaned_to`, and anywhere in a log that is
        compacted, they are its own.
        """
        end = segment.read_next_offset()
        return end < following.base_offset and end >= self.cleaned_to and not self.config.is_compacted

    def _unflushed(self) -> list[Segment]:
        """The segments that a crash may have damaged; none after a clean shutdown."""
        if self.was_clean_shutdown or not len(self.segments):
            return []
        return self.segments.covering(self.checkpointed_recovery_point)

    def _end_of_segments(self) -> int | None:
        """The offset after the last batch; None, and no segment, when all of them lie below the log start."""
        if not len(self.segments):
            return None
        end = self.segments.active.read_next_offset()
        if end >= self.checkpointed_start:
            return end
        log.warning(
            "[Log %s] Deleting all segments because the log end offset %d is below the log start offset %d",
            self.partition, end, self.checkpointed_start,
        )  # fmt: skip
        self._remove(list(self.segments))
        self.epochs.clear_and_flush()
        self._producer_state().truncate_fully_and_start_at(self.checkpointed_start)
        return None

    def _remove(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.segments.remove(segment)
        retire_segments(segments, self.chores, self.config)
        producers = self._producer_state()
        for segment in segments:
            path = producers.remove_and_mark_snapshot_for_deletion(segment.base_offset)
            if path is not None:
                remove_later(self.disk, path, self.chores, self.config)
        if segments:
            self.disk.sync_dir(self.directory)

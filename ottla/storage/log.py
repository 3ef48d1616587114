"""The log of one partition: segments, the offsets that bound what may be seen, and the producers' state.

Promises:
- Offsets are assigned without holes and in order; what `append` returned is readable at once up to the log end, and
  durable once `flush` has covered it (`recovery_point`).
- Nothing is changed before every check has passed: a refused append leaves the log as it was.
- A device that fails takes its whole directory offline and raises `KafkaStorageError`; the log is not written again.
- `read` returns a slice of a file, never bytes, and never anything beyond the end its isolation allows.

It is synchronous, knows no network and no threads, and leaves slow work to `chores`. Called by the partition (leader
and follower), by the controller's metadata log and by `log_manager`; made by `loader.load_log`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.config import LogConfig
from ottla.errors import (
    CorruptMessage,
    InconsistentTopicId,
    InvalidRecord,
    KafkaStorageError,
    OffsetOutOfRange,
    RecordListTooLarge,
)
from ottla.records import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    Batch,
    Codec,
    batches,
    crc32c,
)
from ottla.storage import names
from ottla.storage.append_rules import AppendRules
from ottla.storage.atomic_file import directory_of
from ottla.storage.batch_file import FileSlice
from ottla.storage.chores import DirectoryChores, SyncPlan
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.leader_epochs import LeaderEpochCache
from ottla.storage.log_dir import LogDir
from ottla.storage.offset_metadata import UNKNOWN_POSITION, UNKNOWN_SEGMENT, OffsetMetadata
from ottla.storage.partition_metadata import PartitionMetadata
from ottla.storage.producer_append import TRANSACTION_VERSION_UNKNOWN
from ottla.storage.producer_state import ProducerStateManager
from ottla.storage.rebuild import end_transaction, rebuild_producer_state
from ottla.storage.segment import Segment, TimedOffset
from ottla.storage.segments import Segments
from ottla.storage.split import split_segment
from ottla.storage.swap import remove_later, retire_segments, swap_in
from ottla.storage.transaction_index import AbortedTxn
from ottla.storage.validator import (
    AppendOrigin,
    accept,
    check_batch,
    only_batch,
    read_over,
)
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.world import World

log = logging.getLogger(__name__)

READ_ENDS_MAX = 8
"""How many places are remembered up to which a log was read."""

_stamp = Struct(">qii").pack_into
"""Base offset, length and leader epoch: the head of a batch, up to what does not change."""
_unpack_header = HEADER.unpack_from
_CODEC_MAX = int(Codec.ZSTD)
# What a named tuple's constructor does, at half its price.
_new_tuple = tuple.__new__


class Isolation(IntEnum):
    """How far a reader may see: a replica to the log's end, a consumer to the high watermark or the last stable
    offset."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


class SpecialTimestamp(IntEnum):
    """The negative timestamps of ListOffsets that ask for a place instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class OffsetsOutOfOrder(Exception):
    """A follower was given batches whose offsets do not grow."""


class UnexpectedAppendOffset(Exception):
    """A follower was given batches below its log end."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


@dataclass(slots=True)
class AppendInfo:
    """What an append did: offsets are inclusive, and -1 where nothing was appended."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    size: int
    is_duplicate: bool = False


class LogRead(NamedTuple):
    """What a read found. `slice` is None when there is nothing to send; `aborted` only for `TXN_COMMITTED`."""

    start: OffsetMetadata
    slice: FileSlice | None
    first_batch_incomplete: bool
    aborted: list[AbortedTxn] | None


class Log:
    """See the module. The attributes are there to read; only methods of this package change them."""

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
        self._world = world
        self._clock = world.clock
        self.log_dir = log_dir
        self.directory = directory
        self.partition = partition
        self.config = config
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self._chores = chores
        self._batches_end = self.log_end_offset = log_end_offset
        self.log_start_offset = max(log_start_offset, segments.first.base_offset)
        self.recovery_point = recovery_point
        self.last_flushed_ms = world.clock.now_ms()
        self._high_watermark = OffsetMetadata(self.log_start_offset)
        self._first_unstable: OffsetMetadata | None = None
        self._read_ends: dict[int, OffsetMetadata] = {}
        """Where the last reads ended: the next ones begin there, and need not search for the place."""
        self._rules = AppendRules(config)
        self.is_closed = False
        self._begun_count = 1  # segments that were begun, the first perhaps by whoever opened the log
        self._named_count = 0  # how many of them have durable names
        self.truncation_count = 0
        """Grows with every truncation: a cleaner that sees it change starts over."""
        self._metadata_file = PartitionMetadata(world.disk, f"{directory}/{names.PARTITION_METADATA}")
        self.topic_id = topic_id
        self._is_id_written = topic_id is not None
        self._is_unsettled = False
        """Whether the topic's id or the leader's epoch is yet to be written down, at the latest before a record is."""
        self._update_first_unstable()

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
        return self._high_watermark.offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is not decided, or whose decision is not replicated yet."""
        return None if self._first_unstable is None else self._first_unstable.offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self._first_unstable
        if unstable is not None and unstable.offset < self._high_watermark.offset:
            return unstable.offset
        return self._high_watermark.offset

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
        if offset < self.log_start_offset:
            self._set_high_watermark(OffsetMetadata(self.log_start_offset))
        elif offset >= self.log_end_offset:
            self._set_high_watermark(self.end)
        else:
            self._set_high_watermark(OffsetMetadata(offset))
        return self._high_watermark.offset

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to `offset`; False when it is there or beyond already."""
        assert offset <= self.log_end_offset, f"{self}: high watermark {offset} is beyond the log end"
        if offset <= self._high_watermark.offset:
            return False
        self._set_high_watermark(self.end if offset == self.log_end_offset else OffsetMetadata(offset))
        return True

    def advance_high_watermark_to_end(self) -> bool:
        """As `advance_high_watermark`, for a log that has no other replicas: its end is what everybody has."""
        end_offset = self.log_end_offset
        if end_offset <= self._high_watermark.offset:
            return False
        if self._first_unstable is not None or self.producers.has_transactions:
            self._set_high_watermark(self.end)
        else:
            # Its place is the log's end for as long as both are the same, and is looked up when somebody reads.
            self._high_watermark = _new_tuple(OffsetMetadata, (end_offset, UNKNOWN_SEGMENT, UNKNOWN_POSITION))
        return True

    def _set_high_watermark(self, value: OffsetMetadata) -> None:
        if value.offset < self._high_watermark.offset:
            log.warning(
                "[Log %s] Non-monotonic update of high watermark from %d to %d",
                self.partition, self._high_watermark.offset, value.offset,
            )  # fmt: skip
        self._high_watermark = value
        self.producers.on_high_watermark_updated(value.offset)
        self._update_first_unstable()

    def _update_first_unstable(self) -> None:
        unstable = self.producers.first_unstable_offset
        if unstable is not None and unstable.offset < self.log_start_offset:
            unstable = OffsetMetadata(self.log_start_offset)
        self._first_unstable = unstable

    def visible_end(self, isolation: Isolation) -> OffsetMetadata:
        """Where a reader's view ends, with its place in the files."""
        if isolation is Isolation.HIGH_WATERMARK:
            return self._high_watermark_place()
        return self.end if isolation is Isolation.LOG_END else self._last_stable_place()

    def _complete(self, value: OffsetMetadata) -> OffsetMetadata:
        """The same offset with its place in the files, where it has one."""
        if not value.is_offset_only:
            return value
        if value.offset == self.log_end_offset:
            return self.end
        try:
            return self._read(value.offset, bytes_max=1, end=self.end, at_least_one=False).start
        except OffsetOutOfRange:
            return value

    def _high_watermark_place(self) -> OffsetMetadata:
        if self._high_watermark.is_offset_only:
            self._high_watermark = self._complete(self._high_watermark)
        return self._high_watermark

    def _last_stable_place(self) -> OffsetMetadata:
        unstable = self._first_unstable
        if unstable is None or unstable.offset >= self._high_watermark.offset:
            return self._high_watermark_place()
        if unstable.is_offset_only:
            self._first_unstable = unstable = self._complete(unstable)
        return unstable

    # Append

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader begins at the log's end: known now to followers that ask, written down before it appends."""
        self._check_usable()
        self.epochs.begin(leader_epoch, self.log_end_offset)
        self._is_unsettled = True

    def _settle(self) -> None:
        """Write down what has to be there before a record: the log's name, the topic's id, the leader's epoch."""
        self._check_usable()
        try:
            self._write_id()
            self.epochs.write_begun()
        except OSError as error:
            self.log_dir.fail(f"writing partition metadata of {self.partition}", error)
        self._is_unsettled = False

    def _write_id(self) -> None:
        if self.topic_id is not None and not self._is_id_written:
            self._metadata_file.write(self.topic_id)
            self._world.disk.sync_dir(directory_of(self.directory))
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

        return SyncPlan(self._world.disk, [file], [directory_of(self.directory)], publish)

    def append_as_leader(
        self,
        data: Buffer,
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendInfo:
        """Append one batch, giving it the next offsets and the leader's epoch. A writable `data` is stamped in place.

        A batch of an idempotent producer that is already in the log is answered with the offsets it has there.
        `RAFT_LEADER` batches come with their offsets and epoch set, and there may be several.
        """
        if self.is_closed or self.log_dir.failure is not None:
            self._check_usable()
        if self._is_unsettled:
            self._settle()
        view = data if isinstance(data, memoryview) else memoryview(data)
        if origin is AppendOrigin.RAFT_LEADER:
            return self._append_given(view, leader_epoch=leader_epoch, origin=origin)
        if origin is AppendOrigin.CLIENT or origin is AppendOrigin.COORDINATOR:
            # A coordinator's batches have no producer but for transactions, which are never plain: so the rules for
            # sequences, which are not the same for both, do not come into it.
            first_offset = self.append_plain(view, leader_epoch)
            if first_offset is not None:
                return AppendInfo(
                    first_offset, self.log_end_offset - 1, NO_TIMESTAMP, self.log_start_offset, len(view)
                )  # fmt: skip
        batch = only_batch(view, self.partition)
        if batch is None:
            return AppendInfo(-1, -1, NO_TIMESTAMP, self.log_start_offset, 0)
        config = self.config
        now_ms = self._world.clock.now_ms()
        check_batch(batch, partition=self.partition, config=config, origin=origin)
        view, batch = accept(
            view,
            batch,
            partition=self.partition,
            config=config,
            base_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
        )
        return self._append_batches(
            view[batch.position : batch.position + batch.size] if batch.size != len(view) else view,
            [batch],
            max_timestamp=batch.max_timestamp,
            append_time_ms=now_ms if config.is_append_time else NO_TIMESTAMP,
            now_ms=now_ms,
            origin=origin,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )

    def append_plain(self, view: memoryview, leader_epoch: int) -> int | None:
        """Append the everyday batch: whole, sound and taken as it is, of no producer or the next one of a known one.

        Returns its first offset. None when it is any other; nothing has changed then, neither here nor in `view`, and
        `append_as_leader` does it or says what is wrong. This is every rule of the long way once more, in the order of
        how cheap it is to be sure; the tests hold the two side by side. It halves the time of an append.
        """
        rules = self._rules
        if rules.config is not self.config:
            rules = self._rules = AppendRules(self.config)
        if (
            not rules.takes_as_they_come
            or self._is_unsettled
            or self.is_closed
            or self.log_dir.failure is not None
            or view.readonly
            or len(view) < HEADER_SIZE
        ):
            return None
        batch = Batch(view, 0)
        size = batch.size
        count = batch.record_count
        codec = batch.attributes
        if (
            size != len(view)
            or batch.magic != MAGIC
            or batch.base_offset != 0
            or not 0 <= codec <= _CODEC_MAX  # no bit but the codec's
            or count <= 0
            or batch.last_offset_delta != count - 1
            or size > rules.size_max
            or leader_epoch != self.epochs.latest_epoch
            or crc32c(view[CRC_START:]) != batch.crc
            or (batch.producer_id >= 0 and batch.base_sequence < 0)
        ):
            return None
        # All that comes before this on the long way is in order, so what is wrong is what it would say as well.
        oldest, newest, is_consecutive, has_null_key = (
            read_over(batch, is_rewritten=False) if codec else batch.check_records()
        )
        now_ms = self._clock.now_ms()
        if (
            newest != batch.max_timestamp
            or now_ms - oldest > rules.before_max_ms
            or newest - now_ms > rules.after_max_ms
            or (codec and not is_consecutive)
            or (has_null_key and rules.is_compacted)
        ):
            return None
        return self._append_judged(view, rules, leader_epoch, count, newest, now_ms, batch)

    def append_made(self, view: memoryview, leader_epoch: int) -> int | None:
        """`append_plain` of a batch that this node has made a moment ago: its header is believed, its records not read.

        None if it has a producer or a codec, or if the log would not take it as it is; nothing has changed then.
        """
        rules = self._rules
        if rules.config is not self.config:
            rules = self._rules = AppendRules(self.config)
        if (
            not rules.takes_as_they_come
            or self._is_unsettled
            or self.is_closed
            or self.log_dir.failure is not None
            or view.readonly
            or len(view) > rules.size_max
            or leader_epoch != self.epochs.latest_epoch
        ):
            return None
        _, length, _, magic, _, attributes, _, _, timestamp, producer_id, _, _, count = _unpack_header(view)
        assert (length + LOG_OVERHEAD, magic) == (len(view), MAGIC), "it was made here, and is no batch"
        if attributes or producer_id >= 0:
            return None
        return self._append_judged(view, rules, leader_epoch, count, timestamp, timestamp, None)

    def _append_judged(
        self,
        view: memoryview,
        rules: AppendRules,
        leader_epoch: int,
        count: int,
        max_timestamp: int,
        now_ms: int,
        batch: Batch | None,
    ) -> int | None:
        """The rest of an everyday append; None, still, when the segment must end or the producer is not as expected."""
        segment = self.segments.active
        base_offset = self.log_end_offset
        end_offset = base_offset + count
        size = len(view)
        try:
            # A segment that was opened and not written to since looks up in its file when it began.
            if not segment.takes(rules, size, max_timestamp, end_offset - 1, now_ms):
                return None
            entry = metadata = None
            if batch is not None and batch.producer_id >= 0:
                batch.base_offset = base_offset
                entry = self.producers.producers.get(batch.producer_id)
                metadata = None if entry is None else self.producers.next_of(entry, batch)
                if metadata is None:
                    return None
            _stamp(view, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
            segment.append_one(view, end_offset - 1, max_timestamp)
            self._batches_end = self.log_end_offset = end_offset
            if batch is not None and entry is not None and metadata is not None:
                entry.add_batch(batch.producer_epoch, metadata)
            self.producers.map_end_offset = end_offset
            if end_offset - self.recovery_point >= rules.flush_messages:
                self.flush()
        except OSError as error:
            self.log_dir.fail(f"appending records to {self.partition}", error)
        return base_offset

    def append_as_follower(self, data: Buffer, *, leader_epoch: int) -> AppendInfo:
        """Append batches as they came from the leader, offsets and epochs and all.

        Batches of a newer epoch than this replica knows are left out: they may be ones the leader will lose
        (KAFKA-18723). A cut-off batch at the end is left out too.
        """
        self._check_usable()
        if self._is_unsettled:
            self._settle()
        return self._append_given(memoryview(data), leader_epoch=leader_epoch, origin=AppendOrigin.REPLICATION)

    def _append_given(self, view: memoryview, *, leader_epoch: int, origin: AppendOrigin) -> AppendInfo:
        taken: list[Batch] = []
        last_offset = -1
        max_timestamp = NO_TIMESTAMP
        size = 0
        for batch in batches(view):
            if origin is AppendOrigin.RAFT_LEADER and batch.leader_epoch != leader_epoch:
                raise InvalidRecord(
                    f"Append from Raft leader did not set the batch epoch correctly, expected {leader_epoch} "
                    f"but the batch has {batch.leader_epoch}"
                )
            if origin is AppendOrigin.REPLICATION and batch.leader_epoch > leader_epoch:
                log.info(
                    "[Log %s] Skipping batches from offset %d: their leader epoch %d is higher than the replica's, %d",
                    self.partition, batch.base_offset, batch.leader_epoch, leader_epoch,
                )  # fmt: skip
                break
            if batch.last_offset <= last_offset:
                raise OffsetsOutOfOrder(
                    f"Out of order offsets found in append to {self.partition}: {batch.last_offset} after {last_offset}"
                )
            if not batch.check_crc():
                raise CorruptMessage(
                    f"Record is corrupt (stored crc = {batch.crc}) in topic partition {self.partition}"
                )
            last_offset = batch.last_offset
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            size += batch.size
            taken.append(batch)
        if not taken:
            return AppendInfo(-1, -1, NO_TIMESTAMP, self.log_start_offset, 0)
        if taken[0].base_offset < self.log_end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {self.partition}. First offset {taken[0].base_offset} is less than "
                f"the next offset {self.log_end_offset}. Last offset in append: {last_offset}. "
                f"Log start offset = {self.log_start_offset}",
                taken[0].base_offset,
                last_offset,
            )
        return self._append_batches(
            view[:size],
            taken,
            max_timestamp=max_timestamp,
            append_time_ms=NO_TIMESTAMP,
            now_ms=self._world.clock.now_ms(),
            origin=origin,
            verification_guard=None,
            transaction_version=TRANSACTION_VERSION_UNKNOWN,
        )

    def _append_batches(
        self,
        data: memoryview,
        taken: list[Batch],
        *,
        max_timestamp: int,
        append_time_ms: int,
        now_ms: int,
        origin: AppendOrigin,
        verification_guard: object | None,
        transaction_version: int,
    ) -> AppendInfo:
        first, last = taken[0], taken[-1]
        size = len(data)
        config = self.config
        try:
            for batch in taken:
                if batch.leader_epoch != self.epochs.latest_epoch and batch.leader_epoch >= 0:
                    self.epochs.assign(batch.leader_epoch, batch.base_offset)
            if size > config.segment_size_max:
                raise RecordListTooLarge(
                    f"Message batch size is {size} bytes in append to partition {self.partition}, which exceeds the "
                    f"maximum configured segment size of {config.segment_size_max}"
                )
            segment = self.segments.active
            last_offset = last.base_offset + last.last_offset_delta
            if segment.should_roll(
                config, size=size, max_timestamp=max_timestamp, last_offset=last_offset, now_ms=now_ms
            ):
                is_far = last_offset - self.log_end_offset > RELATIVE_OFFSET_MAX
                segment = self.roll(first.base_offset if is_far else 0)
            update = None
            if any(batch.producer_id >= 0 for batch in taken):
                update = self.producers.analyze(
                    taken,
                    segment_base_offset=segment.base_offset,
                    position=segment.size,
                    origin=origin,
                    verification_guard=verification_guard,
                    transaction_version=transaction_version,
                )
                if update.duplicate is not None:
                    known = update.duplicate
                    return AppendInfo(
                        known.first_offset, known.last_offset, known.timestamp, self.log_start_offset, 0, True
                    )
            segment.append(data, taken)
            # From here on the records are in the log. The end moves first, so that whatever fails below cannot make
            # the next append reuse their offsets.
            self._batches_end = self.log_end_offset = last_offset + 1
            if update is not None:
                self.producers.apply(update)
                for completed in update.completed:
                    end_transaction(self.producers, completed, segment)
                if update.appends is not None:
                    self._update_first_unstable()
            self.producers.map_end_offset = last_offset + 1
            if last_offset + 1 - self.recovery_point >= config.flush_messages:
                self.flush()
        except OSError as error:
            self.log_dir.fail(f"appending records to {self.partition}", error)
        return AppendInfo(first.base_offset, last_offset, append_time_ms, self.log_start_offset, size)

    # Read

    def read(
        self, offset: int, *, bytes_max: int, isolation: Isolation = Isolation.HIGH_WATERMARK, at_least_one: bool = True
    ) -> LogRead:
        """The batches from the one that holds `offset` on, up to `bytes_max` bytes and to what `isolation` allows.

        `at_least_one` lets a first batch through that alone exceeds the limit. `OffsetOutOfRange` below the log start
        and beyond the log end.
        """
        self._check_usable()
        if offset < self.log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.partition}, but we only have log segments "
                f"starting from offset: {self.log_start_offset}."
            )
        end = self.visible_end(isolation)
        found = self._read(offset, bytes_max=bytes_max, end=end, at_least_one=at_least_one)
        if isolation is not Isolation.TXN_COMMITTED:
            return found
        try:
            return found._replace(aborted=self._aborted_in(offset, found))
        except OSError as error:
            self.log_dir.fail(f"reading from {self.partition}", error)

    def _read(self, offset: int, *, bytes_max: int, end: OffsetMetadata, at_least_one: bool) -> LogRead:
        segment = self.segments.floor(offset)
        if segment is None or offset > self.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.partition}, but we only have log segments "
                f"upto {self.log_end_offset}."
            )
        if offset == end.offset:
            self._remember(end)
            return LogRead(end, None, False, None)
        if offset > end.offset:
            return LogRead(self._complete(OffsetMetadata(offset)), None, False, None)
        try:
            begin = self._read_ends.get(offset)
            if begin is not None and begin.segment_base_offset == end.segment_base_offset == segment.base_offset:
                size = end.position - begin.position
                if size <= bytes_max:
                    self._remember(end)
                    return LogRead(begin, FileSlice(segment.file(), begin.position, size), False, None)
            while segment is not None:
                position_max: int | None
                if segment.base_offset < end.segment_base_offset:
                    position_max = segment.size
                elif segment.base_offset == end.segment_base_offset and not end.is_offset_only:
                    position_max = end.position
                else:
                    position_max = None
                read = segment.read(offset, bytes_max=bytes_max, position_max=position_max, at_least_one=at_least_one)
                if read is not None:
                    start = OffsetMetadata(offset, segment.base_offset, read.position)
                    is_in_last = segment.base_offset == end.segment_base_offset
                    if is_in_last and read.slice is not None and read.position + read.slice.size == end.position:
                        self._remember(end)
                    return LogRead(start, read.slice, read.first_batch_incomplete, None)
                segment = self.segments.higher(segment.base_offset)
        except OSError as error:
            self.log_dir.fail(f"reading from {self.partition}", error)
        # The offset is in range, but compaction has left nothing at or above it.
        return LogRead(self.end, None, False, None)

    def _remember(self, end: OffsetMetadata) -> None:
        ends = self._read_ends
        if end.offset not in ends:
            if end.is_offset_only:
                return
            if len(ends) >= READ_ENDS_MAX:
                del ends[next(iter(ends))]
            ends[end.offset] = end

    def _aborted_in(self, offset: int, found: LogRead) -> list[AbortedTxn]:
        """The aborted transactions that may have records among those found: a reader has to leave them out."""
        segment = self.segments.floor(found.start.segment_base_offset)
        if found.slice is None or segment is None or not self._knows_aborted(segment):
            return []
        entry = segment.offset_index.ceiling_of_position(found.slice.position + found.slice.size)
        if entry is not None:
            upper_bound = entry.offset
        else:
            following = self.segments.higher(segment.base_offset)
            upper_bound = self.log_end_offset if following is None else following.base_offset
        return self.aborted_transactions(offset, upper_bound, from_segment=segment)

    def _knows_aborted(self, segment: Segment | None) -> bool:
        """Whether this segment or one behind it has aborted transactions at all: most logs never had any."""
        while segment is not None and segment.txn_index.is_empty:
            segment = None if segment is self.segments.active else self.segments.higher(segment.base_offset)
        return segment is not None

    def aborted_transactions(
        self, start_offset: int, upper_bound_offset: int, *, from_segment: Segment | None = None
    ) -> list[AbortedTxn]:
        """Aborted transactions that overlap [start, upper bound), from every segment that may know of one."""
        segment = from_segment or self.segments.floor(start_offset)
        aborted: list[AbortedTxn] = []
        while segment is not None:
            found, is_complete = segment.txn_index.collect_aborted(start_offset, upper_bound_offset)
            aborted += found
            if is_complete:
                break
            segment = self.segments.higher(segment.base_offset)
        return aborted

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record at or after a time, or the place a `SpecialTimestamp` asks for; None when there is none."""
        self._check_usable()
        try:
            match timestamp:
                case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
                    earliest = self.epochs.earliest_entry
                    is_known = earliest is not None and earliest.start_offset <= self.log_start_offset
                    epoch = earliest.epoch if earliest is not None and is_known else None
                    return TimedOffset(NO_TIMESTAMP, self.log_start_offset, epoch)
                case SpecialTimestamp.LATEST:
                    return TimedOffset(NO_TIMESTAMP, self.log_end_offset, self.epochs.latest_epoch)
                case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
                    return TimedOffset(NO_TIMESTAMP, -1, -1)  # no remote tier, so nothing is in it or waits for it
                case SpecialTimestamp.MAX_TIMESTAMP:
                    # The first of equals: a later segment must have a larger timestamp to be asked.
                    newest = max(self.segments, key=lambda segment: segment.max_timestamp.timestamp)
                    return newest.find_max_timestamp()
            for segment in self.segments:
                if segment.largest_timestamp >= timestamp:
                    # The answer is this segment's, also when it has none: its newest record may lie below the log
                    # start, or compaction may have emptied it. Clients know this of Kafka: the golden data shows it.
                    return segment.find_by_timestamp(timestamp, self.log_start_offset)
        except OSError as error:
            self.log_dir.fail(f"fetching offset by timestamp for {self.partition}", error)
        return None

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int] | None:
        """The largest epoch at or below the one asked for, and where it ends; None when it is not known."""
        epoch, offset = self.epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if offset < 0 else (epoch, offset)

    # Roll and flush

    def roll(self, expected_offset: int = 0) -> Segment:
        """Close the active segment and begin a new one where its last batch ends, or beyond it at `expected_offset`.

        Where batches are missing before the log end, because a truncation has cut one or a leader has none there, they
        are missing inside of the new segment: between two segments they would be taken for a tail that a crash lost.
        """
        self._check_usable()
        try:
            offset = max(expected_offset, min(self._batches_end, self.log_end_offset))
            active = self.segments.active
            if active.base_offset == offset and active.size == 0:
                # Rolled while empty because an index was full: begin the same segment anew (KAFKA-6388). In its own
                # files: without any segment, a log that a crash leaves there would begin at zero again.
                active.begin_anew()
                return active
            assert offset > active.base_offset, f"{self}: rolling to {offset}, at or below {active}"
            for suffix in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX):
                path = f"{self.directory}/{names.offset_name(offset)}{suffix}"
                if self._world.disk.exists(path):
                    log.warning(
                        "[Log %s] Newly rolled segment file %s already exists; deleting it", self.partition, path
                    )
                    self._world.disk.remove(path)
            active.on_become_inactive()
            if self.recovery_point >= offset:
                # Its records are flushed already, so the chore below would pass it over, and a start after a power cut
                # would believe indexes whose last entries, and a file whose end, never reached the device.
                active.flush()
                self._world.disk.sync_dir(self.directory)
            segment = self._begin_segment(offset)
            # A snapshot at the new segment's start lets recovery begin there instead of reading what came before.
            self.producers.map_end_offset = offset
            snapshot = self.producers.take_snapshot(sync=False)
            if self._high_watermark.offset >= self.log_end_offset:
                self._set_high_watermark(self.end)
            self._chores.later(
                0, f"flush of {self.partition} up to {offset}", lambda: self._plan_roll_flush(offset, snapshot)
            )
        except OSError as error:
            self.log_dir.fail(f"rolling a segment for {self.partition}", error)
        log.info("[Log %s] Rolled new log segment at offset %d", self.partition, offset)
        return segment

    def _begin_segment(self, offset: int) -> Segment:
        """An empty segment to append to. Its name is durable with the next flush."""
        segment = Segment.create(self._world, self.directory, offset, self.config)
        self.segments.add(segment)
        self._begun_count += 1
        return segment

    def _plan_roll_flush(self, offset: int, snapshot: str | None) -> SyncPlan | None:
        if self.is_closed or self.log_dir.is_offline:
            return None
        # The snapshot is synced even when a flush has come first: retention may soon remove what it was made from.
        plan = self.plan_flush(offset) or SyncPlan(self._world.disk)
        if snapshot is not None and self._world.disk.exists(snapshot):
            plan.files.append(self._world.disk.open(snapshot))
            snapshot_file = plan.files[-1]
            on_done = plan.on_done

            def done() -> None:
                snapshot_file.close()
                on_done()

            plan.on_done = done
        return plan

    def plan_flush(self, offset: int | None = None, *, including_active: bool = False) -> SyncPlan | None:
        """What to sync so that everything below `offset` (the log end by default) survives a power cut."""
        # Not beyond the last batch: a chore may name an offset that a truncation has taken away since, and what is
        # appended later behind offsets without batches is not flushed by this.
        upper = min(self.log_end_offset if offset is None else offset, self._batches_end)
        truncation_count, begun_count = self.truncation_count, self._begun_count
        # There is nothing in it to lose, unless recovery or a truncation has emptied files that were not empty.
        is_unused = self.log_end_offset == 0 and self.truncation_count == 0 and not self.segments.active.is_repaired
        if upper + including_active <= self.recovery_point or is_unused:
            return None
        plan = SyncPlan(
            self._world.disk,
            on_done=lambda: self._mark_flushed(upper, truncation_count, begun_count),
            on_failed=self._on_flush_failed,
        )
        for segment in self.segments.covering(self.recovery_point, upper + including_active):
            plan.files += segment.files_to_sync()
        # The names of new segments are part of what has to survive; at an orderly stop also that of an index of aborted
        # transactions, which nobody would miss.
        if begun_count != self._named_count or including_active:
            plan.directories.append(self.directory)
        return plan

    def _mark_flushed(self, offset: int, truncation_count: int, begun_count: int) -> None:
        self._named_count = max(self._named_count, begun_count)
        # What was synced may have been truncated meanwhile, and other records be there now.
        if offset > self.recovery_point and truncation_count == self.truncation_count:
            self.recovery_point = offset
            self.last_flushed_ms = self._world.clock.now_ms()

    def _on_flush_failed(self, error: OSError) -> None:
        if not self.is_closed:  # or the files were closed under the sync, and nothing is wrong
            self.log_dir.take_offline(f"flushing {self.partition}", error)

    def flush(self, offset: int | None = None, *, including_active: bool = False) -> None:
        """Return when everything below `offset` (the log end by default) is on the device."""
        self._check_usable()
        try:
            plan = self.plan_flush(offset, including_active=including_active)
            if plan is not None:
                plan.run()
        except OSError as error:
            self.log_dir.fail(f"flushing {self.partition}", error)

    # Cut at either end

    def delete_records(self, offset: int) -> bool:
        """Raise the log start: what is below is gone for readers at once, and from disk with the next retention run."""
        return self.advance_log_start(offset, "client delete records request")

    def advance_log_start(self, offset: int, reason: str) -> bool:
        self._check_usable()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.partition} since it is larger "
                f"than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        # The recovery point stays: segments that were never synced may lie below the new start, and until retention
        # has removed them they are read when the log is opened or asked for a time.
        self.log_start_offset = offset
        log.info("[Log %s] Incremented log start offset to %d due to %s", self.partition, offset, reason)
        try:
            self.epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
        except OSError as error:
            self.log_dir.fail(f"moving the log start of {self.partition}", error)
        self._update_first_unstable()
        return True

    def truncate_to(self, offset: int) -> bool:
        """Drop everything at or above `offset`; False when there was nothing."""
        self._check_usable()
        assert offset >= 0, f"{self}: cannot truncate to {offset}"
        if offset < self.high_watermark:
            log.warning(
                "[Log %s] Truncating to offset %d below high watermark %d", self.partition, offset, self.high_watermark
            )
        try:
            if offset >= self.log_end_offset:
                # An epoch may have been opened here without a record of it; the new leader's history decides.
                self.epochs.truncate_from_end(self.log_end_offset)
                return False
            log.info("[Log %s] Truncating to offset %d", self.partition, offset)
            self.truncation_count += 1
            self._read_ends.clear()
            if self.segments.first.base_offset > offset:
                self._restart_at(offset, log_start_offset=offset)
                return True
            # From the last to the first: a crash in between leaves the log shorter, and never with a hole.
            self._remove(self.segments.above(offset)[::-1], "truncation")
            self.segments.active.truncate_to(offset)
            self._batches_end = self.segments.active.read_next_offset()
            self.log_end_offset = offset
            self.recovery_point = min(self.recovery_point, self._batches_end)
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            self._rebuild_producers(offset)
            if self.high_watermark >= offset:
                self._set_high_watermark(self.end)
            else:
                self._update_first_unstable()
            return True
        except OSError as error:
            self.log_dir.fail(f"truncating {self.partition} to offset {offset}", error)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Drop everything and begin again at `offset`."""
        self._check_usable()
        self.truncation_count += 1
        self._read_ends.clear()
        try:
            self._restart_at(offset, log_start_offset=offset if log_start_offset is None else log_start_offset)
        except OSError as error:
            self.log_dir.fail(f"truncating the entire log of {self.partition}", error)

    def _restart_at(self, offset: int, *, log_start_offset: int) -> None:
        old = list(self.segments)
        for segment in old:
            self.segments.remove(segment)
        self._retire(old)
        self._drop_snapshots(old)
        self._begin_segment(offset)
        self._batches_end = self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(offset)
        self.log_start_offset = log_start_offset
        self._rebuild_producers(offset)
        self._set_high_watermark(self.end)

    def _rebuild_producers(self, end_offset: int) -> None:
        rebuild_producer_state(
            self.producers,
            self.segments,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            now_ms=self._world.clock.now_ms(),
        )

    def delete_segments(self, deletable: Sequence[Segment], reason: str) -> int:
        """Delete the oldest segments. At least one always stays: when all may go, an empty one is begun first."""
        gone = list(deletable)
        if not gone:
            return 0
        self._check_usable()
        if len(gone) == len(self.segments):
            begun = self.roll()
            if gone[-1].base_offset == begun.base_offset:
                gone.pop()  # the empty active segment was replaced by itself
        if gone:
            following = self.segments.higher(gone[-1].base_offset)
            assert following is not None, f"{self}: no segment is left after {gone[-1]}"
            self.advance_log_start(following.base_offset, "segment deletion")
            try:
                self._remove(gone, reason)
            except OSError as error:
                self.log_dir.fail(f"deleting segments of {self.partition}", error)
        return len(deletable)

    def _remove(self, segments: Sequence[Segment], reason: str) -> None:
        if segments:
            log.info(
                "[Log %s] Deleting segments due to %s: %s", self.partition, reason, [s.base_offset for s in segments]
            )
        for segment in segments:
            self.segments.remove(segment)
        self._retire(segments)
        self._drop_snapshots(segments)
        if segments:
            # For good, before the log goes on: files that a power cut brings back would stand behind what is appended
            # after a truncation, or take back a log start that was checkpointed.
            self._world.disk.sync_dir(self.directory)

    def _retire(self, segments: Sequence[Segment]) -> None:
        """Mark files as deleted at once, and remove them when no reader can have them open any more."""
        retire_segments(segments, self._chores, self.config)

    def _drop_snapshots(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            path = self.producers.remove_and_mark_snapshot_for_deletion(segment.base_offset)
            if path is not None:
                remove_later(self._world.disk, path, self._chores, self.config)

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put `.cleaned` segments in the place of the ones they were made from, so that no crash loses either."""
        self._check_usable()
        self._read_ends.clear()
        try:
            dropped = swap_in(self._world.disk, self.directory, self.segments, new, old, self._chores, self.config)
            self._drop_snapshots(dropped)
        except OSError as error:
            self.log_dir.fail(f"replacing segments of {self.partition}", error)

    def split_segment(self, segment: Segment) -> None:
        """Replace a segment whose offsets span more than an index can hold by as many as they need."""
        self._check_usable()
        self._read_ends.clear()
        try:
            split_segment(self._world, segment, self.segments, self.config, self._chores)
        except OSError as error:
            self.log_dir.fail(f"splitting a segment of {self.partition}", error)

    # Life

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """The topic's id, which is written beside the log soon, and before any record is."""
        if self.topic_id is None:
            self.topic_id = topic_id
            self._is_unsettled = True
            self._chores.later(0, f"partition metadata of {self.partition}", self.plan_settle)
        elif self.topic_id != topic_id:
            raise InconsistentTopicId(
                f"Tried to assign topic ID {topic_id} to log for topic partition {self.partition}, but log already "
                f"contained topic ID {self.topic_id}"
            )

    def rename_directory(self, name: str, *, durably: bool = True) -> None:
        """The partition's directory gets another name: it is to be deleted, or a future copy takes its place."""
        self._check_usable()
        directory = f"{self.directory.rpartition('/')[0]}/{name}"
        try:
            self._world.disk.rename(self.directory, directory)
            if durably:
                self._world.disk.sync_dir(directory_of(directory))
        except OSError as error:
            self.log_dir.fail(f"renaming the directory of {self.partition}", error)
        self.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
        self.producers.move_to(directory)
        self.epochs.move_to(directory)
        self._metadata_file = PartitionMetadata(self._world.disk, f"{directory}/{names.PARTITION_METADATA}")

    def remove_expired_producers(self) -> None:
        self.producers.remove_expired(self._world.clock.now_ms())

    def close(self) -> None:
        """Bring every file to its final form: with a clean-shutdown marker, the next start reads nothing again."""
        if self.is_closed:
            return
        self.log_dir.check_online()
        try:
            self._write_id()
            self.epochs.flush()
            self.producers.take_snapshot()
            for segment in self.segments:
                segment.close()
        except OSError as error:
            self.log_dir.fail(f"closing {self.partition}", error)
        self.is_closed = True

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
        return SyncPlan(self._world.disk, removed_trees=[self.directory])

    def _check_usable(self) -> None:
        if self.is_closed or self.log_dir.failure is not None:
            self.log_dir.check_online()
            raise KafkaStorageError(f"The log of {self.partition} is already closed")

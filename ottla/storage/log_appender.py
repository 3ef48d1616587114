"""Appending to a log: a leader's batches get their offsets here, a follower's bring them.

Promises: offsets are assigned without holes and in order. Nothing is changed before every check has passed: a refused
append leaves the log as it was. Called by `log`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from ottla.errors import CorruptMessage, InvalidRecord, RecordListTooLarge
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
from ottla.storage.append_rules import AppendRules
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.producer_append import TRANSACTION_VERSION_UNKNOWN
from ottla.storage.rebuild import end_transaction
from ottla.storage.validator import AppendOrigin, accept, check_batch, only_batch, read_over
from ottla.types import Buffer

if TYPE_CHECKING:
    from ottla.storage.log import Log

log = logging.getLogger(__name__)

_stamp = Struct(">qii").pack_into
"""Base offset, length and leader epoch: the head of a batch, up to what does not change."""
_unpack_header = HEADER.unpack_from
_CODEC_MAX = int(Codec.ZSTD)


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


class LogAppender:
    """See the module."""

    __slots__ = ("_clock", "_log", "_rules")

    def __init__(self, owner: Log) -> None:
        self._log = owner
        self._clock = owner.world.clock
        self._rules = AppendRules(owner.config)

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
        owner = self._log
        if owner.is_closed or owner.log_dir.failure is not None:
            owner.check_usable()
        if owner.is_unsettled:
            owner.settle()
        view = data if isinstance(data, memoryview) else memoryview(data)
        if origin is AppendOrigin.RAFT_LEADER:
            return self._append_given(view, leader_epoch=leader_epoch, origin=origin)
        if origin is AppendOrigin.CLIENT or origin is AppendOrigin.COORDINATOR:
            # A coordinator's batches have no producer but for transactions, which are never plain: so the rules for
            # sequences, which are not the same for both, do not come into it.
            first_offset = self.append_plain(view, leader_epoch)
            if first_offset is not None:
                return AppendInfo(
                    first_offset, owner.log_end_offset - 1, NO_TIMESTAMP, owner.log_start_offset, len(view)
                )  # fmt: skip
        batch = only_batch(view, owner.partition)
        if batch is None:
            return AppendInfo(-1, -1, NO_TIMESTAMP, owner.log_start_offset, 0)
        config = owner.config
        now_ms = owner.world.clock.now_ms()
        check_batch(batch, partition=owner.partition, config=config, origin=origin)
        view, batch = accept(
            view,
            batch,
            partition=owner.partition,
            config=config,
            base_offset=owner.log_end_offset,
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
        owner = self._log
        rules = self._rules
        if rules.config is not owner.config:
            rules = self._rules = AppendRules(owner.config)
        if (
            not rules.takes_as_they_come
            or owner.is_unsettled
            or owner.is_closed
            or owner.log_dir.failure is not None
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
            or leader_epoch != owner.epochs.latest_epoch
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
        owner = self._log
        rules = self._rules
        if rules.config is not owner.config:
            rules = self._rules = AppendRules(owner.config)
        if (
            not rules.takes_as_they_come
            or owner.is_unsettled
            or owner.is_closed
            or owner.log_dir.failure is not None
            or view.readonly
            or len(view) > rules.size_max
            or leader_epoch != owner.epochs.latest_epoch
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
        owner = self._log
        segment = owner.segments.active
        base_offset = owner.log_end_offset
        end_offset = base_offset + count
        size = len(view)
        try:
            # A segment that was opened and not written to since looks up in its file when it began.
            if not segment.takes(rules, size, max_timestamp, end_offset - 1, now_ms):
                return None
            entry = metadata = None
            if batch is not None and batch.producer_id >= 0:
                batch.base_offset = base_offset
                entry = owner.producers.producers.get(batch.producer_id)
                metadata = None if entry is None else owner.producers.next_of(entry, batch)
                if metadata is None:
                    return None
            _stamp(view, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
            segment.append_one(view, end_offset - 1, max_timestamp)
            owner.batches_end = owner.log_end_offset = end_offset
            if batch is not None and entry is not None and metadata is not None:
                entry.add_batch(batch.producer_epoch, metadata)
            owner.producers.map_end_offset = end_offset
            if end_offset - owner.flusher.recovery_point >= rules.flush_messages:
                owner.flush()
        except OSError as error:
            owner.log_dir.fail(f"appending records to {owner.partition}", error)
        return base_offset

    def append_as_follower(self, data: Buffer, *, leader_epoch: int) -> AppendInfo:
        """Append batches as they came from the leader, offsets and epochs and all.

        Batches of a newer epoch than this replica knows are left out: they may be ones the leader will lose
        (KAFKA-18723). A cut-off batch at the end is left out too.
        """
        owner = self._log
        owner.check_usable()
        if owner.is_unsettled:
            owner.settle()
        return self._append_given(memoryview(data), leader_epoch=leader_epoch, origin=AppendOrigin.REPLICATION)

    def _append_given(self, view: memoryview, *, leader_epoch: int, origin: AppendOrigin) -> AppendInfo:
        owner = self._log
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
                    owner.partition, batch.base_offset, batch.leader_epoch, leader_epoch,
                )  # fmt: skip
                break
            if batch.last_offset <= last_offset:
                raise OffsetsOutOfOrder(
                    f"Out of order offsets found in append to {owner.partition}: "
                    f"{batch.last_offset} after {last_offset}"
                )
            if not batch.check_crc():
                raise CorruptMessage(
                    f"Record is corrupt (stored crc = {batch.crc}) in topic partition {owner.partition}"
                )
            last_offset = batch.last_offset
            max_timestamp = max(max_timestamp, batch.max_timestamp)
            size += batch.size
            taken.append(batch)
        if not taken:
            return AppendInfo(-1, -1, NO_TIMESTAMP, owner.log_start_offset, 0)
        if taken[0].base_offset < owner.log_end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {owner.partition}. First offset {taken[0].base_offset} is less than "
                f"the next offset {owner.log_end_offset}. Last offset in append: {last_offset}. "
                f"Log start offset = {owner.log_start_offset}",
                taken[0].base_offset,
                last_offset,
            )
        return self._append_batches(
            view[:size],
            taken,
            max_timestamp=max_timestamp,
            append_time_ms=NO_TIMESTAMP,
            now_ms=owner.world.clock.now_ms(),
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
        owner = self._log
        first, last = taken[0], taken[-1]
        size = len(data)
        config = owner.config
        try:
            for batch in taken:
                if batch.leader_epoch != owner.epochs.latest_epoch and batch.leader_epoch >= 0:
                    owner.epochs.assign(batch.leader_epoch, batch.base_offset)
            if size > config.segment_size_max:
                raise RecordListTooLarge(
                    f"Message batch size is {size} bytes in append to partition {owner.partition}, which exceeds the "
                    f"maximum configured segment size of {config.segment_size_max}"
                )
            segment = owner.segments.active
            last_offset = last.base_offset + last.last_offset_delta
            if segment.should_roll(
                config, size=size, max_timestamp=max_timestamp, last_offset=last_offset, now_ms=now_ms
            ):
                is_far = last_offset - owner.log_end_offset > RELATIVE_OFFSET_MAX
                segment = owner.roll(first.base_offset if is_far else 0)
            update = None
            if any(batch.producer_id >= 0 for batch in taken):
                update = owner.producers.analyze(
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
                        known.first_offset, known.last_offset, known.timestamp, owner.log_start_offset, 0, True
                    )
            segment.append(data, taken)
            # From here on the records are in the log. The end moves first, so that whatever fails below cannot make
            # the next append reuse their offsets.
            owner.batches_end = owner.log_end_offset = last_offset + 1
            if update is not None:
                owner.producers.apply(update)
                for completed in update.completed:
                    end_transaction(owner.producers, completed, segment)
                if update.appends is not None:
                    owner.watermarks.update_first_unstable()
            owner.producers.map_end_offset = last_offset + 1
            if last_offset + 1 - owner.flusher.recovery_point >= config.flush_messages:
                owner.flush()
        except OSError as error:
            owner.log_dir.fail(f"appending records to {owner.partition}", error)
        return AppendInfo(first.base_offset, last_offset, append_time_ms, owner.log_start_offset, size)

"""Appending to a log: a leader's batches get their offsets here, a follower's bring them.

There is one way in. What a leader is given is checked once (`validator`) and stamped; what a follower is given is as
its leader has stored it; `_write` puts both at the end. Where records come from (`AppendOrigin`) decides what is asked
of them. An everyday batch costs one pass over its bytes for the checksum, one over its records, and one write.

Promises: offsets are assigned without holes and in order. Nothing is changed before every check has passed: a refused
append leaves the log as it was. Called by `log`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptMessage, InvalidRecord, OutOfOrderSequenceNumber, RecordListTooLarge
from ottla.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP, Batch, batches
from ottla.storage.append_rules import AppendRules
from ottla.storage.index import RELATIVE_OFFSET_MAX
from ottla.storage.producer_append import TRANSACTION_VERSION_UNKNOWN
from ottla.storage.producer_entry import BatchMetadata
from ottla.storage.rebuild import end_transaction
from ottla.storage.recall import recall_batches
from ottla.storage.validator import AppendOrigin, accept, only_batch
from ottla.types import Buffer

if TYPE_CHECKING:
    from ottla.storage.log import Log

log = logging.getLogger(__name__)

_stamp = Struct(">qii").pack_into
"""Base offset, length and leader epoch: the head of a batch, up to what does not change."""

# A member of an enum costs a call where it is named.
_CLIENT = AppendOrigin.CLIENT
_RAFT_LEADER = AppendOrigin.RAFT_LEADER
# What a named tuple's constructor does, at half its price.
_new_tuple = tuple.__new__


class OffsetsOutOfOrder(Exception):
    """A follower was given batches whose offsets do not grow."""


class UnexpectedAppendOffset(Exception):
    """A follower was given batches below its log end."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class AppendInfo(NamedTuple):
    """What an append did: offsets are inclusive, and -1 where nothing was appended."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    size: int
    is_duplicate: bool = False


class LogAppender:
    """See the module."""

    __slots__ = ("_log", "_now_ms", "_rules")

    def __init__(self, owner: Log) -> None:
        self._log = owner
        self._now_ms = owner.world.clock.now_ms
        self._rules = AppendRules(owner.config)

    def append_as_leader(
        self,
        data: Buffer,
        leader_epoch: int,
        origin: AppendOrigin = _CLIENT,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendInfo:
        """Append one batch, giving it the next offsets and the leader's epoch. A writable `data` is stamped in place.

        A batch of an idempotent producer that is already in the log is answered with the offsets it has there.
        `RAFT_LEADER` batches come with their offsets and epoch set, and there may be several.
        """
        owner = self._log
        if owner.is_unsettled or owner.log_dir.failure is not None:
            owner.settle()
        view = data if isinstance(data, memoryview) else memoryview(data)
        if origin is _RAFT_LEADER:
            return self._append_given(view, leader_epoch=leader_epoch, origin=origin)
        rules = self._rules
        if rules.config is not owner.config:
            rules = self._rules = AppendRules(owner.config)
        partition = owner.partition
        # One whole batch and nothing else, as nearly always; or what can be made of it.
        size = len(view)
        batch = Batch(view, 0) if size >= HEADER_SIZE else None
        if batch is None or batch.size != size or batch.magic != MAGIC:
            batch = only_batch(view, partition)
            if batch is None:
                return AppendInfo(-1, -1, NO_TIMESTAMP, owner.log_start_offset, 0)
        now_ms = self._now_ms()
        batch = accept(batch, rules, origin, partition, now_ms)
        if batch.buffer is not view or batch.size != size:
            view = batch.data
            size = batch.size
        base_offset = batch.base_offset = owner.log_end_offset
        batch.leader_epoch = leader_epoch
        _stamp(view, 0, base_offset, size - LOG_OVERHEAD, leader_epoch)
        known = self._write(
            view,
            size,
            (batch,),
            base_offset + batch.last_offset_delta,
            batch.max_timestamp,
            batch.producer_id >= 0,
            now_ms,
            rules,
            origin,
            verification_guard,
            transaction_version,
        )
        start = owner.log_start_offset
        if known is not None:
            return AppendInfo(known.first_offset, known.last_offset, known.timestamp, start, 0, True)
        append_time_ms = now_ms if rules.is_append_time else NO_TIMESTAMP
        return _new_tuple(
            AppendInfo, (base_offset, base_offset + batch.last_offset_delta, append_time_ms, start, size, False)
        )

    def append_as_follower(self, data: Buffer, *, leader_epoch: int) -> AppendInfo:
        """See `Log.append_as_follower`."""
        owner = self._log
        if owner.is_unsettled or owner.log_dir.failure is not None:
            owner.settle()
        return self._append_given(memoryview(data), leader_epoch=leader_epoch, origin=AppendOrigin.REPLICATION)

    def _append_given(self, view: memoryview, *, leader_epoch: int, origin: AppendOrigin) -> AppendInfo:
        """Batches that bring their offsets and epochs, from a leader or as one of raft's."""
        owner = self._log
        taken: list[Batch] = []
        last_offset = -1
        max_timestamp = NO_TIMESTAMP
        has_producer = False
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
            has_producer = has_producer or batch.producer_id >= 0
            size += batch.size
            taken.append(batch)
        if not taken:
            return AppendInfo(-1, -1, NO_TIMESTAMP, owner.log_start_offset, 0)
        first_offset = taken[0].base_offset
        if first_offset < owner.log_end_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {owner.partition}. First offset {first_offset} is less than "
                f"the next offset {owner.log_end_offset}. Last offset in append: {last_offset}. "
                f"Log start offset = {owner.log_start_offset}",
                first_offset,
                last_offset,
            )
        rules = self._rules
        if rules.config is not owner.config:
            rules = self._rules = AppendRules(owner.config)
        known = self._write(
            view[:size],
            size,
            taken,
            last_offset,
            max_timestamp,
            has_producer,
            self._now_ms(),
            rules,
            origin,
            None,
            TRANSACTION_VERSION_UNKNOWN,
        )
        assert known is None, "only a client's batch is looked for among those that are there"
        return AppendInfo(first_offset, last_offset, NO_TIMESTAMP, owner.log_start_offset, size)

    def _write(
        self,
        data: memoryview,
        size: int,
        taken: Sequence[Batch],
        last_offset: int,
        max_timestamp: int,
        has_producer: bool,
        now_ms: int,
        rules: AppendRules,
        origin: AppendOrigin,
        verification_guard: object | None,
        transaction_version: int,
    ) -> BatchMetadata | None:
        """The batches of `data` are in order and have their offsets, up to `last_offset`: hold them to their producers'
        state and put them at the log's end. Returns the batch that is there already, if a client has sent it again.

        Everything that can be refused is refused before anything is changed; the segment is ended after that.
        """
        owner = self._log
        if size > rules.segment_size_max:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {owner.partition}, which exceeds the "
                f"maximum configured segment size of {rules.segment_size_max}"
            )
        try:
            segment = owner.segments.active
            # A segment that was opened and not written to since looks up in its file when it began.
            roll_offset = None
            if segment.should_roll(rules, size, max_timestamp, last_offset, now_ms):
                is_far = last_offset - owner.log_end_offset > RELATIVE_OFFSET_MAX
                roll_offset = owner.roll_offset(taken[0].base_offset if is_far else 0)
            producers = owner.producers
            update = None
            if has_producer:
                base_offset = segment.base_offset if roll_offset is None else roll_offset
                position = segment.size if roll_offset is None else 0
                try:
                    update = producers.analyze(
                        taken, origin, base_offset, position, verification_guard, transaction_version
                    )
                except OutOfOrderSequenceNumber:
                    last = taken[-1]
                    entry = producers.producers.get(last.producer_id)
                    if entry is None or not recall_batches(entry, last, owner.segments, owner.log_start_offset):
                        raise
                    update = producers.analyze(
                        taken, origin, base_offset, position, verification_guard, transaction_version
                    )
                if update.duplicate is not None:
                    return update.duplicate
            if taken[-1].leader_epoch != owner.epochs.latest_epoch or len(taken) > 1:
                self._begin_epochs(taken)
            if roll_offset is not None:
                segment = owner.roll(roll_offset)
            if update is not None and any(completed.is_aborted for completed in update.completed):
                segment.txn_index.prepare()
            segment.append(data, taken, last_offset)
            # From here on the records are in the log. The end moves first, so that whatever fails below cannot make
            # the next append reuse their offsets.
            owner.batches_end = owner.log_end_offset = end_offset = last_offset + 1
            if update is not None:
                producers.apply(update)
                for completed in update.completed:
                    end_transaction(producers, completed, segment)
                if update.appends is not None:
                    owner.watermarks.update_first_unstable()
            producers.map_end_offset = end_offset
            if end_offset - owner.flusher.recovery_point >= rules.flush_messages:
                owner.flush()
        except OSError as error:
            owner.log_dir.fail(f"appending records to {owner.partition}", error)
        return None

    def _begin_epochs(self, taken: Sequence[Batch]) -> None:
        owner = self._log
        for batch in taken:
            if batch.leader_epoch != owner.epochs.latest_epoch and batch.leader_epoch >= 0:
                owner.epochs.begin(batch.leader_epoch, batch.base_offset)
        owner.write_epochs_later()

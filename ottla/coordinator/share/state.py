"""`ShareState`: everything that is stored about one share partition, and the records that say so.

A snapshot holds the whole state; updates after it hold what has changed. The versions and values are those that Kafka
4.3 writes.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.coordinator.record import CoordinatorRecord
from ottla.coordinator.share.key import SharePartitionKey
from ottla.coordinator.share.state_batch import StateBatch, combine
from ottla.wire.coordinator.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ottla.wire.coordinator.share_state import StateBatch as RecordBatch

UNINITIALIZED_OFFSET = -1
"""The start offset of a share partition that nobody has read from yet: the group's settings say where it begins."""
UNKNOWN_COUNT = -1
NO_EPOCH = -1
"""A request that makes no claim about an epoch."""


class StateUpdate(NamedTuple):
    """What a share partition's leader wants to be written."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareState(NamedTuple):
    """The state of one share partition, as of the last record about it."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    """How many records from the start offset on are acknowledged or archived; -1 where it is not known."""
    batches: tuple[StateBatch, ...]
    created_ms: int
    written_ms: int
    """Both are of the snapshot; they differ where it repeats an older one."""
    leader_epoch_max: int
    """The highest seen: a leader of an older one is fenced, also after the state was begun anew."""
    state_epoch_max: int
    update_count: int = 0
    """How many updates have been written since a snapshot was last due."""

    def updated(self, value: ShareUpdateValue) -> ShareState:
        """The state after an update."""
        start_offset = self.start_offset if value.start_offset == UNINITIALIZED_OFFSET else value.start_offset
        return self._replace(
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            leader_epoch=self.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch,
            batches=combine(self.batches, _batches(value.state_batches), start_offset),
            leader_epoch_max=max(self.leader_epoch_max, value.leader_epoch),
            update_count=self.update_count + 1,
        )


def state_of_snapshot(value: ShareSnapshotValue, known: ShareState | None, *, updates_max: int) -> ShareState:
    """The state after a snapshot; `known` is the one before it."""
    update_count = 0 if known is None or known.update_count >= updates_max else known.update_count
    return ShareState(
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
        value.create_timestamp,
        value.write_timestamp,
        leader_epoch_max=value.leader_epoch if known is None else max(known.leader_epoch_max, value.leader_epoch),
        state_epoch_max=value.state_epoch if known is None else max(known.state_epoch_max, value.state_epoch),
        update_count=update_count,
    )


def state_of_update(value: ShareUpdateValue) -> ShareState:
    """The state after an update whose snapshot is not in the log."""
    return ShareState(
        value.snapshot_epoch,
        0,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        _batches(value.state_batches),
        0,
        0,
        leader_epoch_max=value.leader_epoch,
        state_epoch_max=NO_EPOCH,
        update_count=1,
    )


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareSnapshotKey(*key),
        ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.created_ms,
            write_timestamp=state.written_ms,
            state_batches=_record_batches(state.batches),
        ),
    )


def update_record(key: SharePartitionKey, snapshot_epoch: int, update: StateUpdate) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareUpdateKey(*key),
        ShareUpdateValue(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=_record_batches(update.batches),
        ),
    )


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """The end of a share partition's state, which is always that of its snapshot."""
    return CoordinatorRecord(ShareSnapshotKey(*key))


def _batches(batches: list[RecordBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_count, one.delivery_state) for one in batches
    )


def _record_batches(batches: tuple[StateBatch, ...]) -> list[RecordBatch]:
    return [RecordBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches]

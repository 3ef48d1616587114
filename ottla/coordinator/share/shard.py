"""`ShareShard`: the state of the share partitions that one partition of `__share_group_state` holds.

Each decision is about one share partition. Its leader's epoch and the group's state epoch fence: whoever comes with an
older one than was seen is told so, and has to find out who is in charge now. A change is written as an update, and as a
snapshot when enough updates have come together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from ottla.config import BrokerConfig
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.shard import ShardContext, ShardLog
from ottla.coordinator.share.key import SharePartitionKey
from ottla.coordinator.share.state import (
    NO_EPOCH,
    UNINITIALIZED_OFFSET,
    UNKNOWN_COUNT,
    ShareState,
    StateUpdate,
    snapshot_record,
    state_of_snapshot,
    state_of_update,
    tombstone,
    update_record,
)
from ottla.coordinator.share.state_batch import StateBatch, combine
from ottla.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition
from ottla.machine import Result, UndoDict
from ottla.metadata import Delta
from ottla.types import Uuid
from ottla.wire.coordinator.share_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

log = logging.getLogger(__name__)


class StoredState(NamedTuple):
    """What the leader of a share partition goes on from."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class StateSummary(NamedTuple):
    """How far a share partition has come; the offset is -1 where nobody has read from it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class ShareShard:
    """See the module. `log` is where the shard is written to: offsets are counted from its start on."""

    def __init__(self, context: ShardContext, config: Callable[[], BrokerConfig], shard_log: ShardLog) -> None:
        self.context = context
        self._config = config
        self._log = shard_log
        self.states: UndoDict[SharePartitionKey, ShareState] = UndoDict(context.undo)
        self._snapshots: UndoDict[SharePartitionKey, int] = UndoDict(context.undo)
        """Where the last snapshot of each share partition is."""
        self._next_offset = shard_log.log_start_offset
        """Of the record that is replayed next. While the log is loaded, records that are not understood are not
        counted, so it may be too low: then less is deleted than could be."""

    # Decisions

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Result[None]:
        """Begin the state anew, whatever there was."""
        self._check_partition(key)
        known = self.states.get(key)
        if known is not None and NO_EPOCH != state_epoch < known.state_epoch_max:
            raise FencedStateEpoch
        self._check_topic(key)
        now_ms = self.context.world.clock.now_ms()
        state = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN_COUNT if start_offset == UNINITIALIZED_OFFSET else 0,
            batches=(),
            created_ms=now_ms,
            written_ms=now_ms,
            leader_epoch_max=0,
            state_epoch_max=state_epoch,
        )
        return Result(None, [snapshot_record(key, state)])

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Result[StoredState]:
        """The state for a new leader, whose epoch is written down so that the one before it is fenced."""
        state = self._existing(key, "read", leader_epoch)
        self._check_topic(key)
        stored = StoredState(state.state_epoch, state.start_offset, state.batches)
        if leader_epoch in (NO_EPOCH, state.leader_epoch_max):
            return Result(stored)
        log.info("[ShareCoordinator] The leader of share partition %s has the new epoch %d", key, leader_epoch)
        update = StateUpdate(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return Result(stored, [self._record(key, state, update, leader_epoch)])

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Result[None]:
        """Write what a leader tells."""
        state = self._existing(key, "write", update.leader_epoch)
        if NO_EPOCH != update.state_epoch < state.state_epoch_max:
            raise FencedStateEpoch
        self._check_topic(key)
        if any(batch.last_offset < batch.first_offset for batch in update.batches):
            raise InvalidRequest("A batch of offsets ends before it begins.")
        return Result(None, [self._record(key, state, update, state.leader_epoch)])

    def read_summary(self, key: SharePartitionKey) -> Result[StateSummary]:
        """How far the share partition has come; an unknown one has not begun."""
        self._check_partition(key)
        self._check_topic(key)
        state = self.states.get(key)
        if state is None:
            return Result(StateSummary(0, 0, UNINITIALIZED_OFFSET, UNKNOWN_COUNT))
        return Result(
            StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)
        )

    def delete(self, key: SharePartitionKey) -> Result[None]:
        """Forget the state; it is no error when there is none."""
        self._check_partition(key)
        self._check_topic(key)
        return Result(None, [tombstone(key)] if key in self.states else [])

    def forget_topics(self, topic_ids: Collection[Uuid]) -> Result[None]:
        """These topics are deleted: so is the state of their share partitions."""
        return Result(None, [tombstone(key) for key in self.states if key.topic_id in topic_ids])

    def snapshot_cold(self) -> Result[None]:
        """Write anew what was not written for long, so that the log before it can be deleted.

        When that has been done for all of them, nothing is going on, and writing them again would gain nothing.
        """
        states = self.states
        if all(state.created_ms != state.written_ms for state in states.values()):
            return Result(None)
        now_ms = self.context.world.clock.now_ms()
        interval_ms = self._config().share_coordinator_cold_partition_snapshot_interval_ms
        return Result(
            None,
            [
                snapshot_record(key, state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms))
                for key, state in states.items()
                if now_ms - state.written_ms >= interval_ms
            ],
        )

    @property
    def needed_offset(self) -> int | None:
        """The first offset of the log that is still needed: a snapshot makes all before it about the same redundant.

        The topic is not compacted; what lies below may be deleted. None while nothing does.
        """
        return min(self._snapshots.values(), default=0) or None

    def _existing(self, key: SharePartitionKey, verb: str, leader_epoch: int) -> ShareState:
        self._check_partition(key)
        state = self.states.get(key)
        if state is None:
            raise InvalidRequest(f"The share partition {key} is not initialized, so it cannot be {_PAST[verb]}.")
        if NO_EPOCH != leader_epoch < state.leader_epoch_max:
            log.warning("[ShareCoordinator] Leader epoch %d wants to %s the state of %s, but %d was seen",
                      leader_epoch, verb, key, state.leader_epoch_max)  # fmt: skip
            raise FencedLeaderEpoch
        return state

    def _check_partition(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            raise InvalidRequest("The partition id cannot be negative.")

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self.context.image.topics.by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition

    def _record(
        self, key: SharePartitionKey, state: ShareState, update: StateUpdate, leader_epoch: int
    ) -> CoordinatorRecord:
        """An update, or a snapshot when it is time for one."""
        if state.update_count < self._config().share_coordinator_snapshot_update_records_per_snapshot:
            update = update._replace(
                leader_epoch=leader_epoch, batches=combine((), update.batches, update.start_offset)
            )
            return update_record(key, state.snapshot_epoch, update)
        now_ms = self.context.world.clock.now_ms()
        start_offset = state.start_offset if update.start_offset == UNINITIALIZED_OFFSET else update.start_offset
        return snapshot_record(
            key,
            state._replace(
                snapshot_epoch=state.snapshot_epoch + 1,
                start_offset=start_offset,
                delivery_complete_count=update.delivery_complete_count,
                leader_epoch=leader_epoch,
                batches=combine(state.batches, update.batches, start_offset),
                created_ms=now_ms,
                written_ms=now_ms,
            ),
        )

    # Replay

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        offset = self._next_offset
        self.context.undo.assign(self, "_next_offset", offset + 1)
        key, value = record.key, record.value
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey), f"{key.schema.name} is not about share partitions"
        at = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        known = self.states.get(at)
        if isinstance(value, ShareUpdateValue):
            self.states[at] = state_of_update(value) if known is None else known.updated(value)
            return
        if isinstance(value, ShareSnapshotValue):
            updates_max = self._config().share_coordinator_snapshot_update_records_per_snapshot
            self.states[at] = state_of_snapshot(value, known, updates_max=updates_max)
            self._snapshots[at] = offset
        else:
            self.states.pop(at, None)
            self._snapshots.pop(at, None)

    def replay_marker(self, marker: EndMarker) -> None:
        """Nobody writes transactions here."""

    def on_loaded(self) -> None:
        self._next_offset = self._log.log_end_offset

    def on_unloaded(self) -> None:
        """Nobody waits for a shard of this kind."""

    def on_metadata(self, delta: Delta) -> None:
        """The coordinator asks for what follows from deleted topics."""


_PAST = {"read": "read", "write": "written"}

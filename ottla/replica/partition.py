"""One partition on this node: its log, who leads it in which epoch, and how far its records are replicated.

Promises: a leader appends only in its own epoch and, for acks=all, only while enough replicas are in sync; the high
watermark is never beyond what every in-sync replica has; a reader is told when its knowledge of the leader is older or
newer than this node's. A partition whose directory failed, or that this node does not lead, answers with the error
that sends a client where it should go. Called by the handlers; changed by `manager` and by appends and fetches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.config import CleanupPolicy
from ottla.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.metadata import NO_LEADER, PartitionImage
from ottla.replica.follower import NO_BROKER_EPOCH, Follower
from ottla.replica.leadership import (
    AdvanceHighWatermark,
    AlterPartition,
    BeginEpoch,
    Effect,
    IsrAnswer,
    IsrChange,
    IsrShrinking,
    IsrUpdated,
    IsrUpdateFailed,
    Leadership,
    MoveLowWatermark,
)
from ottla.replica.refusals import Refusals
from ottla.replica.stats import IsrStats, TopicStats
from ottla.replica.waiters import Waiter, Waiters
from ottla.storage import (
    TRANSACTION_VERSION_UNKNOWN,
    AbortedTxn,
    AppendInfo,
    AppendOrigin,
    FileSlice,
    Isolation,
    Log,
    OffsetMetadata,
    SpecialTimestamp,
    TimedOffset,
)
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.world import Clock

if TYPE_CHECKING:
    from ottla.replica.follower_feed import Interest
    from ottla.replica.isr_changes import Outcome

log = logging.getLogger(__name__)

NO_EPOCH = -1
"""What a request says that does not know the leader's epoch."""
HIGH_WATERMARK = -1
"""The offset in DeleteRecords that stands for everything that may be deleted."""

Alter: TypeAlias = "Callable[[Partition, IsrChange], None]"
"""Asks the controller for a change of the ISR; the partition is told with `on_isr_outcome`."""


class PartitionRead(NamedTuple):
    """What a read found, and the bounds of the log when it was done."""

    start: OffsetMetadata
    records: FileSlice | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTxn] | None
    diverging: tuple[int, int] | None = None
    """The last epoch that the reader's log shares with this one, and where it ends here."""


class Partition:
    """See the module. A partition is made once and changes with the metadata; a topic made anew has new ones."""

    __slots__ = (
        "_all_waiters",
        "_alter",
        "_clock",
        "_isr_stats",
        "_refusals",
        "failure",
        "index",
        "is_alone",
        "is_leader",
        "is_serving",
        "leader_epoch",
        "leader_id",
        "leadership",
        "log",
        "name",
        "node_id",
        "resting",
        "stats",
        "topic",
        "topic_id",
        "waiters",
        "when_committed",
    )

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        index: int,
        *,
        leadership: Leadership,
        clock: Clock,
        waiters: Waiters,
        alter: Alter,
        stats: TopicStats,
        isr_stats: IsrStats,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.name = TopicPartition(topic, index)
        self.node_id = leadership.node_id
        self.log: Log | None = None
        self.leadership = leadership
        """Who is in sync, and how far all of them have come. What every request reads of it is here as well."""
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.is_leader = False
        self.is_serving = True
        """False once the partition is deleted or its directory has failed: nobody waits for it any more."""
        self.failure: type[KafkaStorageError | UnknownTopicOrPartition] | None = None
        """What those are told who find it out of service."""
        self.is_alone = False
        """Whether this replica leads and is all there is: its own log end is the high watermark."""
        self.waiters: dict[Waiter, None] = {}
        self.resting: dict[Interest, None] = {}
        """The sessions of followers that do not look here until something changes."""
        self.when_committed: Callable[[int], object] | None = None
        """Told the high watermark when a follower's fetch or a change of the in-sync replicas has moved it."""
        self._all_waiters = waiters
        self._clock = clock
        self._alter = alter
        self.stats = stats
        self._isr_stats = isr_stats
        self._refusals: Refusals | None = None

    def __repr__(self) -> str:
        return (
            f"Partition({self.name}, leader={self.leader_id}, leader_epoch={self.leader_epoch}, isr={list(self.isr)}, "
            f"log={self.log!r})"
        )

    # What the metadata says

    def lead(self, image: PartitionImage, log: Log) -> bool:
        """This node leads, from now on or still; False when the image is older than what is known."""
        effects = self.leadership.lead(image, log, self._clock.monotonic_ms())
        if effects is None:
            return False
        self.log = log
        self._assign(image)
        self.is_leader = True
        self.is_alone = image.replicas == image.isr == (self.node_id,)
        self._act(effects)
        self._changed()
        return True

    def follow(self, image: PartitionImage, log: Log) -> bool:
        """Another node leads, or none; returns whether that began a new epoch."""
        is_new_epoch = self.leadership.follow(image)
        if is_new_epoch is None:
            return False
        self.log = log
        self._assign(image)
        self.is_leader = False
        self.is_alone = False
        self._changed()
        return is_new_epoch

    def _assign(self, image: PartitionImage) -> None:
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch

    def stop(self, failure: type[KafkaStorageError | UnknownTopicOrPartition]) -> None:
        """The partition is deleted, or its directory is offline: whoever waits for it is told."""
        self.is_serving = False
        self.is_leader = False
        self.is_alone = False
        self.failure = failure
        self.leadership.stop()
        self._changed()

    def _changed(self) -> None:
        """Whoever waits looks, and followers' sessions do with their next fetch."""
        self._all_waiters.touch(self)
        if self.resting:
            self._wake()

    def _wake(self) -> None:
        resting, self.resting = self.resting, {}
        for interest in resting:
            assert interest.feed is not None, "what rests belongs to a session"
            interest.feed.on_change(interest, self)

    # Who is in sync

    @property
    def replicas(self) -> tuple[int, ...]:
        return self.leadership.replicas

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR, where this node leads."""
        return self.leadership.isr

    @property
    def followers(self) -> dict[int, Follower]:
        return self.leadership.followers

    @property
    def leader_epoch_start(self) -> int | None:
        return self.leadership.leader_epoch_start

    @property
    def partition_epoch(self) -> int:
        return self.leadership.partition_epoch

    @property
    def min_isr(self) -> int:
        return self.leadership.min_isr

    @property
    def is_under_min_isr(self) -> bool:
        return self.leadership.is_under_min_isr

    def check_lag(self) -> None:
        """Ask the controller to take followers out of the ISR that have not caught up for too long, and let the high
        watermark go on without those that will not join it."""
        if not self.is_alone and self.is_leader:
            effects = self.leadership.on_time(self._clock.monotonic_ms())
            if effects:
                self._act(effects)
                self._changed()

    def on_isr_outcome(self, change: IsrChange, outcome: Outcome) -> None:
        """The controller has answered a change of the ISR that was asked for."""
        if isinstance(outcome, IsrAnswer):
            effects = self.leadership.on_answer(change, outcome, self._clock.monotonic_ms())
        else:
            effects = self.leadership.on_refusal(change, outcome)
        if effects:
            self._act(effects)
            self._changed()

    def _act(self, effects: Sequence[Effect]) -> None:
        """Do what the leadership has decided."""
        log = self.log
        assert log is not None, "a leader has a log"
        for effect in effects:
            match effect:
                case AdvanceHighWatermark(offset):
                    log.advance_high_watermark(offset)
                    if self.when_committed is not None:
                        self.when_committed(log.high_watermark)
                case MoveLowWatermark():
                    pass  # whoever acts wakes those who wait
                case AlterPartition(change):
                    self._alter(self, change)
                case BeginEpoch(leader_epoch):
                    # Known before its first record: a follower that was ahead in an older epoch asks for it.
                    log.begin_epoch(leader_epoch)
                case IsrShrinking() | IsrUpdated() | IsrUpdateFailed():
                    self._tell(effect, log)

    def _tell(self, fact: IsrShrinking | IsrUpdated | IsrUpdateFailed, own: Log) -> None:
        match fact:
            case IsrShrinking(isr, out_of_sync):
                gone = [replica for replica, _, _ in out_of_sync]
                log.info(
                    "[Partition %s broker=%d] Shrinking ISR from %s to %s. Leader: (highWatermark: %d, endOffset: %d). "
                    "Out of sync replicas: %s.", self.name, self.node_id, list(isr),
                    [replica for replica in isr if replica not in gone], own.high_watermark, own.log_end_offset,
                    " ".join(f"(brokerId: {replica}, endOffset: {end})" for replica, end, _ in out_of_sync),
                )  # fmt: skip
            case IsrUpdated(isr, partition_epoch, is_expansion):
                if is_expansion:
                    self._isr_stats.expand_count += 1
                else:
                    self._isr_stats.shrink_count += 1
                log.info("[Partition %s broker=%d] ISR updated to %s%s and version updated to %d", self.name,
                         self.node_id, list(isr), " (under-min-isr)" if self.is_under_min_isr else "",
                         partition_epoch)  # fmt: skip
            case IsrUpdateFailed(change, error, is_over):
                self._isr_stats.failed_update_count += 1
                log.info("[Partition %s broker=%d] Failed to update ISR to %s: %s; the change %s", self.name,
                         self.node_id, list(change.isr), "it is out of date" if error is None else error.name,
                         "is given up" if is_over else "stays pending")  # fmt: skip

    # Checks

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a request whose sender knows an older or a newer leader than this node; -1 makes no claim."""
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            error = FencedLeaderEpoch if current_leader_epoch < self.leader_epoch else UnknownLeaderEpoch
            raise error(
                f"The request for {self.name} has leader epoch {current_leader_epoch}; the current leader is "
                f"{self.leader_id} in epoch {self.leader_epoch}"
            )

    def local_log(self, current_leader_epoch: int = NO_EPOCH, *, only_leader: bool = True) -> Log:
        """The log to read from, or the error that says why not here."""
        if current_leader_epoch >= 0:
            self.check_epoch(current_leader_epoch)
        log = self.log
        if log is None or (only_leader and not self.is_leader) or not self.is_serving:
            raise self._unavailable()
        return log

    def _unavailable(self) -> NotLeaderOrFollower | KafkaStorageError | UnknownTopicOrPartition:
        if self.failure is not None:
            return self.failure(f"Partition {self.name} is no longer served by broker {self.node_id}")
        return NotLeaderOrFollower(
            f"Leader not local for partition {self.name} on broker {self.node_id}: the leader is {self.leader_id} in "
            f"epoch {self.leader_epoch}"
        )

    # Append

    def append(
        self,
        data: Buffer,
        required_acks: int = -1,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendInfo:
        """Append one batch as the leader; a writable `data` is stamped in place. Raises what the producer is told."""
        log = self.log
        if log is None or not self.is_leader or (required_acks == -1 and not self.is_alone and self.is_under_min_isr):
            raise self._refuse(data, origin)
        if self._refusals is not None and origin is AppendOrigin.CLIENT:
            self._check_overtakes_none(data, log, self._refusals)
        info = log.append_as_leader(data, self.leader_epoch, origin, verification_guard, transaction_version)
        # The log's end has moved: replicas have something to fetch, or a lone one has it all.
        if self.is_alone:
            log.watermarks.advance_to_end()
        else:
            self._on_append(log)
        if self.waiters:
            self._all_waiters.touch(self)
        return info

    def _refuse(self, data: Buffer, origin: AppendOrigin) -> KafkaError:
        """Why this may not be appended. A client's batches that follow it at once are refused too (`refusals`)."""
        error = self._refusal()
        if origin is AppendOrigin.CLIENT and isinstance(error, NotEnoughReplicas | NotLeaderOrFollower):
            if self._refusals is None:
                self._refusals = Refusals()
            self._refusals.note(data, error, self.log, self._clock.monotonic_ms())
        return error

    def _check_overtakes_none(self, data: Buffer, log: Log, refusals: Refusals) -> None:
        """Refuse a batch if one of its producer's before it was refused a moment ago and has not come again."""
        error = refusals.of_earlier_batch(data, log, self._clock.monotonic_ms())
        if error is not None:
            raise error
        if refusals.is_empty:
            self._refusals = None

    def _refusal(self) -> KafkaError:
        """Why nothing may be appended: another node leads, or too few replicas are in sync for acks=all."""
        if self.log is None or not self.is_leader:
            return self._unavailable()
        return NotEnoughReplicas(
            f"The size of the current ISR : {len(self.isr)} is insufficient to satisfy the min.isr requirement of "
            f"{self.min_isr} for partition {self.name}, live replica(s) broker.id are : {list(self.isr)}"
        )

    def _on_append(self, log: Log) -> None:
        """Wake the followers' sessions. The high watermark moves where nobody else is in sync."""
        if self.resting:
            self._wake()
        for effect in self.leadership.on_append(self._clock.monotonic_ms()):
            if isinstance(effect, AdvanceHighWatermark):
                log.advance_high_watermark(effect.offset)

    def record_fetch(
        self, replica_id: int, *, fetch_offset: int, log_start_offset: int, broker_epoch: int = NO_BROKER_EPOCH
    ) -> None:
        """A follower has everything below `fetch_offset`. `NotLeaderOrFollower` when its broker has restarted since."""
        log = self.local_log()
        effects = self.leadership.on_fetch(
            replica_id,
            broker_epoch=broker_epoch,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=log.log_end_offset,
            now_ms=self._clock.monotonic_ms(),
        )
        if effects:
            self._act(effects)
            if self.waiters:
                self._all_waiters.touch(self)
            if self.resting:
                self._wake()

    def on_fetched(self) -> None:
        """The leader's records were appended to this follower, or its high watermark has moved: whoever reads here
        looks."""
        if self.waiters:
            self._all_waiters.touch(self)

    def replication_outcome(self, offset: int) -> int | None:
        """For acks=all: the error code of an append that ended at `offset`, or None while replicas lack it."""
        if self.log is None or not self.is_leader:
            return self._unavailable().code
        return self.leadership.replication_outcome(offset)

    # Read

    def read(
        self,
        offset: int,
        *,
        bytes_max: int,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        at_least_one: bool = True,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        only_leader: bool = True,
        replica_id: int = -1,
    ) -> PartitionRead:
        """Batches from `offset` on, as a slice of a file; or where the reader's log diverges from this one.

        A first batch beyond `bytes_max` is left out unless `at_least_one`. Raises what the reader is told.
        """
        log = self.local_log(current_leader_epoch, only_leader=only_leader)
        if replica_id >= 0 and replica_id not in self.followers:
            error = UnknownLeaderEpoch if current_leader_epoch >= 0 else NotLeaderOrFollower
            raise error(
                f"Replica {replica_id} is not recognized as a valid replica of {self.name} in leader epoch "
                f"{self.leader_epoch} with partition epoch {self.partition_epoch}"
            )
        high_watermark = log.high_watermark
        stable = log.last_stable_offset
        log_start = log.log_start_offset
        if last_fetched_epoch >= 0:
            diverging = self._diverging(log, offset, last_fetched_epoch)
            if diverging is not None:
                return PartitionRead(OffsetMetadata(offset), None, high_watermark, stable, log_start, None, diverging)
        found = log.read(offset, bytes_max=bytes_max, isolation=isolation, at_least_one=at_least_one)
        records = None if found.first_batch_incomplete else found.slice
        return PartitionRead(found.start, records, high_watermark, stable, log_start, found.aborted)

    def _diverging(self, log: Log, offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        end = log.end_offset_for_epoch(last_fetched_epoch)
        if end is None:
            raise OffsetOutOfRange(
                f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request"
            )
        if offset < log.log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.name}, but we only have log segments in "
                f"the range {log.log_start_offset} to {log.log_end_offset}."
            )
        epoch, end_offset = end
        return end if epoch < last_fetched_epoch or end_offset < offset else None

    def offset_for_timestamp(
        self,
        timestamp: int,
        *,
        isolation: Isolation | None = None,
        current_leader_epoch: int = NO_EPOCH,
        only_leader: bool = True,
    ) -> TimedOffset | None:
        """The first record at or after a time, or the place that a special timestamp names; None when there is none.

        `isolation` is a client's: it sees nothing at or above the high watermark or the last stable offset. A leader
        whose high watermark has not reached the start of its epoch does not know yet where that is (KIP-207).
        """
        log = self.local_log(current_leader_epoch, only_leader=only_leader)
        match isolation:
            case Isolation.TXN_COMMITTED:
                end_offset = log.last_stable_offset
            case Isolation.HIGH_WATERMARK:
                end_offset = log.high_watermark
            case _:
                end_offset = log.log_end_offset
        start = self.leader_epoch_start
        is_lagging = isolation is not None and start is not None and start > log.high_watermark
        if timestamp == SpecialTimestamp.LATEST:
            if is_lagging:
                raise self._offset_not_available(log)
            return TimedOffset(-1, end_offset, self.leader_epoch)
        found = log.offset_for_timestamp(timestamp)
        if timestamp in (SpecialTimestamp.EARLIEST, SpecialTimestamp.EARLIEST_LOCAL):
            return found
        if found is None or found.offset >= end_offset:
            if is_lagging:
                raise self._offset_not_available(log)
            return None
        return found

    def _offset_not_available(self, log: Log) -> OffsetNotAvailable:
        return OffsetNotAvailable(
            f"Failed to fetch offsets for partition {self.name}: its high watermark ({log.high_watermark}) is lagging "
            f"behind the start of leader epoch {self.leader_epoch} ({self.leader_epoch_start})"
        )

    def end_offset_for_epoch(
        self, leader_epoch: int, *, current_leader_epoch: int = NO_EPOCH, only_leader: bool = True
    ) -> tuple[int, int] | None:
        """The largest epoch at or below `leader_epoch`, and where it ends; None when that is not known."""
        return self.local_log(current_leader_epoch, only_leader=only_leader).end_offset_for_epoch(leader_epoch)

    # Delete

    def delete_records(self, offset: int) -> int:
        """Let the log begin at `offset`; -1 deletes up to the high watermark. Returns the offset that was meant."""
        log = self.local_log()
        if log.config.cleanup == CleanupPolicy.COMPACT:
            raise PolicyViolation(f"Records of partition {self.name} can not be deleted due to the configured policy")
        wanted = log.high_watermark if offset == HIGH_WATERMARK else offset
        if wanted < 0:
            raise OffsetOutOfRange(f"The offset {wanted} for partition {self.name} is not valid")
        log.delete_records(wanted)
        self._changed()
        return wanted

    @property
    def low_watermark(self) -> int:
        """The smallest log start of all replicas: below it nobody has anything."""
        self.local_log()
        return self.leadership.low_watermark

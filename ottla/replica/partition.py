"""One partition on this node: its log, who leads it in which epoch, and how far its records are replicated.

Promises: a leader appends only in its own epoch and, for acks=all, only while enough replicas are in sync; the high
watermark is never beyond what every in-sync replica has; a reader is told when its knowledge of the leader is older or
newer than this node's. A partition whose directory failed, or that this node does not lead, answers with the error
that sends a client where it should go. Called by the handlers; changed by `manager` and by appends and fetches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from ottla.config import CleanupPolicy
from ottla.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
)
from ottla.metadata import NO_LEADER, PartitionImage
from ottla.replica.stats import TopicStats
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

log = logging.getLogger(__name__)

NO_EPOCH = -1
"""What a request says that does not know the leader's epoch."""
HIGH_WATERMARK = -1
"""The offset in DeleteRecords that stands for everything that may be deleted."""


class Follower:
    """How far a replica on another node has come, as its fetches tell."""

    __slots__ = ("log_end_offset", "log_start_offset")

    def __init__(self) -> None:
        self.log_end_offset = -1
        self.log_start_offset = -1


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
        "failure",
        "followers",
        "index",
        "is_alone",
        "is_leader",
        "is_serving",
        "isr",
        "leader_epoch",
        "leader_epoch_start",
        "leader_id",
        "log",
        "name",
        "node_id",
        "partition_epoch",
        "replicas",
        "stats",
        "topic",
        "topic_id",
        "waiters",
        "when_committed",
    )

    def __init__(
        self, topic: str, topic_id: Uuid, index: int, *, node_id: int, waiters: Waiters, stats: TopicStats | None = None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.name = TopicPartition(topic, index)
        self.node_id = node_id
        self.log: Log | None = None
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start: int | None = None
        """Where the log ended when this node began to lead in this epoch; None where it follows."""
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.is_leader = False
        self.is_serving = True
        """False once the partition is deleted or its directory has failed: nobody waits for it any more."""
        self.failure: type[KafkaStorageError | UnknownTopicOrPartition] | None = None
        """What those are told who find it out of service."""
        self.followers: dict[int, Follower] = {}
        """The other replicas, while this one leads."""
        self.is_alone = False
        """Whether this replica leads and is all there is: its own log end is the high watermark."""
        self.waiters: dict[Waiter, None] = {}
        self.when_committed: Callable[[int], object] | None = None
        """Told the high watermark when a follower's fetch or a change of the in-sync replicas has moved it."""
        self._all_waiters = waiters
        self.stats = stats or TopicStats()

    def __repr__(self) -> str:
        return (
            f"Partition({self.name}, leader={self.leader_id}, leader_epoch={self.leader_epoch}, isr={list(self.isr)}, "
            f"log={self.log!r})"
        )

    # What the metadata says

    def lead(self, image: PartitionImage, log: Log) -> bool:
        """This node leads, from now on or still; False when the image is older than what is known."""
        if image.partition_epoch < self.partition_epoch:
            return False
        self.log = log
        is_new_epoch = image.leader_epoch > self.leader_epoch
        self._assign(image)
        self.isr = image.isr
        self.is_leader = True
        self.followers = {
            replica: self.followers.get(replica) or Follower() for replica in image.replicas if replica != self.node_id
        }
        self.is_alone = not self.followers and self.isr == (self.node_id,)
        if is_new_epoch:
            # Known before the first record of the epoch: a follower that was ahead in an older epoch asks for it.
            log.begin_epoch(image.leader_epoch)
            self.leader_epoch_start = log.log_end_offset
            for follower in self.followers.values():
                follower.log_end_offset = -1
        if self.advance_high_watermark() and self.when_committed is not None:
            self.when_committed(log.high_watermark)
        self._all_waiters.touch(self)
        return True

    def follow(self, image: PartitionImage, log: Log) -> bool:
        """Another node leads, or none; returns whether that began a new epoch."""
        if image.partition_epoch < self.partition_epoch:
            return False
        self.log = log
        is_new_epoch = image.leader_epoch > self.leader_epoch
        self._assign(image)
        # Only the leader knows who is in sync.
        self.isr = ()
        self.is_leader = False
        self.followers = {}
        self.is_alone = False
        self.leader_epoch_start = None
        self._all_waiters.touch(self)
        return is_new_epoch

    def _assign(self, image: PartitionImage) -> None:
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas

    def stop(self, failure: type[KafkaStorageError | UnknownTopicOrPartition]) -> None:
        """The partition is deleted, or its directory is offline: whoever waits for it is told."""
        self.is_serving = False
        self.is_leader = False
        self.is_alone = False
        self.failure = failure
        self._all_waiters.touch(self)

    # Checks

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas where there are fewer."""
        return 1 if self.log is None else min(self.log.config.min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.isr) < self.min_isr

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
        *,
        required_acks: int = -1,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> AppendInfo:
        """Append one batch as the leader; a writable `data` is stamped in place. Raises what the producer is told."""
        log = self.log
        if log is None or not self.is_leader:
            raise self._unavailable()
        if required_acks == -1 and len(self.isr) < log.config.min_insync_replicas and self.is_under_min_isr:
            raise NotEnoughReplicas(
                f"The size of the current ISR : {len(self.isr)} is insufficient to satisfy the min.isr requirement of "
                f"{self.min_isr} for partition {self.name}, live replica(s) broker.id are : {list(self.isr)}"
            )
        info = log.append_as_leader(
            data,
            leader_epoch=self.leader_epoch,
            origin=origin,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        if self.is_alone:
            log.advance_high_watermark_to_end()
        else:
            self.advance_high_watermark()
        if self.waiters:
            self._all_waiters.touch(self)
        return info

    def append_plain(self, data: memoryview, *, is_made_here: bool = False) -> int | None:
        """The same by the short way, for an everyday batch and a lone replica, whatever acks are asked for.

        Returns the batch's first offset; None where it must be `append`, and nothing has changed then. What a
        coordinator of this node has just made is not checked again.
        """
        log = self.log
        if log is None or not self.is_alone:
            return None
        if is_made_here:
            first_offset = log.append_made(data, self.leader_epoch)
        else:
            first_offset = log.append_plain(data, self.leader_epoch)
        if first_offset is not None:
            log.advance_high_watermark_to_end()
            if self.waiters:
                self._all_waiters.touch(self)
        return first_offset

    def advance_high_watermark(self) -> bool:
        """Raise the high watermark to what every in-sync replica has; whether it moved.

        It waits while too few are in sync: what a lone survivor has could be lost with it.
        """
        log = self.log
        if log is None:
            return False
        if self.is_alone:
            return log.advance_high_watermark_to_end()
        if self.is_under_min_isr:
            return False
        end_offset = log.log_end_offset
        for replica in self.isr:
            follower = self.followers.get(replica)
            if follower is not None and follower.log_end_offset < end_offset:
                end_offset = follower.log_end_offset
        return log.advance_high_watermark(end_offset)

    def record_fetch(self, replica_id: int, *, fetch_offset: int, log_start_offset: int) -> None:
        """A follower has everything below `fetch_offset`."""
        follower = self.followers[replica_id]
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        if self.advance_high_watermark() and self.when_committed is not None and self.log is not None:
            self.when_committed(self.log.high_watermark)
        if self.waiters:
            self._all_waiters.touch(self)

    def replication_outcome(self, offset: int) -> int | None:
        """For acks=all: the error code of an append that ended at `offset`, or None while replicas lack it."""
        log = self.log
        if log is None or not self.is_leader:
            return self._unavailable().code
        if log.high_watermark < offset:
            return None
        return NotEnoughReplicasAfterAppend.code if self.is_under_min_isr else 0

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
        if self.waiters:
            self._all_waiters.touch(self)
        return wanted

    @property
    def low_watermark(self) -> int:
        """The smallest log start of all replicas: below it nobody has anything."""
        log = self.local_log()
        return min([log.log_start_offset, *(one.log_start_offset for one in self.followers.values())])

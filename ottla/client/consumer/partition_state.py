"""One assigned partition, as its consumer sees it: where it stands, and whether it can be fetched.

Two threads may touch it: the loop's, which does everything, and the one that takes records out of the buffer. The
taker only writes `position`, `drained_count` and `drained_bytes`, each with one store; nothing of the loop's depends on
more than one of them at a time. Everything else is the loop's.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.client.config import OffsetReset
from ottla.types import ZERO_UUID, TopicPartition, Uuid

NO_EPOCH = -1
NO_REPLICA = -1


class Position(NamedTuple):
    """The next record to be given to the user, and the leader epoch of the one before it (-1 when that is unknown)."""

    offset: int
    epoch: int = NO_EPOCH


class Status(Enum):
    """What has to be done before the partition can be fetched."""

    INITIALIZING = "initializing"
    """There is no position yet: what the group has committed comes first, then the reset policy."""
    AWAIT_RESET = "await reset"
    """The position is to be looked up by `reset`."""
    AWAIT_VALIDATION = "await validation"
    """There is a new leader: it is asked whether its log holds what was read from the old one (KIP-320)."""
    FETCHING = "fetching"


class PartitionState:
    """What is known of one assigned partition."""

    __slots__ = (
        "arrived_bytes",
        "arrived_count",
        "arrived_end",
        "drained_bytes",
        "drained_count",
        "fetch_at_ms",
        "high_watermark",
        "is_held",
        "is_paused",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "position",
        "preferred_replica",
        "preferred_until_ms",
        "reset",
        "status",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.status = Status.INITIALIZING
        self.position: Position | None = None
        self.reset: OffsetReset | None = None
        """With AWAIT_RESET, where to look."""
        self.topic_id = ZERO_UUID
        self.leader_epoch = NO_EPOCH
        """The newest that is known, and that the position was validated against."""
        self.is_paused = False
        self.is_held = False
        """A listener is being told of the partition: it is neither fetched nor initialized meanwhile."""
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        self.preferred_replica = NO_REPLICA
        self.preferred_until_ms = 0
        self.fetch_at_ms = 0.0
        """After an error: not to be fetched, validated or looked up before this time."""
        self.arrived_count = 0
        self.arrived_bytes = 0
        self.drained_count = 0
        self.drained_bytes = 0
        self.arrived_end: Position | None = None
        """Where the last fetch in the buffer ends; None when what comes next is at `position`."""

    # Where it stands

    @property
    def is_fetchable(self) -> bool:
        return self.status is Status.FETCHING and not self.is_paused and not self.is_held

    @property
    def buffered_count(self) -> int:
        """How many fetches of this partition wait in the buffer."""
        return self.arrived_count - self.drained_count

    @property
    def buffered_bytes(self) -> int:
        return self.arrived_bytes - self.drained_bytes

    @property
    def fetch_position(self) -> Position | None:
        """Where the next fetch begins: behind what is in the buffer."""
        return self.arrived_end if self.arrived_end is not None and self.buffered_count else self.position

    # What happens to it

    def seek(self, position: Position) -> None:
        """Go there. A position with an epoch is one that the leader must confirm."""
        self.position = position
        self.arrived_end = None
        self.reset = None
        self.fetch_at_ms = 0.0
        is_known = position.epoch == NO_EPOCH or self.leader_epoch == NO_EPOCH
        self.status = Status.FETCHING if is_known else Status.AWAIT_VALIDATION

    def seek_validated(self, position: Position) -> None:
        """Go where a leader has told that there is something."""
        self.seek(position)
        self.status = Status.FETCHING

    def request_reset(self, reset: OffsetReset) -> None:
        """The position is lost; look it up anew."""
        self.status = Status.AWAIT_RESET
        self.reset = reset
        self.position = None
        self.arrived_end = None
        self.fetch_at_ms = 0.0
        self.preferred_replica = NO_REPLICA

    def note_topic(self, topic_id: Uuid) -> None:
        """The topic has this id: with another one than before it was made anew, and its epochs begin again."""
        if topic_id == ZERO_UUID or topic_id == self.topic_id:
            return
        if self.topic_id != ZERO_UUID:
            self.leader_epoch = NO_EPOCH
            self.arrived_end = None
            if self.position is not None:
                # Kept, as in Kafka: where the new log does not reach so far, the reset policy decides.
                self.position = Position(self.position.offset)
            if self.status is Status.AWAIT_VALIDATION:
                self.status = Status.FETCHING
        self.topic_id = topic_id

    def note_leader(self, leader_epoch: int) -> None:
        """The cluster tells of this leader; a new one is asked about the position before it is read from."""
        if leader_epoch <= self.leader_epoch:
            return
        is_first = self.leader_epoch == NO_EPOCH
        self.leader_epoch = leader_epoch
        position = self.position
        if position is None or position.epoch == NO_EPOCH or self.status is not Status.FETCHING:
            return
        if not is_first or position.epoch != leader_epoch:
            self.status = Status.AWAIT_VALIDATION
            self.arrived_end = None

    def is_preferring_replica(self, now_ms: int) -> bool:
        """Whether a broker has told of a nearer replica, and not too long ago (KIP-392)."""
        return self.preferred_replica != NO_REPLICA and now_ms < self.preferred_until_ms

    def lag(self, *, is_read_committed: bool) -> int | None:
        """How many offsets lie before the user; None while the end or the position is not known."""
        end = self.last_stable_offset if is_read_committed else self.high_watermark
        position = self.position
        return None if end is None or position is None else max(0, end - position.offset)

    def lag_of_fetch(self, *, is_read_committed: bool) -> int:
        """How many offsets are known to lie behind what was fetched; 1 when nothing is known."""
        end = self.last_stable_offset if is_read_committed else self.high_watermark
        position = self.fetch_position
        return 1 if end is None or position is None else max(0, end - position.offset)

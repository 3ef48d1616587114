"""`SharePartition`: one partition as one share group reads it, on the node that leads it.

Drives a `DeliveryWindow`: restores it from the stored state, stores what changes, and takes back what members keep for
too long. Promises: an acknowledgement is answered when it is stored; when it cannot be, the records are where they
were. A share partition that is fenced stores nothing any more and hands out nothing; its successor reads what was
stored. Made by `SharePartitions`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum

from ottla.coordinator.share import (
    UNINITIALIZED_OFFSET,
    Persister,
    SharePartitionKey,
    StateBatch,
    StateUpdate,
    StoredState,
)
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.replica.partition import Partition
from ottla.replica.share.acknowledgement import Acknowledgement, acknowledge
from ottla.replica.share.window import Change, DeliveryWindow, Limits
from ottla.storage import Isolation, SpecialTimestamp
from ottla.world import Clock, Promise, Tasks, Timer

log = logging.getLogger(__name__)


class Status(Enum):
    EMPTY = "empty"
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"


class SharePartition:
    """See the module.

    `limits` are the group's as they are now; `start_timestamp` says where a group begins that has never read, as
    ListOffsets does; `on_change` is told when more may be had.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        partition: Partition,
        *,
        persister: Persister,
        clock: Clock,
        tasks: Tasks,
        limits: Callable[[], Limits],
        start_timestamp: Callable[[], int],
        on_change: Callable[[], object],
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.limits = limits
        self.window = DeliveryWindow()
        self.state_epoch = 0
        self.status = Status.EMPTY
        self._persister = persister
        self._clock = clock
        self._tasks = tasks
        self._start_timestamp = start_timestamp
        self._on_change = on_change
        self._timer: Timer | None = None
        self._timer_at: float = 0
        self._initialized: Promise[None] | None = None

    def __repr__(self) -> str:
        return f"SharePartition({self.key.group_id}, {self.partition.name}, {self.status.value})"

    @property
    def can_acquire(self) -> bool:
        return self.status is Status.ACTIVE and self.window.can_acquire(self.limits())

    @property
    def is_led(self) -> bool:
        """Whether this node leads the partition still; else the share partition is to be fenced."""
        return self.partition.is_leader and self.partition.is_serving

    # Beginning and ending

    def initialize(self) -> Promise[None]:
        """Read the stored state, once for all who ask; fails when there is none or it cannot be read."""
        if self._initialized is None:
            self.status = Status.INITIALIZING
            self._initialized = self._tasks.promise()
            self._persister.read(self.key, leader_epoch=self.leader_epoch).add_done_callback(self._on_read)
        return self._initialized

    def _on_read(self, done: Promise[StoredState]) -> None:
        assert self._initialized is not None, "nobody has asked for the state"
        try:
            stored = done.result()
            start_offset = stored.start_offset
            if start_offset == UNINITIALIZED_OFFSET:
                start_offset = self._find_start()
            self.window = DeliveryWindow.restored(stored, start_offset)
            self.state_epoch = stored.state_epoch
        except Exception as error:  # noqa: BLE001  whoever waits is told
            told = persister_error(error)
            log.log(
                logging.INFO if isinstance(error, KafkaError) else logging.ERROR,
                "[SharePartition %s-%s] Failed to initialize: %s", self.key.group_id, self.partition.name, error,
            )  # fmt: skip
            if self.status is Status.INITIALIZING:
                self.status = Status.FAILED
            self._initialized.set_exception(told)
            return
        if self.status is Status.INITIALIZING:
            self.status = Status.ACTIVE
        self._initialized.set_result(None)
        self._on_change()

    def _find_start(self) -> int:
        timestamp = self._start_timestamp()
        isolation = None if timestamp == SpecialTimestamp.EARLIEST else Isolation.HIGH_WATERMARK
        found = self.partition.offset_for_timestamp(
            timestamp, isolation=isolation, current_leader_epoch=self.leader_epoch
        )
        if found is None:
            raise OffsetNotAvailable(f"Offset for timestamp {timestamp} not found for {self.partition.name}")
        return found.offset

    def fence(self) -> None:
        """Another leader, or another life of the group, takes over."""
        self.status = Status.FENCED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_change()

    # Members

    def acknowledge(self, member_id: str, said: Sequence[Acknowledgement]) -> Promise[None]:
        """Answered when what the member says is stored; fails with the reason why it does not count."""
        try:
            changes = acknowledge(self.window, member_id, said, self.limits(), self._clock.monotonic_ms())
        except KafkaError as error:
            promise: Promise[None] = self._tasks.promise()
            promise.set_exception(error)
            return promise
        return self._store(changes)

    def release(self, member_id: str) -> Promise[None]:
        """The member has gone: others may have what it has acquired."""
        return self._store(self.window.release(member_id, self.limits()))

    def _store(self, changes: Sequence[Change]) -> Promise[None]:
        answer: Promise[None] = self._tasks.promise()
        if not changes:
            answer.set_result(None)
            return answer

        def stored(done: Promise[None]) -> None:
            now_ms = self._clock.monotonic_ms()
            try:
                done.result()
            except Exception as error:  # noqa: BLE001  the member is told
                self.window.settle(changes, is_stored=False, now_ms=now_ms)
                self.watch_locks(self.window.next_deadline_ms())
                log.info("[SharePartition %s-%s] Failed to write the state: %s", self.key.group_id,
                         self.partition.name, error)  # fmt: skip
                answer.set_exception(persister_error(error))
            else:
                self.window.settle(changes, is_stored=True, now_ms=now_ms)
                self.window.move_start()
                answer.set_result(None)
            self._on_change()

        _then(self._write([change.batch for change in changes]), stored)
        return answer

    def _write(self, batches: Sequence[StateBatch]) -> Promise[None]:
        window = self.window
        return self._persister.write(
            self.key,
            StateUpdate(
                self.state_epoch, self.leader_epoch, window.start_offset, window.complete_count, tuple(batches)
            ),
        )

    # Time

    def watch_locks(self, deadline_ms: float | None) -> None:
        """Something is acquired until then: see that it is given back in time.

        One timer serves all. It is set for the earliest deadline that was seen and may come too early, because most
        records are acknowledged before.
        """
        is_early_enough = self._timer is not None and deadline_ms is not None and self._timer_at <= deadline_ms
        if deadline_ms is None or is_early_enough or self.status is not Status.ACTIVE:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline_ms
        self._timer = self._tasks.later(max(0.0, deadline_ms - self._clock.monotonic_ms()), self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        batches = self.window.expire(self._clock.monotonic_ms(), self.limits())
        self.watch_locks(self.window.next_deadline_ms())
        if batches:
            # They count as given back in any case: a state that is not stored costs a delivery more, no record.
            _then(self._write(batches), self._on_expiry_stored)
            self._on_change()

    def _on_expiry_stored(self, done: Promise[None]) -> None:
        try:
            done.result()
        except Exception as error:  # noqa: BLE001  nobody asked
            log.info("[SharePartition %s-%s] Failed to write that acquisitions have ended: %s", self.key.group_id,
                     self.partition.name, error)  # fmt: skip
        if self.window.move_start():
            self._on_change()


def _then(promise: Promise[None], call: Callable[[Promise[None]], None]) -> None:
    """Call when the promise is kept: now, where it is already, as with a single replica it always is."""
    if promise.done():
        call(promise)
    else:
        promise.add_done_callback(call)


def persister_error(error: BaseException) -> KafkaError:
    """What a member is told when the state cannot be read or written."""
    if isinstance(error, NotCoordinator | CoordinatorNotAvailable | CoordinatorLoadInProgress):
        return CoordinatorNotAvailable(error.message)
    if isinstance(error, FencedLeaderEpoch | FencedStateEpoch):
        return NotLeaderOrFollower(error.message)
    if isinstance(error, GroupIdNotFound | UnknownTopicOrPartition | NotLeaderOrFollower | OffsetNotAvailable):
        return error
    return UnknownServerError(error.message if isinstance(error, KafkaError) else str(error))

"""`ShareFetch`: one member's fetch from several share partitions, now or when there is enough.

Reads each partition from where its first available record is, and acquires what it has read. A fetch that finds too
little hangs on its partitions like any other (`waiters`): it is looked at again when records arrive, and when records
come back to a share partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ottla.errors import KafkaError, KafkaStorageError, OffsetOutOfRange
from ottla.replica.partition import Partition, PartitionRead
from ottla.replica.share.acquisition import Acquired, AcquireMode, acquire
from ottla.replica.share.manager import Index, SharePartitions
from ottla.replica.share.partition import SharePartition
from ottla.replica.share.span import read_spans, slice_between
from ottla.replica.waiters import Waiter
from ottla.storage import FileSlice, Isolation, SpecialTimestamp
from ottla.world import Promise

log = logging.getLogger(__name__)


@dataclass(slots=True)
class FetchLimits:
    """How much a fetch wants, and how long it waits for it."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    records_max: int
    batch_size: int
    mode: AcquireMode = AcquireMode.BATCH_OPTIMIZED


@dataclass(slots=True)
class Fetched:
    """What a fetch brings from one partition: records and which of them are the member's, or an error."""

    records: FileSlice | None = None
    acquired: list[Acquired] = field(default_factory=list)
    error: KafkaError | None = None


class Caller(Protocol):
    """Whoever waits for a fetch and may hang up: a connection."""

    def when_closed(self, call: Callable[[], object]) -> None: ...

    def forget(self, call: Callable[[], object]) -> None: ...


class ShareFetch:
    """One fetch. `run` is called once."""

    def __init__(self, shares: SharePartitions, group_id: str, member_id: str, limits: FetchLimits) -> None:
        self._shares = shares
        self._group_id = group_id
        self._member_id = member_id
        self._limits = limits
        self._isolation: Isolation = shares.isolation(group_id)
        self._partitions: dict[Index, SharePartition] = {}
        self._fetched: dict[Index, Fetched] = {}

    def run(self, wanted: Sequence[Index], caller: Caller | None = None) -> Promise[dict[Index, Fetched]]:
        """Fetch from `wanted`, in that order; a caller that hangs up while it waits acquires nothing."""
        promise: Promise[dict[Index, Fetched]] = self._shares.world.tasks.promise()
        limits = self._limits
        if not wanted or limits.records_max <= 0 or limits.bytes_max <= 0:
            promise.set_result({})
            return promise
        for index in wanted:
            self._open(index)
        if len(self._fetched) == len(wanted):
            promise.set_result(self._fetched)  # all of them have failed
            return promise
        if self._is_ready() or limits.wait_ms <= 0:
            promise.set_result(self._complete())
            return promise

        def done() -> None:
            if caller is not None:
                caller.forget(waiter.give_up)
            promise.set_result(self._complete())

        waiter = _ShareWaiter([one.partition for one in self._partitions.values()], self._is_ready, done)
        if caller is not None:
            caller.when_closed(waiter.give_up)
        self._shares.replicas.waiters.park(waiter, limits.wait_ms)
        return promise

    def _open(self, index: Index) -> None:
        try:
            one = self._shares.get(self._group_id, *index)
        except KafkaError as error:
            self._fetched[index] = Fetched(error=error)
            return
        self._partitions[index] = one

        def initialized(done: Promise[None]) -> None:
            try:
                done.result()
            except KafkaError as error:
                self._fetched[index] = Fetched(error=error)
                self._shares.fence(one)

        first = one.initialize()
        if first.done():
            initialized(first)
        else:
            first.add_done_callback(initialized)

    def _acquirable(self) -> list[tuple[Index, SharePartition]]:
        return [
            (index, one) for index, one in self._partitions.items() if one.can_acquire and index not in self._fetched
        ]

    def _is_ready(self) -> bool:
        """Whether there is as much as the member wants, or something to be told."""
        available = 0
        acquirable = self._acquirable()
        for _, one in acquirable:
            try:
                read = self._read(one, len(acquirable), at_least_one=True)
            except KafkaError:
                return True
            if read.records is not None:
                available += read.records.size
        return bool(acquirable) and available >= self._limits.bytes_min

    def _read(self, one: SharePartition, share_count: int, *, at_least_one: bool) -> PartitionRead:
        """Read from the first record that may be had, with an equal share of the bytes for each partition."""
        return one.partition.read(
            one.window.next_fetch_offset(),
            bytes_max=max(1, self._limits.bytes_max // share_count),
            isolation=self._isolation,
            at_least_one=at_least_one,
        )

    def _complete(self) -> dict[Index, Fetched]:
        acquirable = self._acquirable()
        has_records = False
        count = 0
        for index, one in acquirable:
            try:
                read = self._read(one, len(acquirable), at_least_one=not has_records)
                fetched = self._acquire(one, read, self._limits.records_max - count)
            except KafkaError as error:
                fetched = self._failed(one, error)
            self._fetched[index] = fetched
            has_records = has_records or fetched.records is not None
            count += sum(run.last_offset - run.first_offset + 1 for run in fetched.acquired)
        return self._fetched

    def _acquire(self, one: SharePartition, read: PartitionRead, records_max: int) -> Fetched:
        records = read.records
        if records is None or not records.size or records_max <= 0:
            return Fetched()
        window = one.window
        fetch_offset = window.next_fetch_offset()
        spans = read_spans(records, window.end_offset, records_max)
        now_ms = self._shares.world.clock.monotonic_ms()
        limits = one.limits()
        acquired = acquire(
            window,
            spans,
            member_id=self._member_id,
            fetch_offset=fetch_offset,
            records_max=records_max,
            batch_size=self._limits.batch_size,
            mode=self._limits.mode,
            limits=limits,
            now_ms=now_ms,
            aborted=read.aborted or (),
        )
        if not acquired:
            return Fetched()
        one.watch_locks(now_ms + limits.lock_ms)
        return Fetched(slice_between(records, spans, acquired[0].first_offset, acquired[-1].last_offset), acquired)

    def _failed(self, one: SharePartition, error: KafkaError) -> Fetched:
        if isinstance(error, OffsetOutOfRange):
            # The log begins later now; the member asks again and gets what there is.
            found = one.partition.offset_for_timestamp(SpecialTimestamp.EARLIEST)
            if found is not None:
                one.window.move_to_log_start(found.offset)
            return Fetched()
        if isinstance(error, KafkaStorageError):
            self._shares.replicas.check_directories()
        self._shares.fence_after(one, error)
        return Fetched(error=error)


class _ShareWaiter(Waiter):
    """A share fetch that waits for records."""

    __slots__ = ("_is_ready",)

    def __init__(
        self, partitions: Sequence[Partition], is_ready: Callable[[], bool], on_done: Callable[[], None]
    ) -> None:
        super().__init__(partitions, on_done)
        self._is_ready = is_ready

    def look(self, partition: Partition) -> bool:
        return self._is_ready()

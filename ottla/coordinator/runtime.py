"""`Runtime`: the shards of one coordinator's topic, one for each partition that this node leads.

A shard is state that follows from a partition's records. When this node becomes the leader, the shard is made and
loaded from the log, in pieces, with requests served in between; meanwhile it answers COORDINATOR_LOAD_IN_PROGRESS. When
it leads no more, the shard is thrown away, and whoever waits is told NOT_COORDINATOR. In between, decisions run on it
one at a time (`write`, `read`, and those of its timers), each as decide → append → replay of a `Machine`.

Promises: an answer rests on committed records only; records of one decision are in one batch, so all of them count or
none; errors of the log come out as the coordinator's (`coordinator_error`). A write whose records are not committed in
time fails with COORDINATOR_NOT_AVAILABLE, though they may be later, as with Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

from ottla.coordinator.batch import BatchWriter
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Entry, Producer
from ottla.coordinator.shard import Shard, ShardContext, ShardLog
from ottla.coordinator.timers import Timers
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidFetchSize,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.machine import Machine, Result, UndoLog
from ottla.metadata import Delta, Image
from ottla.records import (
    Codec,
    ControlType,
    EndTransactionMarker,
    batches,
    end_transaction_batch,
)
from ottla.wire import UnknownRecord
from ottla.wire.coordinator import CoordinatorRecords
from ottla.world import NodeWorld, Promise, Timer

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Shard)
T = TypeVar("T")

LOAD_BYTES = 256 * 1024
"""How much of a log is replayed before others have their turn: a few milliseconds' worth."""
RETRY_MS = 500
"""After how long a time-out whose decision could not be written is tried again."""


class Status(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """The log could not be read; the next leader epoch tries again."""


# By itself, because Python 3.11 takes three times as long to find a member in its enum.
_ACTIVE = Status.ACTIVE


class _Slot(Generic[S]):
    """One partition that this node leads."""

    __slots__ = ("batch_producer", "context", "guard", "log", "machine", "shard", "status", "transaction_version")

    def __init__(self, context: ShardContext, shard: S, shard_log: ShardLog) -> None:
        self.context = context
        self.shard = shard
        self.log = shard_log
        self.machine: Machine[Entry]
        self.status = Status.LOADING
        self.batch_producer: Producer | None = None
        """The producer of the transaction whose records are being written right now."""
        self.guard: object | None = None
        self.transaction_version = 0


class Runtime(Generic[S]):
    """See the module.

    `make` makes an empty shard; `log_of` gives the log of a partition that this node leads. `name` is what log lines
    begin with (`GroupCoordinator id=1`).
    """

    def __init__(
        self,
        name: str,
        world: NodeWorld,
        framing: CoordinatorRecords,
        make: Callable[[ShardContext], S],
        log_of: Callable[[int], ShardLog],
        image: Image,
        *,
        write_timeout_ms: Callable[[], int] = lambda: 5000,
        codec: Codec = Codec.NONE,
        base_sequence: int = 0,
    ) -> None:
        self.name = name
        self.world = world
        self.framing = framing
        self.image = image
        self._write_timeout_ms = write_timeout_ms
        self._batches = BatchWriter(framing, codec, base_sequence)
        self._make = make
        self._log_of = log_of
        self._slots: dict[int, _Slot[S]] = {}

    # Who leads

    def on_elected(self, index: int, leader_epoch: int) -> None:
        """This node leads a partition from now on, in that epoch: load its shard."""
        slot = self._slots.get(index)
        if slot is not None:
            if slot.context.leader_epoch >= leader_epoch:
                return
            self.on_resigned(index)
        undo = UndoLog()
        context = ShardContext(
            index=index,
            leader_epoch=leader_epoch,
            undo=undo,
            timers=Timers(self.world.clock, self.world.tasks, lambda key, decide: self._on_timer(slot, key, decide)),
            world=self.world,
            image=self.image,
        )
        slot = _Slot(context, self._make(context), self._log_of(index))
        made = slot
        slot.machine = Machine(
            partial(self._replay, made),
            partial(self._append, made),
            promise=self.world.tasks.promise,
            undo=undo,
            not_leading=partial(self._not_leading, made),
            overloaded=partial(self._overloaded, made),
            high_watermark=lambda: made.log.high_watermark,
        )
        self._slots[index] = slot
        slot.log.when_committed(partial(self._on_committed, made))
        if slot.log.log_start_offset == slot.log.log_end_offset:
            self._loaded(slot, 0)  # most are empty: no need for a task each
        else:
            self.world.tasks.spawn(self._load(slot), f"load of {self.framing.topic}-{index}")

    def on_resigned(self, index: int) -> None:
        """This node leads the partition no more, or its log is out of service."""
        slot = self._slots.pop(index, None)
        if slot is None:
            return
        slot.context.timers.cancel_all()
        was_active = slot.machine.is_active
        if was_active:
            slot.machine.on_resign()
            slot.shard.on_unloaded()
        log.info("[%s] Finished unloading of metadata from %s-%d with epoch %d", self.name, self.framing.topic, index,
                 slot.context.leader_epoch)  # fmt: skip

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """The metadata has changed: every loaded shard is told."""
        self.image = image
        for slot in list(self._slots.values()):
            slot.context.image = image
            if slot.status is Status.ACTIVE:
                slot.shard.on_metadata(delta)

    def close(self) -> None:
        for index in list(self._slots):
            self.on_resigned(index)

    @property
    def active_indexes(self) -> list[int]:
        """The partitions whose shards are loaded."""
        return [index for index, slot in self._slots.items() if slot.status is Status.ACTIVE]

    @property
    def led_indexes(self) -> list[int]:
        """The partitions that this node leads, loaded or not."""
        return list(self._slots)

    @property
    def shards(self) -> list[S]:
        """The loaded shards, to be looked at and not changed: for metrics."""
        return [slot.shard for slot in self._slots.values() if slot.status is Status.ACTIVE]

    def count(self, status: Status) -> int:
        return sum(slot.status is status for slot in self._slots.values())

    # Deciding

    def write(
        self,
        index: int,
        name: str,
        decide: Callable[[S], Result[T]],
        *,
        producer: Producer | None = None,
        guard: object | None = None,
        transaction_version: int = 0,
    ) -> Promise[T]:
        """Run a decision on a shard and write its records; the promise gets the response when they are committed.

        With a producer the records are part of its transaction, which `guard` has verified (KIP-890).
        """
        slot = self._slots.get(index)
        if slot is None or slot.status is not Status.ACTIVE:
            promise: Promise[T] = self.world.tasks.promise()
            promise.set_exception(self._not_leading(slot, name))
            return promise
        slot.batch_producer = producer
        slot.guard = guard
        slot.transaction_version = transaction_version
        promise = self._submit(slot, name, partial(decide, slot.shard))
        slot.batch_producer = slot.guard = None
        slot.transaction_version = 0
        return promise if promise.done() else self._bounded(promise)

    def answer(self, index: int, name: str, decide: Callable[[S], Result[T]]) -> T | Promise[T]:
        """`write` without a promise where there is nothing to wait for: the response itself, or a promise of it.

        Raises what would make the promise fail.
        """
        slot = self._slots.get(index)
        if slot is None or slot.status is not _ACTIVE:
            raise self._not_leading(slot, name)
        slot.context.timers.taken_back.clear()
        machine = slot.machine
        answer = machine.answer(name, partial(decide, slot.shard))
        if not machine.parked_count:
            return answer
        machine.on_committed(slot.log.high_watermark)
        promise: Any = answer
        return promise if promise.done() else self._bounded(promise)

    def write_answered(self, index: int, name: str, decide: Callable[[S, Promise[T]], Result[None]]) -> Promise[T]:
        """The same for a decision that answers when it sees fit, through the promise that it is given.

        If the decision raises, or its records cannot be written, the promise fails with that unless it is answered.
        """
        answer: Promise[T] = self.world.tasks.promise()

        def written(done: Promise[None]) -> None:
            try:
                done.result()
            except Exception as error:  # noqa: BLE001  the dispatcher logs it unless it is one of Kafka's
                if not answer.done():
                    answer.set_exception(error)

        promise = self.write(index, name, lambda shard: decide(shard, answer))
        if promise.done():
            written(promise)
        else:
            promise.add_done_callback(written)
        return answer

    def read(self, index: int, name: str, look: Callable[[S], T]) -> Promise[T]:
        """Answer from a shard's state, once everything that was seen is committed."""
        return self.write(index, name, lambda shard: Result(look(shard)))

    def write_all(self, name: str, decide: Callable[[S], Result[T]]) -> list[Promise[T]]:
        """Run a decision on every shard that is led here, one promise each."""
        return [self.write(index, name, decide) for index in list(self._slots)]

    def read_all(self, name: str, look: Callable[[S], T]) -> list[Promise[T]]:
        return [self.read(index, name, look) for index in list(self._slots)]

    def complete_transaction(self, index: int, marker: EndMarker, *, transaction_version: int = 0) -> Promise[None]:
        """Write the end of a transaction into the partition, and let what it wrote count or vanish."""
        return self.write(
            index, "WriteTxnMarkers", lambda _: Result(None, [marker]), transaction_version=transaction_version
        )

    def _submit(self, slot: _Slot[S], name: str, decide: Callable[[], Result[T]]) -> Promise[T]:
        """Run a decision; with a single replica its records are committed when it returns."""
        slot.context.timers.taken_back.clear()
        promise = slot.machine.submit(name, decide)
        if slot.machine.parked_count:
            slot.machine.on_committed(slot.log.high_watermark)
        return promise

    # Within a decision

    def _replay(self, slot: _Slot[S], entry: Entry) -> None:
        if isinstance(entry, EndMarker):
            slot.shard.replay_marker(entry)
        else:
            slot.shard.replay(entry, slot.batch_producer)

    def _append(self, slot: _Slot[S], entries: Sequence[Entry]) -> int:
        """Write what one decision came to as one batch; the errors are the coordinator's."""
        now_ms = self.world.clock.now_ms()
        first = entries[0]
        if isinstance(first, EndMarker):
            assert len(entries) == 1, "the end of a transaction is a batch of its own"
            kind = ControlType.COMMIT if first.is_commit else ControlType.ABORT
            batch = bytearray(
                end_transaction_batch(
                    EndTransactionMarker(kind, first.coordinator_epoch),
                    producer_id=first.producer_id,
                    producer_epoch=first.producer_epoch,
                    timestamp=now_ms,
                )
            )
        else:
            batch = self._batches.write(entries, now_ms, slot.batch_producer)  # type: ignore[arg-type]  # no marker
        try:
            last_offset = slot.log.append(
                batch, verification_guard=slot.guard, transaction_version=slot.transaction_version
            )
        except KafkaError as error:
            slot.context.timers.restore()
            raise coordinator_error(error) from error
        return last_offset

    # Waiting

    def _on_committed(self, slot: _Slot[S], high_watermark: int) -> None:
        if slot.status is Status.ACTIVE:
            slot.machine.on_committed(high_watermark)

    def _bounded(self, promise: Promise[T]) -> Promise[T]:
        """Fail a write that is not committed in time."""

        def time_out() -> None:
            if not promise.done():
                promise.set_exception(coordinator_error(RequestTimedOut()))

        timer: Timer = self.world.tasks.later(self._write_timeout_ms(), time_out)
        promise.add_done_callback(lambda _: timer.cancel())
        return promise

    def _on_timer(self, slot: _Slot[S] | None, key: Hashable, decide: Callable[[], Any]) -> None:
        """A time-out is due: what it decides is written like anything else, and tried again when it cannot be."""
        if slot is None or slot.status is not Status.ACTIVE:
            return

        def written(done: Promise[None]) -> None:
            try:
                done.result()
            except KafkaError as error:
                if slot.status is Status.ACTIVE and self._slots.get(slot.context.index) is slot:
                    log.info("[%s] The time-out %s could not be written and is tried again: %s", self.name, key, error)
                    slot.context.timers.schedule_if_absent(key, RETRY_MS, decide)
            except Exception:
                log.exception("[%s] The time-out %s failed", self.name, key)

        self._submit(slot, f"time-out {key}", lambda: decide() or Result(None)).add_done_callback(written)

    # Loading

    async def _load(self, slot: _Slot[S]) -> None:
        if self._slots.get(slot.context.index) is not slot:
            return  # resigned before this began
        started_ms = self.world.clock.monotonic_ms()
        offset = slot.log.log_start_offset
        index = slot.context.index
        log.info("[%s] Started loading of metadata from %s-%d with epoch %d", self.name, self.framing.topic, index,
                 slot.context.leader_epoch)  # fmt: skip
        try:
            while offset < slot.log.log_end_offset:
                data = slot.log.read(offset, bytes_max=LOAD_BYTES)
                if not len(data):
                    break  # compaction has left nothing at the end
                offset = self._replay_batches(slot, data, offset)
                await self.world.tasks.sleep_ms(0)
                if self._slots.get(index) is not slot:
                    return
        except Exception as error:
            if self._slots.get(index) is not slot:
                return
            slot.status = Status.FAILED
            log.exception("[%s] Failed to load metadata from %s-%d with epoch %d due to %s", self.name,
                          self.framing.topic, index, slot.context.leader_epoch, error)  # fmt: skip
            return
        self._loaded(slot, self.world.clock.monotonic_ms() - started_ms)

    def _replay_batches(self, slot: _Slot[S], data: Any, offset: int) -> int:
        framing = self.framing
        slot.context.undo.is_enabled = False
        shard = slot.shard
        for batch in batches(data):
            producer = Producer(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            for at, _, key, value, _ in batch.rows():
                if at < offset:
                    continue
                if batch.is_control:
                    end = EndTransactionMarker.decode(key, value)
                    is_commit = end.type is ControlType.COMMIT
                    shard.replay_marker(
                        EndMarker(batch.producer_id, batch.producer_epoch, end.coordinator_epoch, is_commit)
                    )
                    continue
                try:
                    assert key is not None, f"a record without a key at offset {at}"
                    read_key = framing.read_key(key)
                    read_value, version = (None, 0) if value is None else framing.read_value(read_key, value)
                except UnknownRecord as error:
                    log.warning("[%s] Unknown record at offset %d of %s-%d is ignored, it may be of a newer version: "
                                "%s", self.name, at, framing.topic, slot.context.index, error)  # fmt: skip
                    continue
                shard.replay(CoordinatorRecord(read_key, read_value, version), producer)
            offset = batch.last_offset + 1
        return offset

    def _loaded(self, slot: _Slot[S], took_ms: int) -> None:
        slot.machine.on_committed(slot.log.high_watermark)
        slot.machine.on_leader(last_appended=slot.log.log_end_offset - 1)
        slot.status = Status.ACTIVE
        slot.context.image = self.image
        slot.shard.on_loaded()
        log.info("[%s] Finished loading of metadata from %s-%d with epoch %d in %dms", self.name, self.framing.topic,
                 slot.context.index, slot.context.leader_epoch, took_ms)  # fmt: skip

    def _overloaded(self, slot: _Slot[S], name: str) -> CoordinatorNotAvailable:
        slot.context.timers.restore()
        return CoordinatorNotAvailable(f"{name}: too much of this coordinator's log is not committed yet.")

    def _not_leading(self, slot: _Slot[S] | None, name: str) -> KafkaError:
        if slot is not None and slot.status is Status.LOADING:
            return CoordinatorLoadInProgress(f"{name}: the coordinator is loading and hence can't process requests.")
        return NotCoordinator(f"{name}: this is not the correct coordinator.")


def coordinator_error(error: KafkaError) -> KafkaError:
    """What those who ask a coordinator are told of an error of its log."""
    if isinstance(error, UnknownTopicOrPartition | NotEnoughReplicas | NotEnoughReplicasAfterAppend | RequestTimedOut):
        return CoordinatorNotAvailable(error.message)
    if isinstance(error, NotLeaderOrFollower | KafkaStorageError):
        return NotCoordinator(error.message)
    if isinstance(error, RecordListTooLarge | MessageTooLarge | InvalidFetchSize):
        return UnknownServerError(error.message)
    return error

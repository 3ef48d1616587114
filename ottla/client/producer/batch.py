"""One batch of records for one partition: filled by `send`, closed, sent as often as it takes, and done once.

Promises: what was appended stays in order; the producer's id, epoch and sequence may change until the batch is done,
because they are put in front of the records and not among them; `complete` and `fail` count the first time only, and
then callbacks are called in the order of their records. A batch that a broker finds too large is split: its records
move on to smaller batches, and it is done when all of these are.
Filled under the accumulator's lock by any thread; everything else happens on the client's thread.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ottla.client.errors import KafkaTimeout
from ottla.client.producer.delivery import NO_OFFSET, Delivery, OnDelivery
from ottla.errors import KafkaError
from ottla.records import (
    HEADER_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    Codec,
    append_record,
    assemble_batch,
    batches,
    complete_batch,
    compress,
    increment_sequence,
    to_int64,
)
from ottla.types import Buffer, TopicPartition
from ottla.world import Promise
from ottla.world.locks import Mutex, Parked

log = logging.getLogger(__name__)

Fate = tuple[int, KafkaError | None, int]
"""A record's offset, why it was not written, and the time of the append: -1 where there is none."""


class Owner(Protocol):
    """What a batch needs of the producer it belongs to."""

    mutex: Mutex

    def promise(self) -> Promise[Any]: ...

    def check_may_block(self) -> None:
        """Raise where the calling thread must not wait, because it is the one that brings the news."""
        ...


class ProducerBatch:
    """Records of one partition that are written together or not at all."""

    __slots__ = (
        "_assembled",
        "_callbacks",
        "_fate",
        "_owner",
        "_payload",
        "_promises",
        "_record_errors",
        "_split_starts",
        "_splits",
        "_then",
        "_waiting",
        "_whole",
        "attempts",
        "attempts_when_leader_changed",
        "base_sequence",
        "base_timestamp",
        "charged_bytes",
        "codec",
        "count",
        "created_ms",
        "has_been_reset",
        "is_done",
        "is_in_flight",
        "is_split",
        "is_transactional",
        "leader_epoch",
        "max_timestamp",
        "partition",
        "place",
        "producer_epoch",
        "producer_id",
        "ratio",
        "record_size",
        "retry_at_ms",
        "section",
        "size_max",
    )

    def __init__(
        self,
        owner: Owner,
        partition: TopicPartition,
        *,
        size_max: int,
        charged_bytes: int,
        base_timestamp: int,
        created_ms: int,
        is_split: bool = False,
    ) -> None:
        self._owner = owner
        self.partition = partition
        self.section = bytearray()
        """The records, encoded, until they are sealed."""
        self.size_max = size_max
        """How large the section may become."""
        self.charged_bytes = charged_bytes
        """What it takes of `buffer.memory` until it is done."""
        self.count = 0
        self.base_timestamp = base_timestamp
        self.max_timestamp = NO_TIMESTAMP
        self.created_ms = created_ms
        self.attempts = 0
        """How often it was sent and must be sent again."""
        self.retry_at_ms = 0.0
        self.leader_epoch = -1
        self.attempts_when_leader_changed = 0
        self.is_split = is_split
        self.is_in_flight = False
        self.is_transactional = False
        self.has_been_reset = False
        """Its sequence was assigned anew after it had been sent."""
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.place = 0
        """How many batches of its partition were numbered before it."""
        self.codec = Codec.NONE
        self.ratio = 1.0
        """Its size in terms of what it was before compression."""
        self.record_size = 0
        """What a record takes before compression, on average."""
        self._payload: Buffer | None = None
        self._whole: Buffer | None = None
        """The payload with room for a header in front, as long as nothing was written there."""
        self._assembled: Buffer | None = None
        self.is_done = False
        self._fate: Fate = (NO_OFFSET, None, NO_TIMESTAMP)
        self._record_errors: Mapping[int, KafkaError] = {}
        self._callbacks: list[tuple[Delivery, OnDelivery]] = []
        self._then: list[Callable[[], object]] = []
        self._waiting: list[Parked] = []
        self._promises: list[Promise[Any]] = []
        self._splits: list[ProducerBatch] = []
        self._split_starts: list[int] = []

    def __repr__(self) -> str:
        return f"ProducerBatch({self.partition}, {self.count} records)"

    # Filling

    def add_callback(self, delivery: Delivery, call: OnDelivery) -> None:
        """Tell `call` of the record. Under the lock, right after the record was appended."""
        self._callbacks.append((delivery, call))

    def set_whole(self, whole: Buffer, count: int, max_timestamp: int) -> None:
        """Be these records, encoded already, behind the room for a header; they are the batch's own."""
        self._whole = whole
        self.count = count
        self.max_timestamp = max_timestamp

    def seal(self, codec: Codec, level: int | None) -> None:
        """Take no more records and compress those that are there."""
        assert self._payload is None, "a batch is sealed once"
        section = self.section if self._whole is None else memoryview(self._whole)[HEADER_SIZE:]
        size = len(section)
        self.record_size = size // self.count
        if codec is Codec.NONE:
            self._payload = section
            return
        self.codec = codec
        self._payload = compress(codec, section, level)
        self._whole = None
        self.section = bytearray()
        self.ratio = len(self._payload) / size

    @property
    def is_sealed(self) -> bool:
        return self._payload is not None

    @property
    def size(self) -> int:
        """In bytes, as it is sent: before it is sealed, as large as it would be without compression."""
        if self._payload is not None:
            return HEADER_SIZE + len(self._payload)
        return HEADER_SIZE + len(self.section) if self._whole is None else len(self._whole)

    # Sending

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return increment_sequence(self.base_sequence, self.count - 1)

    def set_producer(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_transactional: bool
    ) -> None:
        """Who sends it, and as which: before it is first sent."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self._assembled = None

    def reset_producer(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """The same for a batch that was sent already and will be again."""
        self.set_producer(producer_id, producer_epoch, base_sequence, is_transactional=self.is_transactional)
        self.has_been_reset = True

    def records(self) -> Buffer:
        """The whole batch, as it is sent. It does not change: who is sent it may hold it for as long as it takes."""
        assert self._payload is not None, "only a sealed batch is sent"
        if self._assembled is None:
            fields = {
                "base_offset": 0,
                "last_offset_delta": self.count - 1,
                "leader_epoch": NO_PARTITION_LEADER_EPOCH,
                "attributes": self.codec | (TRANSACTIONAL_BIT if self.is_transactional else 0),
                "base_timestamp": self.base_timestamp,
                "max_timestamp": self.max_timestamp,
                "producer_id": self.producer_id,
                "producer_epoch": self.producer_epoch,
                "base_sequence": self.base_sequence,
                "record_count": self.count,
            }
            whole, self._whole = self._whole, None
            if whole is None:
                self._assembled = assemble_batch(self._payload, **fields)
            else:
                assert not isinstance(whole, bytes), "it came to be written to"
                complete_batch(whole, **fields)
                self._assembled = whole
        return self._assembled

    def note_leader(self, leader_epoch: int) -> None:
        """The leader it would be sent to now; a new one may be tried without waiting (KIP-951)."""
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.attempts_when_leader_changed = self.attempts

    @property
    def has_new_leader(self) -> bool:
        """Whether the leader has changed since the last attempt."""
        return 0 < self.attempts == self.attempts_when_leader_changed

    def split(self, target_size: int) -> list[ProducerBatch]:
        """Smaller batches of the same records, at least two, none above `target_size` bytes unless a record alone is;
        it is done when they are. They share what it took of the memory."""
        assert self.count > 1, "one record cannot be split"
        count_max = self.count - 1
        whole = next(batches(self.records()))
        section_max = target_size - HEADER_SIZE
        parts: list[ProducerBatch] = []
        starts: list[int] = []
        part: ProducerBatch | None = None
        for index, record in enumerate(whole.records()):
            is_full = part is not None and part.count == count_max
            if part is None or is_full or not part._take(record.timestamp, record.key, record.value, record.headers):
                part = ProducerBatch(
                    self._owner,
                    self.partition,
                    size_max=section_max,
                    charged_bytes=0,
                    base_timestamp=record.timestamp,
                    created_ms=self.created_ms,
                    is_split=True,
                )
                parts.append(part)
                starts.append(index)
                part._take(record.timestamp, record.key, record.value, record.headers)
        parts[0].charged_bytes, self.charged_bytes = self.charged_bytes, 0
        self._hand_on(parts, starts)
        return parts

    def _take(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Any) -> bool:
        size_max = self.size_max if self.count else 1 << 31
        delta = to_int64(timestamp - self.base_timestamp)
        if append_record(self.section, self.count, delta, key, value, headers, size_max) < 0:
            return False
        self.count += 1
        self.max_timestamp = max(self.max_timestamp, timestamp)
        return True

    def _hand_on(self, parts: list[ProducerBatch], starts: list[int]) -> None:
        sequence = self.base_sequence
        for part, start in zip(parts, starts, strict=True):
            if self.has_sequence:
                part.set_producer(
                    self.producer_id, self.producer_epoch, sequence, is_transactional=self.is_transactional
                )
                part.place = self.place
                sequence = increment_sequence(sequence, part.count)
            for delivery, call in self._callbacks:
                if start <= delivery[1] < start + part.count:
                    part.add_callback(Delivery((part, delivery[1] - start, *delivery[2:])), call)
            part._then.append(self._on_part_done)
        self._callbacks = []
        self._splits = parts
        self._split_starts = starts
        self._assembled = self._payload = self._whole = None

    def _on_part_done(self) -> None:
        if all(part.is_done for part in self._splits):
            self._finish(self._fate, {})

    # Ending

    def complete(self, base_offset: int, append_time_ms: int) -> bool:
        """The records were written; whether that is news."""
        return self._finish((base_offset, None, append_time_ms), {})

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> bool:
        """The records were not written, each for its own reason where one is given; whether that is news."""
        return self._finish((NO_OFFSET, error, NO_TIMESTAMP), record_errors or {})

    def _finish(self, fate: Fate, record_errors: Mapping[int, KafkaError]) -> bool:
        if self.is_done:
            return False
        self._fate = fate
        self._record_errors = record_errors
        with self._owner.mutex:
            self.is_done = True
            waiting, self._waiting = self._waiting, []
        # Whoever keeps a Delivery must not keep the records.
        self._payload = b""
        self._assembled = self._whole = None
        self.section = bytearray()
        callbacks, self._callbacks = self._callbacks, []
        for delivery, call in callbacks:
            try:
                error = self.fate_of(delivery[1])[1]
                if error is None:
                    call(delivery.result(), None)
                else:
                    call(None, error)
            except Exception:
                log.exception("[Producer] A callback for a record of %s failed", self.partition)
        for then in self._then:
            try:
                then()
            except Exception:
                log.exception("[Producer] A callback for a delivery to %s failed", self.partition)
        for parked in waiting:
            parked.tell()
        for promise in self._promises:
            if not promise.done():
                promise.set_result(None)
        return True

    def fate_of(self, index: int) -> Fate:
        """What became of one of its records; it is done."""
        if self._splits:
            place = bisect_right(self._split_starts, index) - 1
            return self._splits[place].fate_of(index - self._split_starts[place])
        base_offset, error, append_time_ms = self._fate
        if error is not None:
            return NO_OFFSET, self._record_errors.get(index, error), append_time_ms
        return (base_offset + index if base_offset >= 0 else NO_OFFSET), None, append_time_ms

    # Waiting

    def wait(self, timeout_s: float | None) -> None:
        """Block until it is done; `KafkaTimeout` when that takes too long."""
        self._owner.check_may_block()
        parked = Parked()
        with self._owner.mutex:
            if self.is_done:
                return
            self._waiting.append(parked)
        if not parked.wait(timeout_s):
            raise KafkaTimeout(f"the record for {self.partition} was not delivered within {timeout_s:g} s")

    def when_done(self, call: Callable[[], object]) -> None:
        """Call it when the batch is done: now, if it is."""
        with self._owner.mutex:
            if not self.is_done:
                self._then.append(call)
                return
        call()

    def promise(self) -> Promise[Any]:
        """Resolves when it is done. On the client's thread alone."""
        promise = self._owner.promise()
        if self.is_done:
            promise.set_result(None)
        else:
            self._promises.append(promise)
        return promise

"""What was fetched and not given to the user yet: record batches as they came, decoded only when they are taken.

Promises: records come out in the order of their offsets, each once, from the partition's position on; control batches
and, with read_committed, those of aborted transactions are left out; a checksum that does not match is told and never
passed over. What does not belong to the partition's position any more (a seek, a new assignment, a leader that has to
be asked first) is dropped; what is paused stays. One thread puts in, one takes out: see `PartitionState`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from ottla.client.consumer.partition_state import NO_EPOCH, PartitionState, Position, Status
from ottla.client.consumer.subscription_state import SubscriptionState
from ottla.client.consumer.unpacking import AheadBatch, Helper, Unpacking
from ottla.client.errors import CorruptRecord
from ottla.errors import KafkaError
from ottla.records import HEADER_SIZE, LOG_OVERHEAD, Batch, ConsumerRecord, ControlType, decode_records
from ottla.types import Buffer, TopicPartition
from ottla.wire.messages.fetch import AbortedTransaction

RawRecord: TypeAlias = ConsumerRecord[bytes | None, bytes | None]
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_LAST_DELTA_AT = 23
LIKELY_RATIO = 4
"""What compressed batches are likely to become, in terms of their size: only how much is taken at once hangs on it."""


class RawBatch(NamedTuple):
    """A batch that may be given to the user, checked but not decoded."""

    batch: Batch
    start_offset: int
    """Records before it have been given already, or are not wanted."""


class Fetched:
    """What one fetch brought of one partition."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_batch_end",
        "_batch_size",
        "_check_crcs",
        "_data",
        "_index",
        "_indices",
        "_is_read_committed",
        "_place",
        "_records",
        "_unpacking",
        "given_count",
        "position",
        "size",
        "state",
    )

    def __init__(
        self,
        state: PartitionState,
        position: Position,
        data: Buffer,
        aborted: Sequence[AbortedTransaction] | None,
        *,
        is_read_committed: bool,
        check_crcs: bool,
    ) -> None:
        self.state = state
        self.position = position
        """Where the user stands in here: the next record to take."""
        self.size = len(data)
        self.given_count = 0
        """How many records the user has had of it."""
        self._data = memoryview(data)
        self._place = 0
        self._is_read_committed = is_read_committed
        self._check_crcs = check_crcs
        self._aborted = deque(sorted(aborted, key=_first_offset)) if aborted and is_read_committed else None
        self._aborted_producers: set[int] = set()
        self._records: Sequence[RawRecord] = ()
        """The records of the batch that is being given out."""
        self._index = 0
        self._batch_end = position
        self._batch_size = 0
        self._unpacking: Unpacking | None = None
        self._indices: dict[int, int] = {}
        """By a batch's place, which it is for the unpacking."""

    def unpack_ahead(self, helper: Helper) -> None:
        """Have the batches decompressed before they are taken. Before anybody takes them.

        Where the first is not compressed the others are not looked at: few topics are mixed, and none needs the help.
        """
        found: list[Batch] = []
        place = 0
        while self.size - place >= HEADER_SIZE:
            batch = Batch(self._data, place)
            if batch.size < HEADER_SIZE or batch.size > self.size - place or batch.magic != 2:
                break  # the rest of a batch, or what is told when it is taken
            if not place and not batch.is_compressed:
                return
            if batch.is_compressed and batch.next_offset > self.position.offset:
                self._indices[place] = len(found)
                found.append(batch)
            place += batch.size
        if found:
            self._unpacking = Unpacking(found, helper)

    def let_go(self) -> None:
        """Nobody will take what is left."""
        if self._unpacking is not None:
            self._unpacking.close()

    def end(self) -> Position | None:
        """Behind the last whole batch; None when there is no whole batch in here."""
        data, size, place = self._data, self.size, 0
        last = -1
        while size - place >= HEADER_SIZE:
            _, length = _OFFSET_AND_LENGTH.unpack_from(data, place)
            following = place + length + LOG_OVERHEAD
            if following > size or length <= 0:
                break
            last, place = place, following
        if last < 0:
            return None
        base_offset, _ = _OFFSET_AND_LENGTH.unpack_from(data, last)
        delta = _LAST_DELTA.unpack_from(data, last + _LAST_DELTA_AT)[0]
        return Position(base_offset + delta + 1, _EPOCH.unpack_from(data, last + _EPOCH_AT)[0])

    @property
    def is_drained(self) -> bool:
        """Whether everything was taken: a `take` that gave less than it might has come to the end, or to damage."""
        return not self._records and self._place >= self.size

    def take(self, limit: int) -> list[RawRecord]:
        """Up to `limit` more records; fewer only at the end. `CorruptRecord` once nothing before it is left."""
        taken = self._take(limit)
        self.given_count += len(taken)
        return taken

    def _take(self, limit: int) -> list[RawRecord]:
        taken: list[RawRecord] = []
        while True:
            records = self._records
            if records:
                index, room = self._index, limit - len(taken)
                if len(records) - index <= room:
                    taken.extend(records[index:] if index else records)
                    self._records = ()
                    self.position = self._batch_end
                else:
                    self._index = index + room
                    taken.extend(records[index : index + room])
                    self.position = Position(taken[-1].offset + 1, self._batch_end.epoch)
                if len(taken) >= limit:
                    return taken
            try:
                raw = self._next_batch()
                if raw is None:
                    return taken
                self._decode(raw)
            except CorruptRecord:
                if taken:
                    return taken
                raise

    def take_batches(self) -> list[RawBatch]:
        """All that is left, not decoded."""
        if self._records:
            # The rest of a batch that `take` has begun: from its header on, and from where the user stands.
            self._place -= self._batch_size
            self._records = ()
        unpacking, self._unpacking = self._unpacking, None  # from here on it is the taker's, to be closed
        found: list[RawBatch] = []
        try:
            while (raw := self._next_batch()) is not None:
                batch, start_offset = raw
                index = self._indices.get(self._place)
                if unpacking is not None and index is not None:
                    raw = RawBatch(AheadBatch(batch, unpacking, index), start_offset)
                found.append(raw)
                self.given_count += batch.record_count
                self._place += batch.size
                self.position = Position(batch.next_offset, batch.leader_epoch)
        except CorruptRecord:
            if not found:
                raise
        finally:
            if unpacking is not None and not found:
                unpacking.close()
        return found

    def _decode(self, raw: RawBatch) -> None:
        batch = raw.batch
        topic, partition = self.state.topic_partition
        try:
            self._records = decode_records(
                batch.payload() if batch.is_compressed else batch.data[HEADER_SIZE:],
                batch.record_count,
                batch.base_offset,
                batch.base_timestamp,
                batch.max_timestamp if batch.timestamp_type else None,
                topic,
                partition,
                None if batch.leader_epoch < 0 else batch.leader_epoch,
                raw.start_offset,
            )
        except KafkaError as error:
            raise self._corrupt(batch.base_offset, str(error)) from error
        self._place += batch.size
        self._batch_size = batch.size
        self._index = 0
        self._batch_end = Position(batch.next_offset, batch.leader_epoch)
        if not self._records:
            self.position = self._batch_end

    def _next_batch(self) -> RawBatch | None:
        """The next batch with records for the user, still to be passed; those without are passed over."""
        while self._place < self.size:
            batch = self._whole_batch()
            if batch is None:
                self._place = self.size  # the rest of a batch that was cut off, which a later fetch brings whole
                return None
            if batch.next_offset <= self.position.offset:
                self._place += batch.size  # the fetch began within a batch, and this one lies before
                continue
            if self._check_crcs and not batch.check_crc():
                raise self._corrupt(batch.base_offset, "its checksum does not match")
            if not batch.is_control and not self._is_aborted(batch):
                return RawBatch(batch, self.position.offset)
            if batch.is_control:
                self._end_transaction(batch)
            self._place += batch.size
            self.position = Position(batch.next_offset, batch.leader_epoch)
        return None

    def _whole_batch(self) -> Batch | None:
        left = self.size - self._place
        if left < HEADER_SIZE:
            return None
        batch = Batch(self._data, self._place)
        if batch.size < HEADER_SIZE or batch.magic != 2:
            raise self._corrupt(
                self.position.offset, f"size {batch.size} and magic {batch.magic} are none of a batch that is known"
            )
        return batch if batch.size <= left else None

    def _is_aborted(self, batch: Batch) -> bool:
        """Whether the batch belongs to a transaction that the broker told was aborted."""
        aborted = self._aborted
        if aborted is None or not batch.is_transactional:
            return False
        self._note_aborted(batch.last_offset)
        return batch.producer_id in self._aborted_producers

    def _note_aborted(self, last_offset: int) -> None:
        aborted = self._aborted
        while aborted and aborted[0].first_offset <= last_offset:
            self._aborted_producers.add(aborted.popleft().producer_id)

    def _end_transaction(self, batch: Batch) -> None:
        if self._aborted is None or not batch.has_producer_id:
            return
        self._note_aborted(batch.last_offset)
        try:
            rows = batch.rows()
            is_abort = bool(rows) and ControlType.of_key(rows[0][2]) is ControlType.ABORT
        except KafkaError as error:
            raise self._corrupt(batch.base_offset, str(error)) from error
        if is_abort:
            self._aborted_producers.discard(batch.producer_id)

    def _corrupt(self, offset: int, why: str) -> CorruptRecord:
        partition = self.state.topic_partition
        return CorruptRecord(
            partition,
            self.position.offset,
            f"Record batch for partition {partition} at offset {offset} is invalid: {why}",
        )


class Returned:
    """Records that were taken and come back: an iteration was left in its middle, or one could not be read."""

    __slots__ = ("_end", "_records", "is_final", "position", "size", "state")

    def __init__(self, state: PartitionState, records: list[RawRecord], end: Position, *, is_final: bool) -> None:
        self.state = state
        self.size = 0
        first = records[0]
        self.position = Position(first.offset, NO_EPOCH if first.leader_epoch is None else first.leader_epoch)
        self.is_final = is_final
        """Interceptors and deserializers have seen them already."""
        self._records = records
        self._end = end

    @property
    def is_drained(self) -> bool:
        return not self._records

    def take(self, limit: int) -> list[RawRecord]:
        """Up to `limit` of them."""
        taken, self._records = self._records[:limit], self._records[limit:]
        if not self._records:
            self.position = self._end
        elif taken:
            self.position = Position(self._records[0].offset, self.position.epoch)
        return taken


def _first_offset(aborted: AbortedTransaction) -> int:
    return aborted.first_offset


class FetchBuffer:
    """All fetches that wait for the user, first come first served."""

    def __init__(self, subscription: SubscriptionState) -> None:
        self._subscription = subscription
        self._arrived: deque[Fetched | Returned] = deque()
        self._current: Fetched | Returned | None = None
        self.on_drained: Callable[[], object] = lambda: None
        """Called by the taker when fetches were used up or dropped: there is room for others."""
        self.on_consumed: Callable[[Fetched], object] = lambda fetched: None
        """Called by the taker with each fetch that the user is done with."""
        self._has_room = False
        self.helper: Helper | None = None
        """Who decompresses what arrives, for a taker of batches."""

    def put(self, fetched: Fetched) -> None:
        """A fetch has arrived."""
        state = fetched.state
        state.arrived_bytes += fetched.size
        state.arrived_count += 1
        if self.helper is not None:
            fetched.unpack_ahead(self.helper)
        self._arrived.append(fetched)

    def give_back(self, records: Sequence[RawRecord], *, is_final: bool) -> None:
        """Records that were taken last and not used: each partition goes back to the first of its own.

        On the loop, while nobody takes.
        """
        if self._current is not None:
            self._arrived.appendleft(self._current)
            self._current = None
        by_partition: dict[PartitionState, list[RawRecord]] = {}
        for record in records:
            state = self._subscription.partitions.get(TopicPartition(record.topic, record.partition))
            if state is not None and state.position is not None:
                by_partition.setdefault(state, []).append(record)
        for state, returned in reversed(by_partition.items()):
            assert state.position is not None, "it was taken from"
            back = Returned(state, returned, state.position, is_final=is_final)
            if not state.buffered_count:
                state.arrived_end = state.position
            state.position = back.position
            state.arrived_count += 1
            self._arrived.appendleft(back)

    def take(self, limit: int) -> tuple[list[RawRecord], bool]:
        """Up to `limit` records, and whether these are final. Raises `CorruptRecord` when that is what comes next."""
        taken: list[RawRecord] = []
        passed: list[Fetched | Returned] = []
        try:
            while len(taken) < limit:
                fetched = self._next(passed)
                if fetched is None:
                    break
                if isinstance(fetched, Returned) and fetched.is_final:
                    if taken:
                        break
                    taken = fetched.take(limit)
                    self._taken_from(fetched)
                    return taken, True
                try:
                    records = fetched.take(limit - len(taken))
                except CorruptRecord:
                    if taken:
                        break
                    raise
                finally:
                    fetched.state.position = fetched.position
                self._taken_from(fetched)
                taken = taken + records if taken else records
        finally:
            self._end_take(passed)
        return taken, False

    def take_batches(self, bytes_max: int) -> list[tuple[PartitionState, list[RawBatch]]]:
        """Batches that are not decoded, of one fetch after the other, until these have `bytes_max` or more, or probably
        have once they are decompressed."""
        taken: list[tuple[PartitionState, list[RawBatch]]] = []
        passed: list[Fetched | Returned] = []
        size = 0
        try:
            while size < bytes_max:
                fetched = self._next(passed)
                if fetched is None:
                    break
                if isinstance(fetched, Returned):
                    self._drop(fetched)  # there are no bytes of these: they are fetched again
                    continue
                try:
                    batches = fetched.take_batches()
                except CorruptRecord:
                    if taken:
                        break
                    raise
                finally:
                    fetched.state.position = fetched.position
                self._taken_from(fetched)
                if batches:
                    taken.append((fetched.state, batches))
                    size += fetched.size * (LIKELY_RATIO if batches[0].batch.is_compressed else 1)
        finally:
            self._end_take(passed)
        return taken

    def _end_take(self, passed: list[Fetched | Returned]) -> None:
        """Paused fetches come back in their order; and once for all that was dropped, others may be asked for."""
        self._arrived.extendleft(reversed(passed))
        if self._has_room:
            self._has_room = False
            self.on_drained()

    def _next(self, passed: list[Fetched | Returned]) -> Fetched | Returned | None:
        """The fetch to take from now; those of paused partitions go to `passed`."""
        while True:
            fetched = self._current
            if fetched is None:
                if not self._arrived:
                    return None
                fetched = self._current = self._arrived.popleft()
            state = fetched.state
            position = state.position
            if (
                self._subscription.partitions.get(state.topic_partition) is not state
                or state.status is not Status.FETCHING
                or position is None
            ):
                self._drop(fetched)
            elif state.is_paused or state.is_held:
                passed.append(fetched)  # whether it fits the position is seen once those before it were taken
                self._current = None
            elif position.offset != fetched.position.offset:
                self._drop(fetched)
            else:
                return fetched

    def _taken_from(self, fetched: Fetched | Returned) -> None:
        fetched.state.position = fetched.position
        if fetched.is_drained:
            self._drop(fetched)

    def _drop(self, fetched: Fetched | Returned) -> None:
        self._current = None
        state = fetched.state
        state.drained_bytes += fetched.size
        state.drained_count += 1
        if isinstance(fetched, Fetched):
            fetched.let_go()
            self.on_consumed(fetched)
        self._has_room = True

    def clear(self) -> None:
        """Let go of everything."""
        for fetched in (self._current, *self._arrived):
            if isinstance(fetched, Fetched):
                fetched.let_go()
        self._arrived.clear()
        self._current = None

"""Reading exactly [start, end) of one partition, as record batches that are not decoded yet. Runs in Spark's tasks.

Promises: every record of the range that is there comes once and in order, with its batch's checksum compared; with
read_committed no aborted one; control records never; holes of a compacted topic are passed over; nor does a record come
of another topic that was created under the same name since. The next fetch is under way while the last is being used,
and nothing is asked for behind `end`. A leader that moves or a broker that restarts costs time; what is gone for good
is `DataLoss`, or left out when the query was told to go on.

`RangeReaders` keeps readers for the tasks that follow in this process, a few of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.client.consumer.fetch_buffer import Fetched, RawBatch
from ottla.client.consumer.fetcher import LEADER_MOVED
from ottla.client.consumer.offset_lookup import EARLIEST, LATEST, PASSING
from ottla.client.consumer.partition_state import PartitionState, Position
from ottla.errors import (
    CorruptMessage,
    KafkaError,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.source.link import Leader, Link
from ottla.pipelines.source.offsets import WAY_OUT, DataLoss
from ottla.pipelines.source.planning import Range
from ottla.records import HEADER_SIZE, LOG_OVERHEAD
from ottla.types import Buffer, TopicPartition
from ottla.wire.messages.fetch import PartitionData

log = logging.getLogger(__name__)

AHEAD = 2
"""How many fetches may be under way or wait to be used."""
FETCH_BYTES = 4 * 1024 * 1024
"""What one fetch brings, unless `kafka.max.partition.fetch.bytes` says otherwise."""
LEAST_BYTES = 64 * 1024
WAIT_MS = 500
READERS_MAX = 4

_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23


class ReadTimeout(PipelineError):
    """No broker has given the records of a range for as long as `kafkaConsumer.pollTimeoutMs` allows."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for what does not come, and what to do when it is gone."""

    timeout_ms: int
    attempts: int
    interval_ms: int
    fails_on_data_loss: bool


class RangeReader:
    """Reads ranges, one after the other."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._link = Link(settings, "range-reader")
        chosen = "max.partition.fetch.bytes" in settings
        self._bytes_max = self._link.config.max_partition_fetch_bytes if chosen else FETCH_BYTES

    def close(self) -> None:
        self._link.close()

    def read(self, wanted: Range, patience: Patience) -> Iterator[list[RawBatch]]:
        """The batches of a range as the fetches bring them. Some records of the first and the last of all may lie
        outside of it. To be closed when it is not used up."""
        reading = _Reading(self._link, wanted, patience, self._bytes_max)
        self._link.post(reading.begin)
        try:
            while True:
                arrived = reading.arrived.get()
                if arrived is None:
                    return
                if isinstance(arrived, BaseException):
                    raise arrived
                batches = arrived.take_batches()
                self._link.post(reading.room.release)
                if batches:
                    yield batches
                if not arrived.is_drained:
                    arrived.take_batches()  # damage behind what was whole, which is told now
        finally:
            self._link.post(reading.cancel)


class _Reading:
    """One range on its way. All but `arrived` belongs to the loop."""

    def __init__(self, link: Link, wanted: Range, patience: Patience, bytes_max: int) -> None:
        self.arrived: queue.SimpleQueue[Fetched | BaseException | None] = queue.SimpleQueue()
        self.room = asyncio.Semaphore(AHEAD)
        self._link = link
        self._range = wanted
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._state = PartitionState(self._partition)
        self._patience = patience
        self._bytes_max = bytes_max
        self._ask_bytes = bytes_max
        """What the next fetch asks for: no more than the rest of the range seems to have."""
        self._offset = wanted.start
        self._node_id: int | None = None
        """A nearer replica that the leader told of (KIP-392)."""
        self._progress_ms = 0
        self._failures = 0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._main())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _main(self) -> None:
        try:
            self._link.metadata.add_topics([self._partition.topic])
            self._progress_ms = self._now_ms()
            while self._offset < self._range.end:
                await self.room.acquire()
                fetched = await self._next()
                if fetched is None:
                    break
                self.arrived.put(fetched)
            self.arrived.put(None)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  it is the taker's
            self.arrived.put(error)
        finally:
            if self._link.leader(self._partition) is None:
                self._link.keep_topics(self._link.metadata.topics.keys() - {self._partition.topic})

    def _now_ms(self) -> int:
        return self._link.world.clock.monotonic_ms()

    async def _next(self) -> Fetched | None:
        """The next fetch that brought something; None when there is nothing more to read."""
        while self._offset < self._range.end:
            leader = self._link.leader(self._partition)
            if leader is None:
                await self._look_for_leader()
                continue
            if not self._range.is_of(leader.topic_id):
                await self._look_for_topic()
                continue
            told = await self._ask(leader)
            if told is None:
                continue
            if told.error_code == OffsetOutOfRange.code:
                await self._out_of_range()
            elif told.error_code:
                await self._refused(told.error_code)
            elif told.records:
                fetched = self._taken(told)
                if fetched is not None:
                    return fetched
                await self._back_off("the broker sends no complete batch")
            elif told.preferred_read_replica >= 0:
                self._node_id = told.preferred_read_replica
            elif told.high_watermark <= self._offset and self._node_id is None:
                await self._at_end(told.high_watermark)
            else:
                self._check_patience(f"a transaction is open from offset {told.last_stable_offset} on")
        return None

    async def _ask(self, leader: Leader) -> PartitionData | None:
        try:
            return await self._link.fetch(
                self._partition,
                self._offset,
                leader,
                bytes_max=self._ask_bytes,
                wait_ms=WAIT_MS,
                node_id=leader.node_id if self._node_id is None else self._node_id,
            )
        except KafkaError as error:
            if not error.retriable:
                raise
            self._node_id = None
            self._link.metadata.request_update()
            await self._back_off(str(error))
            return None

    async def _look_for_leader(self) -> None:
        """Wait for metadata, and tell a topic that is gone from one that has no leader at the moment."""
        metadata = self._link.metadata
        info = metadata.cluster.topics.get(self._partition.topic)
        if info is not None:
            is_gone = info.error_code == UnknownTopicOrPartition.code or (
                not info.error_code and self._partition.partition not in info.partitions
            )
            if is_gone:
                await self._once_more("the partition has been deleted")
            metadata.request_update()
        self._check_patience("it has no leader that can be reached")
        await self._link.updated(self._patience.timeout_ms)

    async def _look_for_topic(self) -> None:
        """The metadata has another topic of this name: it is old, as this reader may have been idle, or the range's
        topic was deleted. No record of the other topic belongs to the range."""
        self._link.metadata.request_update()
        await self._link.updated(self._patience.timeout_ms)
        leader = self._link.leader(self._partition)
        if leader is not None and not self._range.is_of(leader.topic_id):
            await self._once_more(
                f"the topic was deleted and made anew, its id was {self._range.topic_id} and is {leader.topic_id} now"
            )

    async def _back_off(self, reason: str) -> None:
        self._check_patience(reason)
        self._failures += 1
        await self._link.world.tasks.sleep_ms(self._link.network.retry_backoff.delay_ms(self._failures - 1))

    def _check_patience(self, reason: str) -> None:
        waited_ms = self._now_ms() - self._progress_ms
        if waited_ms >= self._patience.timeout_ms:
            raise ReadTimeout(
                f"{self._partition} was not read from offset {self._offset} on within {waited_ms} ms: {reason}"
            )

    async def _refused(self, code: int) -> None:
        error = error_class(code)
        self._node_id = None
        if code == CorruptMessage.code:
            raise CorruptMessage(f"The broker finds a corrupt record at offset {self._offset} of {self._partition}")
        if code not in LEADER_MOVED and code not in PASSING and code != UnknownLeaderEpoch.code:
            raise error(f"{self._partition}: {error.__doc__}")
        self._link.metadata.request_update()
        await self._back_off(error.name)

    def _taken(self, told: PartitionData) -> Fetched | None:
        data = told.records
        assert isinstance(data, bytes | bytearray | memoryview), "what was received is no slice of a file"
        size, next_offset = whole_batches(data, self._range.end)
        if next_offset <= self._offset:
            return None
        fetched = Fetched(
            self._state,
            Position(self._offset),
            memoryview(data)[:size],
            told.aborted_transactions,
            is_read_committed=self._link.is_read_committed,
            check_crcs=self._link.config.check_crcs,
        )
        left = self._range.end - next_offset
        self._ask_bytes = min(self._bytes_max, max(LEAST_BYTES, size * left * 5 // (4 * (next_offset - self._offset))))
        self._offset = next_offset
        self._progress_ms = self._now_ms()
        self._failures = 0
        return fetched

    async def _at_end(self, high_watermark: int) -> None:
        """The log ends before the range: for the moment (a new leader catches up), or for good."""
        await self._once_more(f"the log ends at offset {high_watermark}")

    async def _once_more(self, why: str) -> None:
        """What looks like a loss may be a broker that does not know yet: it is one when it stays so."""
        self._failures += 1
        if self._failures > self._patience.attempts:
            self._lose(self._offset, self._range.end, why)
        else:
            await self._link.world.tasks.sleep_ms(self._patience.interval_ms)

    async def _out_of_range(self) -> None:
        if self._node_id is not None:
            self._node_id = None  # a replica may be behind its leader: the leader decides
            return
        asked = self._partition
        timeout_ms = self._link.config.default_api_timeout_ms
        first = (await self._link.lookup.find({asked: EARLIEST}, timeout_ms))[asked]
        last = (await self._link.lookup.find({asked: LATEST}, timeout_ms))[asked]
        earliest, latest = first.offset if first else 0, last.offset if last else 0
        if self._offset < earliest:
            self._lose(self._offset, min(earliest, self._range.end), f"the log begins at offset {earliest} now")
            self._offset = earliest
        else:
            await self._at_end(latest)

    def _lose(self, start: int, end: int, why: str) -> None:
        """Records are gone: an error, or a warning and the reading goes on behind them."""
        text = f"{end - start} offsets of {self._partition} were lost, from {start} to {end - 1}: {why}"
        if self._patience.fails_on_data_loss:
            raise DataLoss(f"{text}. {WAY_OUT}.")
        log.warning("%s. The query goes on without them, as failOnDataLoss is false.", text)
        self._offset = end


def whole_batches(data: Buffer, end_offset: int) -> tuple[int, int]:
    """The size of the whole batches at the beginning of `data` that begin before `end_offset`, and the offset behind
    them (-1 when there are none). What lies behind the range is neither decoded nor checked, for nobody reads it."""
    view = memoryview(data)
    size, place, next_offset = len(view), 0, -1
    while size - place >= HEADER_SIZE:
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(view, place)
        following = place + length + LOG_OVERHEAD
        if following > size or length <= 0 or base_offset >= end_offset:
            if base_offset >= end_offset and next_offset < end_offset:
                next_offset = base_offset  # a hole at the end of the range
            break
        next_offset = base_offset + _LAST_DELTA.unpack_from(view, place + _LAST_DELTA_AT)[0] + 1
        place = following
    return place, next_offset


class RangeReaders:
    """The readers of one process: lent to a task, and kept for the next with the same settings."""

    def __init__(self) -> None:
        self._idle: list[tuple[frozenset[tuple[str, str]], RangeReader]] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()

    @contextmanager
    def lent(self, settings: Mapping[str, str]) -> Iterator[RangeReader]:
        """A reader, which is nobody else's meanwhile."""
        key = frozenset(settings.items())
        reader = self._take(key) or RangeReader(settings)
        try:
            yield reader
        except GeneratorExit:
            self._give_back(key, reader)  # Spark has enough of the rows
            raise
        except BaseException:
            reader.close()  # whatever went wrong, the next task begins afresh
            raise
        self._give_back(key, reader)

    def _take(self, key: frozenset[tuple[str, str]]) -> RangeReader | None:
        with self._guard:
            if self._pid != os.getpid():
                self._idle, self._pid = [], os.getpid()  # threads and connections are the parent's
            for index, (known, reader) in enumerate(self._idle):
                if known == key:
                    del self._idle[index]
                    return reader
        return None

    def _give_back(self, key: frozenset[tuple[str, str]], reader: RangeReader) -> None:
        with self._guard:
            self._idle.append((key, reader))
            surplus = [old for _, old in self._idle[:-READERS_MAX]]
            del self._idle[:-READERS_MAX]
        for old in surplus:
            old.close()


READERS = RangeReaders()

"""A reader of committed records: reads the sink from its start to the last stable offset, again and again, leaving out
what was aborted as clients do, and holds the brokers to what the `Ledger` knows of every transaction."""

from __future__ import annotations

from collections import deque

from ottla.errors import error_class
from ottla.records import Batch, ControlType, EndTransactionMarker, batches
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST
from ottla.sim.history import Violation
from ottla.sim.ledger import SINK, Copy, Ledger
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

READ_COMMITTED = 1
ISOLATION_VERSION = 4
PATIENCE_MS = 200_000
"""How long the last records may take to be there once everything works again."""
_FETCH = 1


class SinkReader(Client):
    """See the module. Reads until told to stop, and then until everything is there and no transaction is open."""

    ledger: Ledger
    ends: dict[int, int]
    """Of the source, set before it is told to stop: what the sink has to hold in the end."""
    partition_max_bytes = 1 << 16

    async def work(self) -> None:
        while SINK not in (topics := await self.topics([SINK])):
            await self.pause()
        sink = topics[SINK]
        self._stable: dict[int, int] = dict.fromkeys(range(sink.partition_count), 0)
        deadline_ms: int | None = None
        while True:
            is_last = self.is_stopping
            is_settled = True
            for index in range(sink.partition_count):
                is_settled = await self._read_through(sink, index) and is_settled
            if is_last:
                missing = self.ledger.missing(self.ends) if is_settled else "a transaction is open that nobody works on"
                if missing is None:
                    return
                deadline_ms = deadline_ms or self.ledger.now_ms() + PATIENCE_MS
                if self.ledger.now_ms() > deadline_ms:
                    raise Violation(f"{self.name} has waited {PATIENCE_MS} ms: {missing}")
            await self.pause(self.chance.uniform(1, 20))

    async def _read_through(self, sink: Topic, index: int) -> bool:
        """Read one partition to its last stable offset; whether no transaction is open above."""
        position = 0
        seen: set[int] = set()
        while True:
            asked = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=self.partition_max_bytes)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=READ_COMMITTED,
                session_epoch=-1,
                topics=[FetchTopic(SINK, sink.id, [asked])],
            )
            try:
                await self.link()
                response: FetchResponse = await self.ask(request, self.version_of(_FETCH, first=ISOLATION_VERSION))
            except LOST:
                await self.pause()
                continue
            partition = None if response.error_code else response.responses[0].partitions[0]
            if partition is None or partition.error_code:
                error = error_class(response.error_code if partition is None else partition.error_code)
                self.history.count(f"reader: {error.name}")
                if not error.retriable:
                    raise Violation(f"{self.name}: {SINK}-{index} answers {error.name} at {position}")
                await self.pause()
                continue
            stable = partition.last_stable_offset
            if stable < self._stable[index]:
                raise Violation(
                    f"{self.name}: the last stable offset of {SINK}-{index} fell from {self._stable[index]} to {stable}"
                )
            self._stable[index] = stable
            read_to = self._on_partition(index, position, partition, seen)
            if read_to == position:
                if position < stable:
                    raise Violation(
                        f"{self.name}: {SINK}-{index} is stable to {stable} and serves nothing at {position}"
                    )
                self.ledger.on_read_through(self.name, index, position, seen)
                return stable == partition.high_watermark
            position = read_to

    def _on_partition(self, index: int, position: int, partition: PartitionData, seen: set[int]) -> int:
        """Take what was fetched; returns where to go on."""
        aborted = deque(sorted((one.first_offset, one.producer_id) for one in partition.aborted_transactions or ()))
        aborting: set[int] = set()
        for batch in batches(memoryview(partition.records or b"")):  # type: ignore[arg-type]
            batch.ensure_valid()
            if batch.base_offset != position:
                raise Violation(f"{self.name}: {SINK}-{index} serves {batch.base_offset} where {position} is next")
            if batch.last_offset >= partition.last_stable_offset:
                raise Violation(
                    f"{self.name}: {SINK}-{index} serves {batch.last_offset}, and is stable to "
                    f"{partition.last_stable_offset}"
                )
            position = batch.next_offset
            while aborted and aborted[0][0] <= batch.last_offset:
                aborting.add(aborted.popleft()[1])
            if batch.is_control:
                self._on_marker(batch, aborting)
            elif batch.producer_id not in aborting:
                self._on_records(index, batch, seen)
        return position

    def _on_marker(self, batch: Batch, aborting: set[int]) -> None:
        ((_, _, key, value, _),) = batch.rows()
        if EndTransactionMarker.decode(key, value).type is ControlType.ABORT:
            aborting.discard(batch.producer_id)

    def _on_records(self, index: int, batch: Batch, seen: set[int]) -> None:
        if not batch.is_transactional:
            raise Violation(f"{self.name}: {SINK}-{index} serves {batch.base_offset} outside of any transaction")
        for offset, _, _, value, _ in batch.rows():
            self.ledger.on_read(self.name, index, offset, Copy.decode(value))
            seen.add(offset)
            self.history.count("copies shown")

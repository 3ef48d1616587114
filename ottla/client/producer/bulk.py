"""Whole columns at once: the sections of an Arrow batch become batches of their own, and one delivery stands for all.

No record is touched in Python: `ArrowRows` encodes each partition's rows in C, and what comes out is queued as it is.
Sections are larger than `batch.size`, because nothing has to wait for them to fill. Needs pyarrow, imported when
`send_arrow` is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.errors import KafkaTimeout
from ottla.client.network import Cluster
from ottla.client.producer.accumulator import TopicQueues
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.partitioners import available_partitions
from ottla.errors import KafkaError
from ottla.records import HEADER_SIZE

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.columnar import EncodedSection

SECTION_BYTES_MAX = 256 * 1024
"""Large enough that a request costs next to nothing for each record, small enough for five to be under way."""


class WrittenRun(NamedTuple):
    """Records that were written one behind the other."""

    topic: str
    partition: int
    base_offset: int
    """-1 when the broker did not tell."""
    record_count: int


class BulkDelivery:
    """Many records on their way. Awaited of an `AsyncProducer`, asked for its `result` of a `Producer`."""

    __slots__ = ("_batches", "record_count")

    def __init__(self, batches: list[ProducerBatch]) -> None:
        self._batches = batches
        self.record_count = sum(batch.count for batch in batches)

    def done(self) -> bool:
        """Whether it is known what became of all of them."""
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout: float | None = None) -> list[WrittenRun]:
        """Where the records were written; raises why the first of those was not that was not."""
        self._wait(timeout)
        return self._runs()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why some of them were not written; None when all were."""
        self._wait(timeout)
        return next((error for batch in self._batches if (error := batch.fate_of(0)[1]) is not None), None)

    def add_done_callback(self, call: Callable[[BulkDelivery], object]) -> None:
        """Call it with this delivery when all are done: on the client's thread, or here and now if they are."""
        left = len(self._batches)
        if not left:
            call(self)
            return

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                call(self)

        for batch in self._batches:
            batch.when_done(one_less)

    def __await__(self) -> Generator[Any, Any, list[WrittenRun]]:
        for batch in self._batches:
            if not batch.is_done:
                yield from batch.promise().__await__()
        return self._runs()

    def __repr__(self) -> str:
        return f"BulkDelivery({self.record_count} records, {'done' if self.done() else 'under way'})"

    def _wait(self, timeout: float | None) -> None:
        for batch in self._batches:
            if not batch.is_done:
                try:
                    batch.wait(timeout)
                except KafkaTimeout:
                    left = sum(one.count for one in self._batches if not one.is_done)
                    raise KafkaTimeout(f"{left} records were not delivered within {timeout:g} s") from None

    def _runs(self) -> list[WrittenRun]:
        runs = []
        for batch in self._batches:
            offset, error, _ = batch.fate_of(0)
            if error is not None:
                raise error.with_traceback(None)
            runs.append(WrittenRun(*batch.partition, offset, batch.count))
        return runs


def sections(
    rows: pa.RecordBatch | pa.Table, queues: TopicQueues, cluster: Cluster, *, size_max: int, now_ms: int
) -> Iterator[EncodedSection]:
    """The rows as batches that lack only their headers, partition by partition. Rows without a key or a partition go to
    the partitions that have a leader."""
    from ottla.client.columnar import ArrowRows

    keyless = available_partitions(cluster, queues.name) or range(queues.partition_count)
    for batch in rows.to_batches() if hasattr(rows, "to_batches") else (rows,):
        yield from ArrowRows(batch, now_ms=now_ms).sections(
            queues.partition_count, size_max=size_max - HEADER_SIZE, keyless=keyless, head_size=HEADER_SIZE
        )

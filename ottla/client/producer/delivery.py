"""What becomes of a record: `RecordMetadata` once it is written, and `Delivery`, which waits for that.

A `Delivery` is made for every record, so it is as small as it can be: a tuple that points into the batch. All of a
batch's records share one fate and one wake-up; a record's own part is worked out when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ottla.client.producer.batch import ProducerBatch
    from ottla.errors import KafkaError

NO_OFFSET = -1
NO_SIZE = -1


class RecordMetadata(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int
    """-1 when the broker did not tell: with `acks=0`, or for a duplicate that it knows nothing more of."""
    timestamp: int
    """The record's own, or the broker's where the topic keeps the time of the append."""
    serialized_key_size: int
    """-1 without a key."""
    serialized_value_size: int
    """-1 for a tombstone."""


OnDelivery = Callable[[RecordMetadata | None, "KafkaError | None"], object]
"""Called once for a record, on the client's thread: with where it was written, or with why it was not."""


class Delivery(tuple["ProducerBatch", int, int, int, int]):
    """A record on its way: (batch, index in the batch, timestamp, size of the key, size of the value).

    Of an `AsyncProducer` it is awaited; of a `Producer` its `result` is waited for. Nobody has to look at it.
    """

    __slots__ = ()

    def done(self) -> bool:
        """Whether it is known what became of the record."""
        return self[0].is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record was written; raises why it was not, and `KafkaTimeout` after `timeout` seconds."""
        batch = self[0]
        if not batch.is_done:
            batch.wait(timeout)
        return self._metadata()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why the record was not written; None when it was."""
        batch = self[0]
        if not batch.is_done:
            batch.wait(timeout)
        return batch.fate_of(self[1])[1]

    def add_done_callback(self, call: Callable[[Delivery], object]) -> None:
        """Call it with this delivery once it is done: on the client's thread, or here and now if it is done already."""
        self[0].when_done(lambda: call(self))

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        batch = self[0]
        if not batch.is_done:
            yield from batch.promise().__await__()
        return self._metadata()

    def __repr__(self) -> str:
        batch, index = self[0], self[1]
        return f"Delivery({batch.partition}, record {index} of its batch, {'done' if batch.is_done else 'under way'})"

    def _metadata(self) -> RecordMetadata:
        batch, index, timestamp, key_size, value_size = self
        offset, error, append_time_ms = batch.fate_of(index)
        if error is not None:
            raise error.with_traceback(None)
        if append_time_ms >= 0:
            timestamp = append_time_ms
        return RecordMetadata(batch.partition.topic, batch.partition.partition, offset, timestamp, key_size, value_size)

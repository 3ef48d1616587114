"""At least once: an idempotent producer a process, and nothing that ties one task's rows to another's.

A task that is tried again, and a micro-batch that is replayed, write their rows again. Promises: a task's rows are in
the log when `write` returns; the first that is not fails the task with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.client import BulkDelivery, Producer
from ottla.errors import KafkaError
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink.options import SinkOptions
from ottla.pipelines.sink.rows import RowShape
from ottla.pipelines.sink.transaction import reason

if TYPE_CHECKING:
    import pyarrow as pa

PRODUCERS_MAX = 4

_producers: dict[tuple[tuple[str, str], ...], Producer] = {}


def write(options: SinkOptions, shape: RowShape, handed: Iterator[pa.RecordBatch]) -> int:
    """Write one task's rows, and return how many they were."""
    producer = producer_of(options)
    deliveries: list[BulkDelivery] = []
    count = 0
    try:
        for topic, batch in shape.batches(handed):
            deliveries.append(producer.send_arrow(topic, batch))
            count += batch.num_rows
            while deliveries and deliveries[0].done():
                deliveries.pop(0).result()
        producer.flush()
        for delivery in deliveries:
            delivery.result()
    except ValueError as error:
        raise PipelineError(f"rows cannot be written: {error}") from None
    except KafkaError as error:
        # What this producer has not sent yet would be sent in the next task's name.
        _drop(producer)
        raise PipelineError(f"rows were not written: {reason(error)}") from error
    return count


def _drop(producer: Producer) -> None:
    for key in [key for key, one in _producers.items() if one is producer]:
        del _producers[key]
    producer.close(0)


def producer_of(options: SinkOptions) -> Producer:
    """This process's producer with these settings; of several, the one that was not used for longest goes first."""
    key = tuple(sorted(options.kafka.items()))
    producer = _producers.pop(key, None)
    if producer is None:
        while len(_producers) >= PRODUCERS_MAX:
            _producers.pop(next(iter(_producers))).close()
        producer = Producer(options.kafka)
    _producers[key] = producer
    return producer

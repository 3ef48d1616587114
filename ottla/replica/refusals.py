"""Producers' batches that a partition refused for the moment, so that the next ones do not overtake them.

A producer with several requests in flight is refused the first of them: too few replicas are in sync, or this node does
not lead yet. Should that change before the second arrives, its sequence is out of order. Kafka says so (or, where it
does not know the producer, appends it), and librdkafka answers with a new producer epoch, in which it sends again
whatever it does not know the outcome of: records may be there twice. Here the second is refused for the reason of the
first, and the client sends both again, in order.

Promises: only a batch behind one that was refused within `REFUSED_MS`, and is not in the log since, is treated so; all
else that is out of order stays out of order. At most `PRODUCERS_MAX` producers are remembered. Called by `partition`.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.records import HEADER_SIZE, MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, Batch
from ottla.storage import Log
from ottla.types import Buffer

REFUSED_MS = 10_000
"""A client that has not sent a refused batch again by then has given it up."""
PRODUCERS_MAX = 1_000
SEQUENCE_COUNT = 1 << 31


class Refusal(NamedTuple):
    """The first batch of a producer that was refused, when that was last, and why."""

    producer_epoch: int
    sequence: int
    at_ms: int
    kind: type[KafkaError]
    """An error of this class is raised anew: one that was raised holds on to the request's buffer by its traceback."""
    message: str


class Refusals:
    """Of one partition, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Refusal] = {}

    @property
    def is_empty(self) -> bool:
        return not self._by_producer

    def note(self, data: Buffer, error: KafkaError, log: Log | None, now_ms: int) -> None:
        """This batch has been refused for this reason. Without a log, nothing is known to be written."""
        batch = _batch(data)
        if batch is None:
            return
        # The one that was refused last is the last to be forgotten.
        known = self._by_producer.pop(batch.producer_id, None)
        sequence = batch.base_sequence
        if (
            known is not None
            and known.producer_epoch == batch.producer_epoch
            and now_ms - known.at_ms < REFUSED_MS
            and _is_before(known.sequence, sequence)
            and not _is_written(log, batch.producer_id, known)
        ):
            sequence = known.sequence
        self._by_producer[batch.producer_id] = Refusal(
            batch.producer_epoch, sequence, now_ms, type(error), error.message
        )
        if len(self._by_producer) > PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]

    def of_earlier_batch(self, data: Buffer, log: Log, now_ms: int) -> KafkaError | None:
        """Why a batch before this one was refused; None when none is missing because of that."""
        batch = _batch(data)
        known = None if batch is None else self._by_producer.get(batch.producer_id)
        if batch is None or known is None or known.producer_epoch != batch.producer_epoch:
            return None
        if now_ms - known.at_ms >= REFUSED_MS or _is_written(log, batch.producer_id, known):
            del self._by_producer[batch.producer_id]
            return None
        return known.kind(known.message) if _is_before(known.sequence, batch.base_sequence) else None


def _is_written(log: Log | None, producer_id: int, refusal: Refusal) -> bool:
    """Whether what was refused has come again and is in the log."""
    entry = None if log is None else log.producers.producers.get(producer_id)
    if entry is None or entry.producer_epoch != refusal.producer_epoch:
        return False
    return bool(entry.batches) and not _is_before(entry.last_sequence, refusal.sequence)


def _batch(data: Buffer) -> Batch | None:
    """The batch in `data`, if it has a producer and a sequence."""
    view = memoryview(data)
    if len(view) < HEADER_SIZE:
        return None
    batch = Batch(view, 0)
    has_sequence = batch.producer_id > NO_PRODUCER_ID and batch.base_sequence > NO_SEQUENCE
    return batch if batch.magic == MAGIC and has_sequence else None


def _is_before(sequence: int, other: int) -> bool:
    """Whether a sequence comes before another one; they go on with 0 after the largest."""
    return 0 < (other - sequence) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2

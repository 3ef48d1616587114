"""A producer's numbers, under Kafka's names.

Counted for each batch, never for each record. Called by the sender; read by `metrics()` of both faces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.client.producer.accumulator import Accumulator
    from ottla.client.producer.batch import ProducerBatch


class ProducerMetrics:
    """Sums and extremes since the producer was made."""

    __slots__ = (
        "_batch_bytes",
        "_batch_bytes_max",
        "_latency_ms",
        "_latency_ms_max",
        "_queue_ms",
        "_queue_ms_max",
        "_started_ms",
        "_throttle_ms",
        "_throttle_ms_max",
        "batches",
        "bytes",
        "failed",
        "requests",
        "responses",
        "retried",
        "sent",
        "splits",
    )

    def __init__(self, now_ms: int) -> None:
        self._started_ms = now_ms
        self.sent = 0
        self.failed = 0
        self.retried = 0
        self.splits = 0
        self.requests = 0
        self.responses = 0
        self.batches = 0
        self.bytes = 0
        self._batch_bytes = 0
        self._batch_bytes_max = 0
        self._queue_ms = 0
        self._queue_ms_max = 0
        self._latency_ms = 0
        self._latency_ms_max = 0
        self._throttle_ms = 0
        self._throttle_ms_max = 0

    def note_sent(self, batch: ProducerBatch, now_ms: int) -> None:
        """A batch was written."""
        size = batch.size
        self.sent += batch.count
        self.batches += 1
        self.bytes += size
        self._batch_bytes_max = max(self._batch_bytes_max, size)
        queued_ms = batch.drained_ms - batch.created_ms
        self._queue_ms += queued_ms
        self._queue_ms_max = max(self._queue_ms_max, queued_ms)

    def note_latency(self, latency_ms: int, throttle_ms: int) -> None:
        """A request was answered."""
        self.responses += 1
        self._latency_ms += latency_ms
        self._latency_ms_max = max(self._latency_ms_max, latency_ms)
        self._throttle_ms += throttle_ms
        self._throttle_ms_max = max(self._throttle_ms_max, throttle_ms)

    def snapshot(self, accumulator: Accumulator, now_ms: int) -> dict[str, float]:
        """All of them as they are now. Rates are over the life of the producer."""
        seconds = max(now_ms - self._started_ms, 1) / 1000
        return {
            "record-send-total": self.sent,
            "record-send-rate": self.sent / seconds,
            "record-error-total": self.failed,
            "record-error-rate": self.failed / seconds,
            "record-retry-total": self.retried,
            "record-retry-rate": self.retried / seconds,
            "batch-split-total": self.splits,
            "batch-split-rate": self.splits / seconds,
            "batch-size-avg": self.bytes / self.batches if self.batches else 0.0,
            "batch-size-max": self._batch_bytes_max,
            "records-per-request-avg": self.sent / self.responses if self.responses else 0.0,
            "record-queue-time-avg": self._queue_ms / self.batches if self.batches else 0.0,
            "record-queue-time-max": self._queue_ms_max,
            "request-total": self.requests,
            "request-rate": self.requests / seconds,
            "request-latency-avg": self._latency_ms / self.responses if self.responses else 0.0,
            "request-latency-max": self._latency_ms_max,
            "requests-in-flight": self.requests - self.responses,
            "produce-throttle-time-avg": self._throttle_ms / self.responses if self.responses else 0.0,
            "produce-throttle-time-max": self._throttle_ms_max,
            "outgoing-byte-total": self.bytes,
            "outgoing-byte-rate": self.bytes / seconds,
            "buffer-total-bytes": accumulator.memory_max,
            "buffer-available-bytes": accumulator.memory_free,
            "waiting-threads": len(accumulator.waiting),
        }

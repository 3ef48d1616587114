"""A producer's metrics, with Kafka's names: what was sent, how full batches were, how long they waited, what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ottla.client.metrics.metrics import Metrics

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
TIMES = (
    "flush",
    "metadata-wait",
    "txn-init",
    "txn-begin",
    "txn-send-offsets",
    "txn-prepare",
    "txn-commit",
    "txn-abort",
)
"""What a caller waits for, each with the time that was waited in all: `flush-time-ns-total` and so on."""


class ProducerMetrics:
    """Told by the sender, once a batch or a response."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        memory_max: int,
        memory_free: Callable[[], int],
        waiting: Callable[[], int],
        in_flight: Callable[[], int],
        metadata_age_ms: Callable[[float], float],
    ) -> None:
        """What has a value at any moment is asked for it: memory, callers that wait for it, requests, metadata."""
        self._metrics = metrics
        self._topics: dict[str, _TopicMetrics] = {}
        self._batch_size = metrics.series()
        self._compression = metrics.series()
        self._queue_time = metrics.series()
        self._record_size = metrics.series()
        self._records_in_request = metrics.series()
        self._latency = metrics.series()
        self._throttle = metrics.series()
        self._sent = metrics.series()
        self._retried = metrics.series()
        self._failed = metrics.series()
        self._splits = metrics.series()
        self._exhausted = metrics.series()
        self._memory_wait_ns = metrics.series()
        self._waited_ns = dict.fromkeys(TIMES, 0)
        metrics.add_average(self._batch_size, GROUP, "batch-size")
        metrics.add(GROUP, "compression-rate-avg", self._compression.average)
        metrics.add_average(self._queue_time, GROUP, "record-queue-time")
        metrics.add_average(self._record_size, GROUP, "record-size")
        metrics.add(GROUP, "records-per-request-avg", self._records_in_request.average)
        metrics.add_average(self._latency, GROUP, "request-latency")
        metrics.add_average(self._throttle, GROUP, "produce-throttle-time")
        metrics.add_meter(self._sent, GROUP, "record-send")
        metrics.add_meter(self._retried, GROUP, "record-retry")
        metrics.add_meter(self._failed, GROUP, "record-error")
        metrics.add_counter(self._splits, GROUP, "batch-split")
        metrics.add_counter(self._exhausted, GROUP, "buffer-exhausted")
        metrics.add(GROUP, "bufferpool-wait-ratio", lambda now_ms: self._memory_wait_ns.rate(now_ms) / 1e9)
        metrics.add(GROUP, "bufferpool-wait-time-ns-total", lambda now_ms: self._memory_wait_ns.total)
        metrics.add(GROUP, "buffer-total-bytes", lambda now_ms: memory_max)
        metrics.add(GROUP, "buffer-available-bytes", lambda now_ms: memory_free())
        metrics.add(GROUP, "waiting-threads", lambda now_ms: waiting())
        metrics.add(GROUP, "requests-in-flight", lambda now_ms: in_flight())
        metrics.add(GROUP, "metadata-age", lambda now_ms: metadata_age_ms(now_ms) / 1000)
        for time in TIMES:
            metrics.add(GROUP, f"{time}-time-ns-total", partial(self._waited_in_all, time))

    def request_sent(self, batches: Iterable[tuple[str, int, int, float, float, int]]) -> None:
        """A request went out with these batches.

        Of each: topic, records, bytes, compressed size over the plain one, milliseconds it waited, its largest record.
        """
        now_ms = self._metrics.clock_ms()
        all_records = 0
        for topic, records, size, ratio, queued_ms, record_size in batches:
            all_records += records
            self._sent.record(records, now_ms)
            self._batch_size.record(size, now_ms)
            self._compression.record(ratio, now_ms)
            self._queue_time.record(queued_ms, now_ms)
            self._record_size.record(record_size, now_ms)
            of_topic = self._topic(topic)
            of_topic.sent.record(records, now_ms)
            of_topic.bytes.record(size, now_ms)
            of_topic.compression.record(ratio, now_ms)
        self._records_in_request.record(all_records, now_ms)

    def answered(self, latency_ms: float, throttle_ms: float) -> None:
        """A request was answered."""
        now_ms = self._metrics.clock_ms()
        self._latency.record(latency_ms, now_ms)
        self._throttle.record(throttle_ms, now_ms)

    def retried(self, topic: str, records: int) -> None:
        """A batch will be sent again."""
        now_ms = self._metrics.clock_ms()
        self._retried.record(records, now_ms)
        self._topic(topic).retried.record(records, now_ms)

    def failed(self, topic: str, records: int) -> None:
        """Records were given up."""
        now_ms = self._metrics.clock_ms()
        self._failed.record(records, now_ms)
        self._topic(topic).failed.record(records, now_ms)

    def split(self) -> None:
        """A batch was too large and was cut."""
        self._splits.record(1, self._metrics.clock_ms())

    def exhausted(self) -> None:
        """A record was refused because there was no memory in time."""
        self._exhausted.record(1, self._metrics.clock_ms())

    def waited_for_memory(self, wait_ns: int) -> None:
        """A caller waited so long for memory."""
        self._memory_wait_ns.record(wait_ns, self._metrics.clock_ms())

    def waited(self, time: str, wait_ns: int) -> None:
        """A caller waited so long for one of `TIMES`."""
        self._waited_ns[time] += wait_ns

    def _waited_in_all(self, time: str, now_ms: float) -> float:
        return self._waited_ns[time]

    def forget(self, topic: str) -> None:
        """The topic is not sent to any more."""
        if self._topics.pop(topic, None) is not None:
            self._metrics.remove(TOPIC_GROUP, {"topic": topic})

    def _topic(self, topic: str) -> _TopicMetrics:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _TopicMetrics(self._metrics, topic)
        return found


class _TopicMetrics:
    """The same of one topic."""

    __slots__ = ("bytes", "compression", "failed", "retried", "sent")

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.sent = metrics.series()
        self.bytes = metrics.series()
        self.compression = metrics.series()
        self.retried = metrics.series()
        self.failed = metrics.series()
        tags = {"topic": topic}
        metrics.add_meter(self.sent, TOPIC_GROUP, "record-send", tags)
        metrics.add_meter(self.bytes, TOPIC_GROUP, "byte", tags)
        metrics.add(TOPIC_GROUP, "compression-rate", self.compression.average, tags)
        metrics.add_meter(self.retried, TOPIC_GROUP, "record-retry", tags)
        metrics.add_meter(self.failed, TOPIC_GROUP, "record-error", tags)

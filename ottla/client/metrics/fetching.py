"""A consumer's metrics of fetching, with Kafka's names: what was read, how fast, and how far behind it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ottla.client.metrics.metrics import Metrics
from ottla.types import TopicPartition

GROUP = "consumer-fetch-manager-metrics"
SHARE_GROUP = "consumer-share-fetch-manager-metrics"


class FetchMetrics:
    """Told by the fetcher, once a response, and by `poll`, once a partition that records were taken from."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._fetched = _Fetched(metrics, GROUP)
        self._lag = metrics.series()
        self._lead = metrics.series()
        self._topics: dict[str, _Consumed] = {}
        self._partitions: dict[TopicPartition, _PartitionMetrics] = {}
        metrics.add(GROUP, "records-lag-max", self._lag.maximum)
        metrics.add(GROUP, "records-lead-min", self._lead.minimum)

    def answered(self, latency_ms: float, throttle_ms: float) -> None:
        """A fetch was answered."""
        self._fetched.answered(latency_ms, throttle_ms)

    def consumed(self, topics: Iterable[tuple[str, int, int]]) -> None:
        """The records of one fetch were read: of each topic its bytes and its records."""
        now_ms = self._metrics.clock_ms()
        all_bytes = all_records = 0
        for topic, size, records in topics:
            all_bytes += size
            all_records += records
            found = self._topics.get(topic)
            if found is None:
                found = self._topics[topic] = _Consumed(self._metrics, GROUP, {"topic": topic})
            found.record(size, records, now_ms)
        self._fetched.consumed.record(all_bytes, all_records, now_ms)

    def position(self, partition: TopicPartition, *, lag: int, lead: int) -> None:
        """How many records there are still to read, and how many could be lost to retention first."""
        now_ms = self._metrics.clock_ms()
        self._lag.record(lag, now_ms)
        self._lead.record(lead, now_ms)
        found = self._partitions.get(partition)
        if found is not None:
            found.lag.record(lag, now_ms)
            found.lead.record(lead, now_ms)

    def assigned(
        self, partitions: Collection[TopicPartition], preferred_replica: Callable[[TopicPartition], int]
    ) -> None:
        """These are the partitions from now on; the metrics of others end."""
        for partition in self._partitions.keys() - set(partitions):
            del self._partitions[partition]
            self._metrics.remove(GROUP, _tags(partition))
        for partition in partitions:
            if partition not in self._partitions:
                self._partitions[partition] = _PartitionMetrics(self._metrics, partition, preferred_replica)


class ShareFetchMetrics:
    """The same of a share consumer, and what it acknowledged."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._fetched = _Fetched(metrics, SHARE_GROUP)
        self._sent = metrics.series()
        self._failed = metrics.series()
        metrics.add(SHARE_GROUP, "records-per-request-max", self._fetched.consumed.records.maximum)
        metrics.add_meter(self._sent, SHARE_GROUP, "acknowledgements-send")
        metrics.add_meter(self._failed, SHARE_GROUP, "acknowledgements-error")

    def answered(self, latency_ms: float, throttle_ms: float) -> None:
        """A fetch was answered."""
        self._fetched.answered(latency_ms, throttle_ms)

    def consumed(self, size: int, records: int) -> None:
        """The records of one fetch were read."""
        self._fetched.consumed.record(size, records, self._metrics.clock_ms())

    def acknowledged(self, records: int) -> None:
        """Acknowledgements were sent."""
        self._sent.record(records, self._metrics.clock_ms())

    def refused(self, records: int) -> None:
        """Acknowledgements did not count."""
        self._failed.record(records, self._metrics.clock_ms())


class _Fetched:
    """Fetches and what came with them."""

    def __init__(self, metrics: Metrics, group: str) -> None:
        self._metrics = metrics
        self._latency = metrics.series()
        self._throttle = metrics.series()
        self.consumed = _Consumed(metrics, group, {})
        metrics.add_average(self._latency, group, "fetch-latency")
        metrics.add_counter(self._latency, group, "fetch")
        metrics.add_average(self._throttle, group, "fetch-throttle-time")

    def answered(self, latency_ms: float, throttle_ms: float) -> None:
        now_ms = self._metrics.clock_ms()
        self._latency.record(latency_ms, now_ms)
        self._throttle.record(throttle_ms, now_ms)


class _Consumed:
    """Bytes and records, of all topics or of one."""

    __slots__ = ("_bytes", "records")

    def __init__(self, metrics: Metrics, group: str, tags: dict[str, str]) -> None:
        self._bytes = metrics.series()
        self.records = metrics.series()
        metrics.add_average(self._bytes, group, "fetch-size", tags)
        metrics.add_meter(self._bytes, group, "bytes-consumed", tags)
        metrics.add(group, "records-per-request-avg", self.records.average, tags)
        metrics.add_meter(self.records, group, "records-consumed", tags)

    def record(self, size: int, records: int, now_ms: float) -> None:
        self._bytes.record(size, now_ms)
        self.records.record(records, now_ms)


class _PartitionMetrics:
    """How far one partition is behind, and where it is read from."""

    __slots__ = ("lag", "lead")

    def __init__(
        self, metrics: Metrics, partition: TopicPartition, preferred_replica: Callable[[TopicPartition], int]
    ) -> None:
        self.lag = metrics.series()
        self.lead = metrics.series()
        tags = _tags(partition)
        metrics.add(GROUP, "records-lag", lambda now_ms: self.lag.last, tags)
        metrics.add_average(self.lag, GROUP, "records-lag", tags)
        metrics.add(GROUP, "records-lead", lambda now_ms: self.lead.last, tags)
        metrics.add(GROUP, "records-lead-avg", self.lead.average, tags)
        metrics.add(GROUP, "records-lead-min", self.lead.minimum, tags)
        metrics.add(GROUP, "preferred-read-replica", lambda now_ms: preferred_replica(partition), tags)


def _tags(partition: TopicPartition) -> dict[str, str]:
    return {"topic": partition.topic, "partition": str(partition.partition)}

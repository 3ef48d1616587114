"""The values that are read when somebody looks: topics, partitions, logs, the cluster, under Kafka's names.

`publish_gauges` adds them to the registry once. A page of a node with thousands of partitions costs milliseconds, so
they are read at scrapes only, and nothing on the way of a request knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.metadata import METADATA_VERSION
from ottla.replica import Partition, TopicStats
from ottla.server.broker import BrokerServices
from ottla.server.group_gauges import publish_group_gauges
from ottla.server.metrics import Metrics, Tags
from ottla.server.node_context import NodeContext
from ottla.server.transaction_gauges import publish_transaction_gauges
from ottla.storage import CleanerStats, LogDir

if TYPE_CHECKING:
    from ottla.metadata import Gauge

_TOPIC = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="
_CLEANER, _CLEANER_MANAGER = "kafka.log:type=LogCleaner,name=", "kafka.log:type=LogCleanerManager,name="
_DIRECTORIES = "kafka.log:type=LogManager,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="
RUNNING = 3
"""The state of a broker that serves."""

_OF_TOPICS = {
    "BytesInPerSec": "bytes_in",
    "BytesOutPerSec": "bytes_out",
    "MessagesInPerSec": "messages_in",
    "TotalFetchRequestsPerSec": "fetch_requests",
    "TotalProduceRequestsPerSec": "produce_requests",
}
"""Told for each topic and for all together."""
_OF_ALL = {
    "BytesRejectedPerSec": "bytes_rejected",
    "FailedFetchRequestsPerSec": "failed_fetch_requests",
    "FailedProduceRequestsPerSec": "failed_produce_requests",
    "ReplicationBytesInPerSec": "replication_bytes_in",
    "ReplicationBytesOutPerSec": "replication_bytes_out",
}

REFUSED_RECORDS = (
    "InvalidMagicNumberRecordsPerSec",
    "InvalidMessageCrcRecordsPerSec",
    "InvalidOffsetOrSequenceRecordsPerSec",
    "NoKeyCompactedTopicRecordsPerSec",
)
"""Counted by `produce`, by the reason of the refusal."""

Samples = Iterator[tuple[Tags, float]]


def publish_gauges(
    node: NodeContext, broker: BrokerServices | None, collect: Callable[[], Iterable[Gauge]] | None
) -> None:
    """Add what this node can tell about itself to its registry: as a node, as a broker if it is one, and what its
    quorum and its controller `collect`. A name without a group is one of `kafka.controller:type=KafkaController`."""
    metrics = node.metrics
    if collect is not None:
        _publish_collected(metrics, collect)
    _publish_node(node)
    expired = "kafka.network:type=SocketServer,name=ExpiredConnectionsKilledCount"
    metrics.gauge(expired, lambda: metrics.expired_connection_count)
    if broker is not None:
        _publish_broker(broker)


def _publish_broker(broker: BrokerServices) -> None:
    _publish_topics(broker)
    _publish_partitions(broker)
    _publish_directories(broker)
    _publish_cleaner(broker)
    publish_group_gauges(broker)
    publish_transaction_gauges(broker)
    metrics, sessions = broker.node.metrics, broker.fetch_sessions
    metrics.gauge(f"{_SESSIONS}NumIncrementalFetchSessions", lambda: len(sessions))
    metrics.gauge(f"{_SESSIONS}NumIncrementalFetchPartitionsCached", lambda: sessions.partition_count)
    evictions = f"{_SESSIONS}IncrementalFetchSessionEvictionsPerSec"
    metrics.family(evictions, lambda: [({}, sessions.eviction_count)], kind="counter")
    metrics.gauge("kafka.server:type=KafkaServer,name=BrokerState", lambda: RUNNING)
    for name in REFUSED_RECORDS:
        metrics.counter(f"{_TOPIC}{name}")


def _publish_topics(broker: BrokerServices) -> None:
    replicas = broker.replicas

    def samples(attribute: str, *, by_topic: bool) -> Callable[[], Samples]:
        def read() -> Samples:
            yield {}, getattr(replicas.all_stats(), attribute)
            if by_topic:
                for topic, stats in replicas.topic_stats().items():
                    yield {"topic": topic}, _value(stats, attribute)

        return read

    for name, attribute in {**_OF_TOPICS, **_OF_ALL}.items():
        broker.node.metrics.family(f"{_TOPIC}{name}", samples(attribute, by_topic=name in _OF_TOPICS), kind="counter")


def _value(stats: TopicStats, attribute: str) -> int:
    value: int = getattr(stats, attribute)
    return value


def _publish_partitions(broker: BrokerServices) -> None:
    replicas, metrics, clock = broker.replicas, broker.node.metrics, broker.node.world.clock

    def of_logs(read: Callable[[Partition], float | None]) -> Callable[[], Samples]:
        def samples() -> Samples:
            for partition in replicas.partitions():
                value = read(partition)
                if value is not None:
                    yield {"topic": partition.topic, "partition": str(partition.index)}, value

        return samples

    def count(matches: Callable[[Partition], bool]) -> Callable[[], int]:
        return lambda: sum(1 for partition in replicas.partitions() if matches(partition))

    log, cluster = "kafka.log:type=Log,name=", "kafka.cluster:type=Partition,name="
    metrics.family(f"{log}Size", of_logs(lambda one: one.log.size if one.log else None))
    metrics.family(f"{log}LogEndOffset", of_logs(lambda one: one.log.log_end_offset if one.log else None))
    metrics.family(f"{log}LogStartOffset", of_logs(lambda one: one.log.log_start_offset if one.log else None))
    metrics.family(f"{log}NumLogSegments", of_logs(lambda one: len(one.log.segments) if one.log else None))
    metrics.family(f"{cluster}ReplicasCount", of_logs(lambda one: len(one.replicas) if one.is_leader else 0))
    metrics.family(f"{cluster}InSyncReplicasCount", of_logs(lambda one: len(one.isr) if one.is_leader else 0))
    metrics.family(f"{cluster}UnderReplicated", of_logs(lambda one: int(_is_under_replicated(one))))
    metrics.family(f"{cluster}UnderMinIsr", of_logs(lambda one: int(_is_under_min_isr(one))))
    metrics.family(f"{cluster}AtMinIsr", of_logs(lambda one: int(_is_at_min_isr(one))))
    metrics.family(f"{cluster}LastStableOffsetLag", of_logs(_stable_lag))
    metrics.gauge(f"{_REPLICAS}PartitionCount", count(lambda one: True))
    metrics.gauge(f"{_REPLICAS}LeaderCount", count(lambda one: one.is_leader))
    metrics.gauge(f"{_REPLICAS}OfflineReplicaCount", count(lambda one: not one.is_serving))
    metrics.gauge(f"{_REPLICAS}UnderReplicatedPartitions", count(_is_under_replicated))
    metrics.gauge(f"{_REPLICAS}UnderMinIsrPartitionCount", count(_is_under_min_isr))
    metrics.gauge(f"{_REPLICAS}AtMinIsrPartitionCount", count(_is_at_min_isr))
    metrics.gauge(f"{_REPLICAS}ProducerIdCount", lambda: sum(map(_producer_count, replicas.partitions())))
    metrics.gauge(
        f"{_REPLICAS}PartitionsWithLateTransactionsCount",
        count(lambda one: one.log is not None and one.log.producers.has_late_transaction(clock.now_ms())),
    )
    metrics.gauge(f"{_REPLICAS}ReassigningPartitions", lambda: _reassigning_count(broker))
    isr = replicas.isr_stats
    metrics.family(f"{_REPLICAS}IsrShrinksPerSec", lambda: [({}, isr.shrink_count)], kind="counter")
    metrics.family(f"{_REPLICAS}IsrExpandsPerSec", lambda: [({}, isr.expand_count)], kind="counter")
    metrics.family(f"{_REPLICAS}FailedIsrUpdatesPerSec", lambda: [({}, isr.failed_update_count)], kind="counter")
    _publish_fetchers(broker)


def _publish_fetchers(broker: BrokerServices) -> None:
    replicas, name = broker.replicas, "kafka.server:type=ReplicaFetcherManager,name="

    def gauge(attribute: str) -> Callable[[], float]:
        return lambda: 0 if replicas.fetchers is None else getattr(replicas.fetchers, attribute)

    broker.node.metrics.gauge(f"{name}MaxLag", gauge("max_lag"), clientId="Replica")
    broker.node.metrics.gauge(f"{name}FailedPartitionsCount", gauge("failed_count"), clientId="Replica")


def _is_under_replicated(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: Partition) -> bool:
    return partition.is_leader and partition.log is not None and partition.is_under_min_isr


def _is_at_min_isr(partition: Partition) -> bool:
    return partition.is_leader and partition.log is not None and len(partition.isr) == partition.min_isr


def _stable_lag(partition: Partition) -> float | None:
    return None if partition.log is None else partition.log.high_watermark - partition.log.last_stable_offset


def _producer_count(partition: Partition) -> int:
    return 0 if partition.log is None else len(partition.log.producers.producers)


def _reassigning_count(broker: BrokerServices) -> int:
    """The partitions that this node leads and that are on their way to other replicas."""
    return sum(
        partition.leader == broker.node.node_id and bool(partition.adding or partition.removing)
        for topic in broker.node.image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def _publish_directories(broker: BrokerServices) -> None:
    replicas, metrics = broker.replicas, broker.node.metrics

    def of_directories(read: Callable[[LogDir], bool]) -> Callable[[], Samples]:
        def samples() -> Samples:
            for directory in replicas.logs.directories:
                yield {"logDirectory": directory.path}, int(read(directory))

        return samples

    def is_cordoned(directory: LogDir) -> bool:
        return directory.path in replicas.cordoned

    directories = replicas.logs.directories
    metrics.gauge(f"{_DIRECTORIES}OfflineLogDirectoryCount", lambda: sum(one.is_offline for one in directories))
    metrics.gauge(f"{_DIRECTORIES}CordonedLogDirectoryCount", lambda: sum(map(is_cordoned, directories)))
    metrics.family(f"{_DIRECTORIES}LogDirectoryOffline", of_directories(lambda one: one.is_offline))
    metrics.family(f"{_DIRECTORIES}LogDirectoryCordoned", of_directories(is_cordoned))


def _publish_cleaner(broker: BrokerServices) -> None:
    logs, metrics = broker.replicas.logs, broker.node.metrics
    cleaner = logs.cleaner
    if cleaner is None:
        return

    def of_last_run(read: Callable[[CleanerStats], float]) -> Callable[[], int]:
        return lambda: 0 if cleaner.last_stats is None else int(read(cleaner.last_stats))

    def of_directories(read: Callable[[LogDir], int]) -> Callable[[], Samples]:
        return lambda: (({"logDirectory": one.path}, read(one)) for one in logs.directories)

    metrics.gauge(
        f"{_CLEANER}cleaner-recopy-percent",
        of_last_run(lambda stats: 100 * stats.bytes_written / max(1, stats.bytes_read)),
    )
    metrics.gauge(
        f"{_CLEANER}max-buffer-utilization-percent", of_last_run(lambda stats: 100 * stats.buffer_utilization)
    )
    metrics.gauge(f"{_CLEANER}max-clean-time-secs", of_last_run(lambda stats: stats.elapsed_seconds))
    metrics.gauge(f"{_CLEANER}max-compaction-delay-secs", lambda: cleaner.compaction_delay_ms // 1000)
    metrics.gauge(f"{_CLEANER_MANAGER}max-dirty-percent", lambda: int(100 * cleaner.dirtiest_ratio))
    metrics.gauge(f"{_CLEANER_MANAGER}time-since-last-run-ms", lambda: cleaner.idle_ms)
    metrics.family(f"{_CLEANER_MANAGER}uncleanable-bytes", of_directories(cleaner.uncleanable_bytes))
    metrics.family(
        f"{_CLEANER_MANAGER}uncleanable-partitions-count", of_directories(lambda one: len(cleaner.uncleanable(one)))
    )


def _publish_collected(metrics: Metrics, collect: Callable[[], Iterable[Gauge]]) -> None:
    def samples() -> Iterator[tuple[str, str, Tags, float]]:
        for gauge in collect():
            name = gauge.name if ":" in gauge.name else f"{_CONTROLLER}{gauge.name}"
            yield name, gauge.kind, gauge.tags, gauge.value

    metrics.collector(samples)


def _publish_node(node: NodeContext) -> None:
    metrics = node.metrics
    metrics.gauge(f"{_CONTROLLER}LastAppliedRecordTimestamp", lambda: node.image.timestamp_ms)
    prefix = "kafka.server:type=node-metrics,name="
    for name, place in (("minimum-supported-level", 0), ("maximum-supported-level", 1)):
        metrics.family(
            f"{prefix}{name}",
            lambda place=place: [  # type: ignore[misc]
                ({"feature_name": feature}, levels[place]) for feature, levels in node.supported_features.items()
            ],
        )
    loader = "kafka.server:type=MetadataLoader,name="
    metrics.gauge(f"{loader}CurrentMetadataVersion", lambda: node.image.features.get(METADATA_VERSION, 0))
    metrics.gauge(f"{loader}CurrentControllerId", lambda: node.quorum.leader_id)
    metrics.family(
        f"{loader}FinalizedLevel",
        lambda: [({"featureName": name}, level) for name, level in node.image.features.items()],
    )

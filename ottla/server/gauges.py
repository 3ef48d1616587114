"""The values that are read when somebody looks: topics, partitions, logs, the cluster, under Kafka's names.

`publish_gauges` adds them to the registry once. A page of a node with thousands of partitions costs milliseconds, so
they are read at scrapes only, and nothing on the way of a request knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.metadata import METADATA_VERSION
from ottla.replica import Partition, TopicStats
from ottla.server.broker import Broker
from ottla.server.metrics import Tags

_TOPIC = "kafka.server:type=BrokerTopicMetrics,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_CONTROLLER = "kafka.controller:type=KafkaController,name="
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
    "ReplicationBytesOutPerSec": "replication_bytes_out",
}

Samples = Iterator[tuple[Tags, float]]


def publish_gauges(broker: Broker) -> None:
    """Add what this node can tell about itself to its registry."""
    _publish_topics(broker)
    _publish_partitions(broker)
    _publish_cluster(broker)
    metrics, sessions = broker.metrics, broker.fetch_sessions
    metrics.gauge(f"{_SESSIONS}NumIncrementalFetchSessions", lambda: len(sessions))
    metrics.gauge(f"{_SESSIONS}NumIncrementalFetchPartitionsCached", lambda: sessions.partition_count)
    evictions = f"{_SESSIONS}IncrementalFetchSessionEvictionsPerSec"
    metrics.family(evictions, lambda: [({}, sessions.eviction_count)], kind="counter")
    metrics.gauge("kafka.server:type=KafkaServer,name=BrokerState", lambda: RUNNING)


def _publish_topics(broker: Broker) -> None:
    replicas = broker.replicas

    def samples(attribute: str, *, by_topic: bool) -> Callable[[], Samples]:
        def read() -> Samples:
            yield {}, getattr(replicas.all_stats(), attribute)
            if by_topic:
                for topic, stats in replicas.topic_stats().items():
                    yield {"topic": topic}, _value(stats, attribute)

        return read

    for name, attribute in {**_OF_TOPICS, **_OF_ALL}.items():
        broker.metrics.family(f"{_TOPIC}{name}", samples(attribute, by_topic=name in _OF_TOPICS), kind="counter")


def _value(stats: TopicStats, attribute: str) -> int:
    value: int = getattr(stats, attribute)
    return value


def _publish_partitions(broker: Broker) -> None:
    replicas, metrics = broker.replicas, broker.metrics

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
    metrics.gauge(f"{_REPLICAS}PartitionCount", count(lambda one: True))
    metrics.gauge(f"{_REPLICAS}LeaderCount", count(lambda one: one.is_leader))
    metrics.gauge(f"{_REPLICAS}OfflineReplicaCount", count(lambda one: not one.is_serving))
    metrics.gauge(f"{_REPLICAS}UnderReplicatedPartitions", count(_is_under_replicated))
    metrics.gauge(f"{_REPLICAS}UnderMinIsrPartitionCount", count(_is_under_min_isr))
    metrics.gauge(
        "kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
        lambda: sum(directory.is_offline for directory in replicas.logs.directories),
    )


def _is_under_replicated(partition: Partition) -> bool:
    return partition.is_leader and len(partition.isr) < len(partition.replicas)


def _is_under_min_isr(partition: Partition) -> bool:
    return partition.is_leader and partition.log is not None and partition.is_under_min_isr


def _publish_cluster(broker: Broker) -> None:
    metrics = broker.metrics

    def partition_count(*, only_offline: bool = False) -> int:
        return sum(
            1
            for topic in broker.image.topics.by_id.values()
            for partition in topic.partitions.values()
            if not only_offline or partition.leader < 0
        )

    def broker_count(*, is_fenced: bool) -> int:
        return sum(one.is_fenced is is_fenced for one in broker.image.brokers.values())

    metrics.gauge(f"{_CONTROLLER}ActiveControllerCount", lambda: int(broker.controller.leader_id == broker.node_id))
    metrics.gauge(f"{_CONTROLLER}GlobalTopicCount", lambda: len(broker.image.topics.by_id))
    metrics.gauge(f"{_CONTROLLER}GlobalPartitionCount", partition_count)
    metrics.gauge(f"{_CONTROLLER}OfflinePartitionsCount", lambda: partition_count(only_offline=True))
    metrics.gauge(f"{_CONTROLLER}ActiveBrokerCount", lambda: broker_count(is_fenced=False))
    metrics.gauge(f"{_CONTROLLER}FencedBrokerCount", lambda: broker_count(is_fenced=True))
    metrics.gauge(f"{_CONTROLLER}LastAppliedRecordOffset", lambda: broker.image.offset)
    loader = "kafka.server:type=MetadataLoader,name="
    metrics.gauge(f"{loader}CurrentMetadataVersion", lambda: broker.image.features.get(METADATA_VERSION, 0))
    metrics.gauge(f"{loader}CurrentControllerId", lambda: broker.controller.leader_id)
    metrics.family(
        f"{loader}FinalizedLevel",
        lambda: [({"featureName": name}, level) for name, level in broker.image.features.items()],
    )

"""Every metric of a Kafka 4.3 node is served, or stands here with the reason why not."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ottla.node import Node
from ottla.server.gauges import publish_gauges
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.golden import GOLDEN
from tests.unit.server.nodes import request_frame
from tests.unit.server.whole_node import Fed, with_node

JVM = "the value is of a JVM or of its metrics libraries"
QUEUES = "Ottla has no queue between network and handlers: a request is handled where it is read"
CHANNELS = "the links between nodes count neither their connections nor their bytes yet"
COORDINATORS = "the coordinators publish theirs when they are wired (issue 5)"
QUOTAS = "quotas are not enforced yet"
SECURITY = "authentication is not served yet"
RATES = "a rate is left to whoever scrapes: the total is served"
TEXT = "the value is text, which Prometheus has no form for"
THREADS = "one event loop does the work, so no thread can be idle or dead by itself"
NOT_COUNTED = "nothing in Ottla can lead to it"
POOL = "the memory of requests is bounded per connection, not by a pool"
LATER = "not kept yet"

NOT_SERVED: dict[str, str] = {
    r"kafka\.controller:type=ControllerEventManager,.*": QUEUES,
    r"kafka\.controller:type=KafkaController,name=MetadataErrorCount": NOT_COUNTED,
    r"kafka\.controller:type=KafkaController,name=IgnoredStaticVoters": LATER,
    r"kafka\.server:type=share-coordinator-metrics,.*": COORDINATORS,
    r"kafka\.server:type=transaction-coordinator-metrics,name=partition-load-time-(avg|max)": LATER,
    r"kafka\.server:type=group-coordinator-metrics,name=share-group-rebalance-count": COORDINATORS,
    r"kafka\.server:type=group-coordinator-metrics,name=.*-rate": RATES,
    r"kafka\.server:type=group-coordinator-metrics,name=(batch|event)-.*": QUEUES,
    r"kafka\.server:type=group-coordinator-metrics,name=(background-.*|thread-idle-ratio-avg)": THREADS,
    r"kafka\.server:type=group-coordinator-metrics,name=partition-load-time-(avg|max)": LATER,
    r"kafka\.server:type=(AddPartitionsManager-channel|txn-marker-channel|Persister-channel)-?\w*,.*": CHANNELS,
    r"kafka\.server:type=(ShareGroupMetrics|ShareSessionCache),.*": COORDINATORS,
    r"kafka\.server:type=BrokerTopicMetrics,name=\w*Share\w*": COORDINATORS,
    r"kafka\.server:type=BrokerTopicMetrics,name=(Fetch|Produce)MessageConversionsPerSec": NOT_COUNTED,
    r"kafka\.server:type=BrokerTopicMetrics,name=Reassignment\w*": LATER,
    r"kafka\.server:type=ReplicaAlterLogDirsManager,.*": "replicas do not move between directories yet",
    r"kafka\.server:type=ReplicaFetcherManager,name=DeadThreadCount": THREADS,
    r"kafka\.server:type=ReplicaFetcherManager,name=MinFetchRate": RATES,
    r"kafka\.server:type=(Fetch|Produce|Request|ControllerMutation),.*": QUOTAS,
    r"kafka\.network:type=RequestChannel,.*": QUEUES,
    r"kafka\.network:type=(Acceptor|Processor),.*": THREADS,
    r"kafka\.network:type=SocketServer,name=MemoryPool\w+": POOL,
    r"kafka\.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent": THREADS,
    r"kafka\.network:type=RequestMetrics,name=(RequestQueue|ResponseQueue|ResponseSend|Remote)TimeMs": QUEUES,
    r"kafka\.network:type=RequestMetrics,name=(MessageConversionsTimeMs|TemporaryMemoryBytes)": NOT_COUNTED,
    r"kafka\.network:type=RequestMetrics,name=ThrottleTimeMs": QUOTAS,
    r"kafka\.log:type=Log,name=RetentionSizeInPercent": "only remote storage has a use for it",
    r"kafka\.log:type=LogCleaner,name=DeadThreadCount": THREADS,
    r"kafka\.log:type=LogFlushStats,.*": LATER,
    r"kafka\.server:type=(KafkaServer|ControllerServer),name=ClusterId": TEXT,
    r"kafka\.server:type=(KafkaServer|ControllerServer),name=(linux-disk-\w+-bytes|yammer-metrics-count)": JVM,
    r"kafka\.server:type=(app-info|kafka-metrics-count),.*": JVM,
    r"kafka:type=kafka\.Log4jController.*": JVM,
    r"kafka\.utils:type=Throttler,.*": LATER,
    r"kafka\.server:type=(alter-partition|directory-assignments|forwarding)-metrics,.*": CHANNELS,
    r"kafka\.server:type=broker-metadata-metrics,name=metadata-(apply|load)-error-count": "such an error ends the node",
    r"kafka\.server:type=broker-metadata-metrics,name=ignored-static-voters": LATER,
    r"kafka\.server:type=(heartbeat|raft-channel|registration)-metrics,.*": CHANNELS,
    r"kafka\.server:type=(NodeToController\S*|ForwardingManager),.*": CHANNELS,
    r"kafka\.server:type=KafkaRequestHandlerPool,.*": THREADS,
    r"kafka\.server:type=(DelayedFetchMetrics|DelayedProduceMetrics|DelayedOperationPurgatory),.*": LATER,
    r"kafka\.server:type=(BrokerMetadataListener|SnapshotEmitter),.*": LATER,
    r"kafka\.server:type=client-metrics,.*": LATER,
    r"kafka\.server:type=raft-metrics,name=(append-records|fetch-records)-rate": RATES,
    r"kafka\.server:type=raft-metrics,name=current-(state|vote-directory-id)": TEXT,
    r"kafka\.server:type=raft-metrics,name=poll-idle-ratio-avg": THREADS,
    r"kafka\.server:type=MetadataLoader,name=(AvgIdleRatio|HandleLoadSnapshotCount)": LATER,
    r"kafka\.server:type=socket-server-metrics,name=.*(reauthentication|authentication).*": SECURITY,
    r"kafka\.server:type=socket-server-metrics,name=MemoryPool\w+": POOL,
    r"kafka\.server:type=socket-server-metrics,name=(io-|select-).*": THREADS,
    r"kafka\.server:type=socket-server-metrics,name=(request|response)-.*": "RequestMetrics has them, by API",
    r"kafka\.server:type=socket-server-metrics,name=.*-rate": RATES,
    r"kafka\.server:type=socket-server-metrics,name=network-io-total": "the sum of incoming and outgoing bytes",
    r"kafka\.server:type=socket-server-metrics,name=connections": LATER,
}
"""Patterns of names, each with the reason. A name is Kafka's, with the attribute where a bean has several."""


def kafkas_names() -> set[str]:
    """One name for each metric of the list; the attributes of a yammer metric are forms of one value."""
    names = set()
    for line in (GOLDEN / "kafka-facts" / "metrics.txt").read_text().splitlines():
        bean, _, attributes = line.split(" | ")
        if ",name=" in bean:
            names.add(bean)
        else:
            names.update(f"{bean},name={attribute}" for attribute in attributes.strip("[]").split(", "))
    return names


def served_names(directory: Path) -> list[str]:
    """What a node shows that has a topic and has refused a request."""

    async def test(node: Node) -> list[str]:
        await node.create_topics([("orders", 1)])
        fed = Fed(node)
        fed.feed(request_frame(ApiVersionsRequest("", ""), 3))
        assert fed.stream.sent_bytes > 0, ApiVersionsResponse
        publish_gauges(node.context, node.broker, node.collect_gauges)
        return node.context.metrics.names()

    return with_node(directory, test)


def test_every_metric_of_kafka_is_served_or_has_a_reason_not_to_be(tmp_path: Path) -> None:
    served = set(served_names(tmp_path))
    known = kafkas_names()
    reasons = {name: [p for p in NOT_SERVED if re.fullmatch(p, name)] for name in sorted(known)}
    assert [name for name in sorted(known - served) if not reasons[name]] == []
    assert [name for name in sorted(known & served) if reasons[name]] == [], "served, and said not to be"
    used = Counter(pattern for patterns in reasons.values() for pattern in patterns)
    assert [pattern for pattern in NOT_SERVED if not used[pattern]] == [], "no metric is meant"


def test_no_value_is_told_twice(tmp_path: Path) -> None:
    async def test(node: Node) -> str:
        publish_gauges(node.context, node.broker, node.collect_gauges)
        return node.context.metrics.exposition()

    page = with_node(tmp_path, test)
    assert "kafka_controller_kafkacontroller_activecontrollercount 1\n" in page
    assert 'kafka_controller_kafkacontroller_brokerregistrationstate{broker="1"} 30\n' in page
    assert "kafka_controller_kafkacontroller_activebrokercount 1\n" in page
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert [line for line, count in Counter(lines).items() if count > 1] == []

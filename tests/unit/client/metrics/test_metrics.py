"""A client's metrics: the names and the numbers are Kafka's, held against its own classes."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from random import Random

import pytest

from ottla.client.metrics import (
    CoordinatorMetrics,
    FetchMetrics,
    HeartbeatMetrics,
    MetricName,
    Metrics,
    NetworkMetrics,
    PollMetrics,
    ProducerMetrics,
    Series,
    ShareFetchMetrics,
)
from ottla.client.metrics.network import NODES_MAX
from ottla.client.metrics.polling import SHARE_GROUP
from ottla.types import TopicPartition
from tests.support.kafka import run_java

ORACLE = Path(__file__).parent / "MetricsOracle.java"

# What Kafka counts and Ottla does not, by how the name begins.
NOT_MEASURED = {
    "io-": "the event loop waits for all clients at once: no client has a share of it",
    "select-": "the same",
    "failed-authentication": "SASL is not served yet",
    "failed-reauthentication": "SASL is not served yet",
    "successful-": "SASL is not served yet",
    "reauthentication": "SASL is not served yet",
    "application-event": "there are no queues between a caller and a network thread",
    "background-event": "the same",
    "unsent-requests": "the same",
    "time-between-network-thread-poll": "the same",
}
NOT_MEASURED_GROUPS = {"app-info", "kafka-metrics-count"}
OF_A_NODE = "-node-metrics"
"""They come with the first connection, which Kafka's client may or may not have begun when it is asked."""


class Clock:
    now_ms = 1000.0

    def __call__(self) -> float:
        return self.now_ms


def producer_metrics(metrics: Metrics) -> ProducerMetrics:
    return ProducerMetrics(
        metrics,
        memory_max=100,
        memory_free=lambda: 60,
        waiting=lambda: 2,
        in_flight=lambda: 3,
        metadata_age_ms=lambda now_ms: 5000,
    )


def consumer_parts(metrics: Metrics, *, is_classic: bool) -> None:
    NetworkMetrics(metrics, "consumer")
    FetchMetrics(metrics)
    PollMetrics(metrics)
    CoordinatorMetrics(metrics, assigned=lambda: 0, is_classic=is_classic)


def share_parts(metrics: Metrics) -> None:
    NetworkMetrics(metrics, "consumer")
    ShareFetchMetrics(metrics)
    PollMetrics(metrics, SHARE_GROUP)
    HeartbeatMetrics(metrics)


def producer_parts(metrics: Metrics) -> None:
    NetworkMetrics(metrics, "producer")
    producer_metrics(metrics)


KINDS: dict[str, Callable[[Metrics], object]] = {
    "producer": producer_parts,
    "classic": lambda metrics: consumer_parts(metrics, is_classic=True),
    "consumer": lambda metrics: consumer_parts(metrics, is_classic=False),
    "share": share_parts,
    "admin": lambda metrics: NetworkMetrics(metrics, "admin-client"),
}


@pytest.mark.java
def test_every_metric_of_kafkas_clients_is_here_or_has_a_reason_not_to_be() -> None:
    done = run_java(str(ORACLE), ["names"])
    assert done.returncode == 0, done.stderr
    kafkas: dict[str, set[tuple[str, str]]] = {kind: set() for kind in KINDS}
    for line in done.stdout.splitlines():
        kind, group, name = line.split(" ")
        if (
            group not in NOT_MEASURED_GROUPS
            and not group.endswith(OF_A_NODE)
            and not name.startswith(tuple(NOT_MEASURED))
        ):
            kafkas[kind].add((group, name))
    for kind, add in KINDS.items():
        metrics = Metrics("c", Clock())
        add(metrics)
        assert {(one.group, one.name) for one in metrics.names()} == kafkas[kind], kind


@pytest.mark.java
def test_rates_averages_and_extremes_are_those_of_kafkas_statistics() -> None:
    """Once something was recorded: in Kafka a first look begins a window, here it changes nothing."""
    random = Random(3)
    commands: list[str] = []
    ours: list[list[float]] = []
    for _ in range(60):
        window_ms, count = random.choice([10, 1000, 30_000]), random.randint(1, 5)
        commands.append(f"new {window_ms} {count}")
        series = Series(window_ms=window_ms, window_count=count)
        now_ms = 1_000_000
        for _ in range(random.randint(1, 60)):
            now_ms += random.choice([0, 1, window_ms // 3, window_ms, 3 * window_ms, 10 * window_ms])
            if not series.count or random.random() < 0.7:
                value = random.randint(-5, 100)
                commands.append(f"record {value} {now_ms}")
                series.record(value, now_ms)
            else:
                commands.append(f"read {now_ms}")
                reads = (series.rate, series.count_rate, series.average, series.maximum, series.minimum)
                ours.append([*(read(now_ms) for read in reads), series.total])
    done = run_java(str(ORACLE), [], stdin="\n".join(commands))
    assert done.returncode == 0, done.stderr
    kafkas = [[float(word) for word in line.split(" ")] for line in done.stdout.splitlines()]
    assert len(ours) == len(kafkas) > 300
    for our, kafka in zip(ours, kafkas, strict=True):
        assert our == pytest.approx(kafka, nan_ok=True)


def test_a_series_without_values_has_no_average_and_a_rate_of_nothing() -> None:
    series = Series()
    assert series.rate(0) == series.count_rate(0) == 0
    assert isnan(series.average(0))
    assert isnan(series.maximum(0))
    assert isnan(series.minimum(0))


def test_old_values_are_forgotten_and_totals_are_not() -> None:
    series = Series(window_ms=1000, window_count=2)
    series.record(10, 0)
    assert (series.average(1999), series.maximum(1999)) == (10, 10)
    assert isnan(series.average(2000))
    assert (series.count, series.total, series.last) == (1, 10, 10)


def test_a_producers_numbers_are_of_all_topics_and_of_each() -> None:
    clock = Clock()
    metrics = Metrics("p", clock)
    producer = producer_metrics(metrics)
    producer.request_sent([("a", 10, 1000, 0.5, 4.0, 90), ("b", 2, 100, 1.0, 6.0, 50)])
    producer.answered(12, 3)
    producer.retried("a", 10)
    producer.failed("b", 2)
    producer.split()
    producer.waited("flush", 77)
    producer.waited_for_memory(15_000_000)
    clock.now_ms += 1000
    found = metrics.snapshot()
    assert found.value("record-send-total") == 12
    assert found.value("record-send-total", tags={"topic": "a"}) == 10
    assert found.value("byte-total", "producer-topic-metrics", {"topic": "b"}) == 100
    assert found.value("batch-size-avg") == 550
    assert found.value("batch-size-max") == 1000
    assert found.value("compression-rate-avg") == 0.75
    assert found.value("record-queue-time-max") == 6
    assert found.value("records-per-request-avg") == 12
    assert found.value("request-latency-max") == 12
    assert found.value("produce-throttle-time-avg") == 3
    assert found.value("record-retry-total") == 10
    assert found.value("record-error-total", tags={"topic": "b"}) == 2
    assert found.value("batch-split-total") == 1
    assert found.value("flush-time-ns-total") == 77
    assert found.value("buffer-available-bytes") == 60
    assert found.value("waiting-threads") == 2
    assert found.value("metadata-age") == 5
    assert found.value("record-send-rate") == pytest.approx(12 / 31), "over a second and a window that was not yet"
    name = MetricName("record-send-total", "producer-topic-metrics", (("client-id", "p"), ("topic", "a")))
    assert found[name] == 10
    assert name.tag("topic") == "a"
    producer.forget("a")
    with pytest.raises(KeyError):
        metrics.snapshot().value("record-send-total", tags={"topic": "a"})


def test_a_consumers_partitions_have_metrics_as_long_as_they_are_assigned() -> None:
    metrics = Metrics("c", Clock())
    fetch = FetchMetrics(metrics)
    one, two = TopicPartition("t", 0), TopicPartition("t.x", 1)
    fetch.assigned([one, two], lambda partition: 7 if partition == one else -1)
    fetch.answered(20, 0)
    fetch.consumed([("t", 500, 5), ("t.x", 100, 1)])
    fetch.position(one, lag=3, lead=10)
    fetch.position(one, lag=1, lead=12)
    fetch.position(two, lag=90, lead=4)
    found = metrics.snapshot()
    tags = {"topic": "t", "partition": "0"}
    assert found.value("records-lag", tags=tags) == 1
    assert found.value("records-lag-max", tags=tags) == 3
    assert found.value("records-lag-avg", tags=tags) == 2
    assert found.value("records-lead-min", tags=tags) == 10
    assert found.value("preferred-read-replica", tags=tags) == 7
    assert found.value("records-lag-max") == 90
    assert found.value("records-lead-min") == 4
    assert found.value("bytes-consumed-total") == 600
    assert found.value("records-consumed-total", tags={"topic": "t"}) == 5
    assert found.value("fetch-total") == 1
    fetch.assigned([two], lambda partition: -1)
    fetch.position(one, lag=1, lead=1)
    with pytest.raises(KeyError):
        metrics.snapshot().value("records-lag", tags=tags)


def test_a_members_life_is_counted() -> None:
    clock = Clock()
    metrics = Metrics("c", clock)
    member = CoordinatorMetrics(metrics, assigned=lambda: 4, is_classic=True)
    assert metrics.snapshot().value("last-heartbeat-seconds-ago") == -1
    member.heartbeat_sent()
    member.heartbeat_answered(8)
    member.joined(100)
    member.synced(50)
    member.rebalanced(160)
    member.rebalance_failed()
    member.committed(5)
    member.called_back("revoked", 9)
    clock.now_ms += 2500
    found = metrics.snapshot()
    assert found.value("last-heartbeat-seconds-ago") == 2
    assert found.value("last-rebalance-seconds-ago") == 2
    assert found.value("heartbeat-response-time-max") == 8
    assert found.value("assigned-partitions") == 4
    assert found.value("join-time-max") == 100
    assert found.value("sync-total") == 1
    assert found.value("rebalance-latency-total") == 160
    assert found.value("rebalance-total") == 1
    assert found.value("rebalance-rate-per-hour") == pytest.approx(1, rel=1e-3)
    assert found.value("failed-rebalance-total") == 1
    assert found.value("commit-latency-avg") == 5
    assert found.value("partition-revoked-latency-max") == 9


def test_the_share_of_the_time_in_poll_is_the_users_idle_time() -> None:
    clock = Clock()
    metrics = Metrics("c", clock)
    poll = PollMetrics(metrics)
    poll.began()
    clock.now_ms += 100
    poll.ended()
    clock.now_ms += 200
    poll.began()
    clock.now_ms += 100
    poll.ended()
    poll.waited("commit-sync", 5)
    found = metrics.snapshot()
    assert found.value("time-between-poll-max") == 300
    assert found.value("poll-idle-ratio-avg") == pytest.approx((1 + 100 / 400) / 2)
    assert found.value("commit-sync-time-ns-total") == 5
    assert found.value("last-poll-seconds-ago") == 0


def test_values_that_were_added_up_count_as_those_recorded_one_by_one() -> None:
    random = Random(5)
    one, many = (Series(window_ms=1000, window_count=3) for _ in range(2))
    now_ms = 0.0
    for _ in range(200):
        now_ms += random.choice([0, 100, 1000, 5000])
        values = [random.randint(1, 100) for _ in range(random.randint(1, 5))]
        for value in values:
            one.record(value, now_ms)
        many.record_many(len(values), sum(values), max(values), now_ms)
        for at_ms in (now_ms, now_ms + 900):
            for name in ("rate", "count_rate", "average", "maximum"):
                assert getattr(one, name)(at_ms) == pytest.approx(getattr(many, name)(at_ms), nan_ok=True), name
        assert (one.count, one.total) == (many.count, many.total)
    assert isnan(many.minimum(now_ms))


def test_connections_requests_and_bytes_are_of_all_brokers_and_of_each() -> None:
    clock = Clock()
    metrics = Metrics("a", clock)
    network = NetworkMetrics(metrics, "admin-client")
    one, two = network.node(1), network.node(2)
    one.opened()
    two.opened()
    two.closed()
    sent_ms = clock.now_ms
    one.sent_request(100, sent_ms)
    two.sent_request(300, sent_ms)
    clock.now_ms += 7
    one.received_response(50, sent_ms, clock.now_ms)
    found = metrics.snapshot()
    assert found.value("connection-count") == 1
    assert found.value("connection-creation-total") == 2
    assert found.value("request-total") == 2
    assert found.value("outgoing-byte-total") == 400
    assert found.value("request-size-avg") == 200
    assert found.value("network-io-total") == 3
    node = {"node-id": "node-1"}
    assert found.value("incoming-byte-total", tags=node) == 50
    assert found.value("request-latency-max", "admin-client-node-metrics", node) == 7
    assert found.value("request-total", tags={"node-id": "node-2"}) == 1
    assert metrics.snapshot() == found, "to look changes nothing"


def test_traffic_that_is_added_up_by_the_second_is_in_the_right_window() -> None:
    """A request each 100 ms for five minutes, and then nothing: the rate is 10 a second, until it is 0."""
    clock = Clock()
    metrics = Metrics("p", clock)
    node = NetworkMetrics(metrics, "producer").node(1)
    for count in range(3000):
        node.sent_request(100 + count % 10, clock.now_ms)
        node.received_response(20, clock.now_ms, clock.now_ms)
        clock.now_ms += 100
    found = metrics.snapshot()
    assert found.value("request-total") == found.value("response-total") == 3000
    assert found.value("outgoing-byte-total") == 3000 * 104.5
    assert found.value("request-size-max") == 109
    assert found.value("request-rate") == pytest.approx(10, rel=0.03)
    assert found.value("incoming-byte-rate", tags={"node-id": "node-1"}) == pytest.approx(200, rel=0.03)
    clock.now_ms += 70_000
    found = metrics.snapshot()
    assert found.value("request-rate") == 0
    assert isnan(found.value("request-size-avg"))
    assert found.value("request-total") == 3000


def test_a_group_coordinator_is_a_node_of_its_own_for_consumers_alone() -> None:
    """Kafka's consumers connect to it once more, under the largest id less its own; producers and admins do not."""
    for kind, tag in (("consumer", "node-2147483646"), ("producer", "node-1"), ("admin-client", "node-1")):
        metrics = Metrics("c", Clock())
        NetworkMetrics(metrics, kind).node(1, is_coordinator=True).sent_request(10, 0)
        assert metrics.snapshot().value("request-total", tags={"node-id": tag}) == 1


def test_of_too_many_brokers_one_without_a_connection_is_forgotten_and_its_traffic_is_not() -> None:
    metrics = Metrics("c", Clock())
    network = NetworkMetrics(metrics, "consumer")
    network.node(0).opened()
    for node_id in range(NODES_MAX):
        network.node(node_id).sent_request(10, 0)
    network.node(5000).sent_request(10, 0)
    found = metrics.snapshot()
    assert found.value("request-total") == NODES_MAX + 1
    assert found.value("request-total", tags={"node-id": "node-0"}) == 1
    assert found.value("request-total", tags={"node-id": "node-5000"}) == 1
    with pytest.raises(KeyError):
        found.value("request-total", tags={"node-id": "node-1"})


def test_a_value_that_is_not_there_or_not_alone_is_not_guessed() -> None:
    metrics = Metrics("c", Clock())
    metrics.add("one", "n", lambda now_ms: 1)
    metrics.add("two", "n", lambda now_ms: nan)
    found = metrics.snapshot()
    assert found.value("n", "one") == 1
    with pytest.raises(KeyError, match="2 metrics are named n"):
        found.value("n")
    with pytest.raises(KeyError, match="0 metrics are named m"):
        found.value("m")
    assert str(MetricName("n", "g", (("client-id", "c"),))) == "g:client-id=c:n"

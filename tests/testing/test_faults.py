"""What a test does to a cluster: kill, restart, cut, delay, move time; and what clients see of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.testing import Cluster, ClusterError
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.support.raw import RawClient

PATIENCE_S = 30.0


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    # Retention is looked at each minute of the node's time, and a topic's past is gone as soon as it may be.
    settings = {"log.retention.check.interval.ms": "60000", "log.segment.delete.delay.ms": "0"}
    with Cluster(processes=request.param, settings=settings) as running:
        yield running


def client_settings(cluster: Cluster, **more: Any) -> dict[str, Any]:
    """A client that says nothing and tries again soon: what goes wrong here is meant to."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "log_level": 0,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 50,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 50,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def producer_of(cluster: Cluster, **more: Any) -> Producer:
    return Producer(client_settings(cluster, linger_ms=0, **more))


def consumer_of(cluster: Cluster, group: str = "reader", **more: Any) -> Consumer:
    return Consumer(client_settings(cluster, group_id=group, enable_auto_commit=False, fetch_wait_max_ms=50, **more))


def write(producer: Producer, topic: str, *values: str) -> list[KafkaError | None]:
    """Write the values and wait until each is delivered or given up; the error of each, or None."""
    outcomes: list[KafkaError | None] = []
    for value in values:
        producer.produce(topic, value.encode(), on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return outcomes


def read(cluster: Cluster, topic: str) -> list[str]:
    """Everything in partition 0."""
    consumer = consumer_of(cluster)
    try:
        partition = TopicPartition(topic, 0)
        first, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, 0, first)])
        found: list[str] = []
        while len(found) < end - first:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"only {found} came"
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
        return found
    finally:
        consumer.close()


def watermarks(cluster: Cluster, topic: str) -> tuple[int, int]:
    consumer = consumer_of(cluster)
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        return first, end
    finally:
        consumer.close()


def eventually(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_a_killed_node_comes_back_with_its_address_and_what_it_had_acknowledged(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    address = cluster.bootstrap_servers
    producer = producer_of(cluster)
    assert write(producer, topic, "before") == [None]
    cluster.kill()
    assert not cluster.is_running()
    producer.produce(topic, b"meanwhile")
    time.sleep(0.1)
    cluster.restart()
    assert cluster.bootstrap_servers == address
    assert producer.flush(PATIENCE_S) == 0
    assert read(cluster, topic) == ["before", "meanwhile"]


def test_a_node_that_was_stopped_in_order_comes_back_too(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    assert write(producer_of(cluster), topic, "one") == [None]
    cluster.restart()
    cluster.stop()
    cluster.restart()
    assert read(cluster, topic) == ["one"]


def test_clients_of_a_cut_link_are_refused_until_it_is_healed(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    producer = producer_of(cluster)
    assert write(producer, topic, "before") == [None]
    assert cluster.connection_count() > 0
    cluster.cut()
    eventually(lambda: cluster.connection_count() == 0, "connections outlive the cut")
    with pytest.raises(KafkaException):
        consumer_of(cluster).list_topics(timeout=0.5)
    producer.produce(topic, b"meanwhile")
    assert producer.flush(0.3) == 1
    with pytest.raises(ClusterError, match=r"the link to node 0 is cut: heal\(\) it first"):
        cluster.create_topic("not now")
    cluster.heal()
    assert producer.flush(PATIENCE_S) == 0
    assert read(cluster, topic) == ["before", "meanwhile"]


def test_nothing_passes_a_silent_link_and_what_waited_goes_on(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    producer = producer_of(cluster)
    assert write(producer, topic, "before") == [None]
    connected = cluster.connection_count()
    cluster.cut(silent=True)
    producer.produce(topic, b"meanwhile")
    assert producer.flush(0.3) == 1
    assert cluster.connection_count() == connected
    with pytest.raises(ClusterError, match="the link to node 0 is silent"):
        cluster.wait_for_group("g")
    cluster.heal()
    assert producer.flush(PATIENCE_S) == 0
    assert read(cluster, topic) == ["before", "meanwhile"]


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_lost_response_makes_a_second_record_unless_the_producer_is_idempotent(
    cluster: Cluster, is_idempotent: bool
) -> None:
    """The node appends, the answer never comes, the client asks again on a new connection."""
    topic = cluster.create_topic("t")
    producer = producer_of(
        cluster, enable_idempotence=is_idempotent, request_timeout_ms=300, socket_timeout_ms=300, retries=1000
    )
    assert write(producer, topic, "first") == [None]
    cluster.cut(silent=True, direction="responses")
    producer.produce(topic, b"once?")
    assert producer.flush(0.6) == 1
    cluster.drop_connections()
    cluster.heal()
    assert producer.flush(PATIENCE_S) == 0
    found = read(cluster, topic)
    assert found[:2] == ["first", "once?"]
    assert set(found[2:]) == (set() if is_idempotent else {"once?"})


def test_requests_that_are_lost_are_never_seen_by_the_node(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    producer = producer_of(cluster, message_timeout_ms=500, enable_idempotence=False)
    assert write(producer, topic, "seen") == [None]
    cluster.cut(silent=True, direction="requests")
    (outcome,) = write(producer, topic, "lost")
    assert outcome is not None
    assert outcome.code() == KafkaError._MSG_TIMED_OUT
    cluster.drop_connections()
    cluster.heal()
    assert read(cluster, topic) == ["seen"]


def test_a_slow_link_is_late_by_what_it_was_told(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    producer = producer_of(cluster)
    assert write(producer, topic, "quick") == [None]
    cluster.delay(0.2)
    begun = time.monotonic()
    assert write(producer, topic, "slow") == [None]
    assert time.monotonic() - begun >= 0.4, "the request and the response"
    cluster.heal()
    assert read(cluster, topic) == ["quick", "slow"]


def test_clients_come_back_after_their_connections_were_dropped(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    producer = producer_of(cluster)
    assert write(producer, topic, "before") == [None]
    cluster.drop_connections()
    assert write(producer, topic, "after") == [None]
    assert read(cluster, topic) == ["before", "after"]


def test_a_link_that_only_closes_has_no_direction(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="only a silent link has a direction"):
        cluster.cut(direction="responses")
    with pytest.raises(ClusterError, match="direction is both, requests or responses"):
        cluster.cut(silent=True, direction="up")  # type: ignore[arg-type]


def test_records_are_gone_when_time_has_moved_past_their_retention(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", retention_ms=3_600_000, segment_ms=600_000)
    producer = producer_of(cluster)
    assert write(producer, topic, "old") == [None]
    cluster.move_time(3000)
    assert watermarks(cluster, topic) == (0, 1)
    cluster.move_time(3000)
    eventually(lambda: watermarks(cluster, topic)[0] == 1, "the old record is still there")
    assert write(producer, topic, "new") == [None]
    assert read(cluster, topic) == ["new"]


def test_moved_time_stays_moved_over_a_restart(cluster: Cluster) -> None:
    topic = cluster.create_topic("t", message_timestamp_type="LogAppendTime")
    cluster.move_time(7 * 86400)
    cluster.restart()
    cluster.kill()
    cluster.restart()
    assert write(producer_of(cluster), topic, "late") == [None]
    consumer = consumer_of(cluster)
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    ahead_s = message.timestamp()[1] / 1000 - time.time()
    consumer.close()
    assert 7 * 86400 - 60 < ahead_s < 7 * 86400 + 60
    with pytest.raises(ClusterError, match="time does not go back"):
        cluster.move_time(-1)


def test_a_member_that_is_not_heard_of_is_gone_when_time_has_moved(cluster: Cluster) -> None:
    """The member joins once and says nothing more; its session is longer than this test."""
    with RawClient(int(cluster.bootstrap_servers.rpartition(":")[2])) as member:
        joining = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=45_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )
        finding = FindCoordinatorRequest(key="g")
        eventually(lambda: member.send(finding, 3, FindCoordinatorResponse).error_code == 0, "nobody coordinates")
        eventually(lambda: member.send(joining, 3, JoinGroupResponse).error_code == 0, "nobody can join")
        cluster.wait_for_group("g", state="CompletingRebalance", members=1)
        cluster.move_time(40)
        cluster.wait_for_group("g", members=1)
        cluster.move_time(10)
        cluster.wait_for_group("g", members=0)


def test_the_wait_for_a_group_ends_with_what_was_seen(cluster: Cluster) -> None:
    expected = "group nobody has not come to state Stable and 2 members within 0.1 s: its state is Dead, with 0 members"
    with pytest.raises(TimeoutError, match=expected):
        cluster.wait_for_group("nobody", state="Stable", members=2, timeout=0.1)
    cluster.wait_for_group("nobody", members=0)


def test_a_node_is_not_taken_for_dead_when_time_is_moved_by_months(cluster: Cluster) -> None:
    topic = cluster.create_topic("t")
    cluster.move_time(200 * 86400)
    assert write(producer_of(cluster), topic, "here") == [None]

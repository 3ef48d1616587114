"""Real processes in trouble: nothing acknowledged is lost, nothing is there twice, and the replicas are equal.

Idempotent producers, groups of both protocols and a transactional copy go on while nodes are killed, stand still longer
than their session, end, are cut off and return. About a minute in all in `make test`, where three nodes get one of each
deed and the other clusters some; ten minutes for each cluster in `make soak`. Nodes are in network namespaces of their
own; where there can be none, they are on loopback, nothing is cut, and a skipped subtest says so.
"""

from __future__ import annotations

import base64
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.cluster.copier import GROUP, Copier
from tests.cluster.java_load import JavaLoad
from tests.cluster.readers import Readers
from tests.cluster.replicas import check_equal_replicas
from tests.cluster.trouble import CUTS, DEEDS, Trouble
from tests.durability.killing import (
    PARTITION_COUNT,
    TOPIC,
    Load,
    Progressing,
    check,
    wait_for_beginning,
    wait_for_progress,
)
from tests.support.namespaces import Network, obstacle
from tests.support.processes import ClusterProcesses, node_ids
from tests.support.survey import TIMEOUT_S, consumer_config, read_to_end

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
SOAK_S = 600
SEED = int(os.environ.get("OTTLA_SEED", "1"))
PAUSE_S = 0.01
JAVA_RATE = 100
COPY, JAVA = "copies", "java"
INTERNAL = ("__consumer_offsets", "__transaction_state")
REPLICAS = 3
CLIENT = {"request.timeout.ms": 2000, "socket.timeout.ms": 4000}
"""A request to a node that stands still is given up soon: an idempotent producer of librdkafka waits for it before it
goes on with the next leader. Five requests are in flight, which is its default."""


@pytest.mark.timeout(1200 if IS_SOAK else 240)
@pytest.mark.parametrize(
    ("brokers", "controllers", "seconds", "is_thorough"),
    [(3, 0, 20, True), (3, 3, 10, IS_SOAK), (5, 0, 10, IS_SOAK)],
    ids=["three", "three-and-three-controllers", "five"],
)
def test_nothing_acknowledged_is_lost_or_repeated_while_nodes_die(
    brokers: int, controllers: int, seconds: int, is_thorough: bool, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """`is_thorough`: every deed at least once, however long that takes, and a Java producer where there is a Java."""
    network = None if obstacle() else Network(node_ids(brokers, controllers))
    cluster = ClusterProcesses(tmp_path, brokers=brokers, controllers=controllers, network=network)
    with network or nullcontext(), cluster:
        java: list[JavaLoad] = []
        if is_thorough:
            with subtests.test("a Java producer"):
                java.append(JavaLoad(tmp_path, cluster.addresses, JAVA, throughput=JAVA_RATE))
        topics = {TOPIC: PARTITION_COUNT, COPY: PARTITION_COUNT, **dict.fromkeys([JAVA] * len(java), PARTITION_COUNT)}
        for topic in topics:
            cluster.create_topic(topic, PARTITION_COUNT)
        loads = [Load(f"p{number}", cluster.addresses, pause_s=PAUSE_S, settings=CLIENT) for number in range(2)]
        groups = [Readers(protocol, protocol, cluster.addresses, TOPIC) for protocol in ("classic", "consumer")]
        copiers = [Copier(f"copier-{number}", cluster.addresses, TOPIC, COPY) for number in range(2)]
        trouble = Trouble(cluster, SEED + brokers + controllers)
        everybody: list[Load | JavaLoad | Readers | Copier] = [*java, *loads, *groups, *copiers]
        for one in everybody:
            one.start()
        producers: list[Progressing] = [*loads, *java]
        try:
            wait_for_beginning(producers)
            trouble.run(
                SOAK_S if IS_SOAK else seconds,
                between=lambda: wait_for_progress(producers),
                count_min=len(trouble.deeds) if is_thorough else 2,
            )
            for producer in java:
                producer.finish()
        finally:
            print(trouble)
            for producer in java:
                producer.kill()
            for load in loads:
                load.finish()
            _wait_for_groups(cluster, groups, copiers, loads)
            print("\n".join(map(str, copiers)))
        check(cluster.addresses, loads)
        for producer in java:
            producer.check(cluster.addresses, PARTITION_COUNT)
        _check_groups(cluster, groups)
        compared = _stop_and_compare(cluster, topics)
    for topic in INTERNAL:
        assert sum(size for name, size in compared.items() if name.rpartition("-")[0] == topic) > 0, topic
    if is_thorough:
        _check_deeds(trouble, subtests)


def _check_deeds(trouble: Trouble, subtests: pytest.Subtests) -> None:
    """Every deed was done, those that need namespaces where there are any."""
    done = {deed for deed, _ in trouble.done}
    assert done >= set(DEEDS)
    with subtests.test("cuts"):
        if reason := obstacle():
            pytest.skip(f"nothing was cut: {reason}")
        assert done == {*DEEDS, *CUTS}


def _stop_and_compare(cluster: ClusterProcesses, topics: dict[str, int]) -> dict[str, int]:
    """Stop the nodes when all replicas are in sync, and return how many bytes of each partition they have alike."""
    names = cluster.topics()
    cluster.wait(lambda: cluster.is_in_sync(*names), "every replica in sync")
    assigned = cluster.assignments()
    cluster.stop()
    compared = check_equal_replicas(cluster, assigned, whole=topics, factor=REPLICAS)
    assert not (errors := cluster.errors()), "\n".join(errors)
    return compared


@pytest.mark.java
@pytest.mark.skipif(not IS_SOAK, reason="ten minutes: make soak")
@pytest.mark.timeout(1200)
def test_nothing_of_a_java_producer_is_lost_or_repeated_while_nodes_die(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Without other load beside it."""
    network = None if obstacle() else Network(node_ids(3, 0))
    cluster = ClusterProcesses(tmp_path, brokers=3, network=network)
    with network or nullcontext(), cluster:
        cluster.create_topic(TOPIC, PARTITION_COUNT)
        load = JavaLoad(tmp_path, cluster.addresses, TOPIC)
        trouble = Trouble(cluster, SEED)
        load.start()
        try:
            wait_for_beginning([load])
            trouble.run(SOAK_S, between=lambda: wait_for_progress([load]), count_min=len(trouble.deeds))
            load.finish()
        finally:
            load.kill()
            print(f"{trouble}; {len(load.acknowledged)} acknowledged")
        load.check(cluster.addresses, PARTITION_COUNT)
        _stop_and_compare(cluster, {TOPIC: PARTITION_COUNT})
    _check_deeds(trouble, subtests)


def _wait_for_groups(
    cluster: ClusterProcesses, groups: list[Readers], copiers: list[Copier], loads: list[Load]
) -> None:
    """Until every group has read and committed all that was acknowledged; then its members leave."""
    # A partition whose leader is just being replaced has no end that librdkafka would wait for.
    cluster.wait(lambda: cluster.is_in_sync(TOPIC), "every replica in sync again")
    ends = _ends(cluster)
    assert sum(ends.values()) >= sum(load.count for load in loads)
    try:
        cluster.wait(lambda: all(group.failures or group.has_committed(ends) for group in groups), f"groups at {ends}")
        cluster.wait(lambda: _copied(cluster) == ends, f"the copy at {ends}")
    except AssertionError as error:
        error.add_note("\n".join(map(str, groups)))
        raise
    finally:
        members: list[Readers | Copier] = [*groups, *copiers]
        for one in members:
            one.ask_to_finish()
        for one in members:
            one.finish()


def _ends(cluster: ClusterProcesses) -> dict[int, int]:
    """Partition -> the offset after its last record."""
    consumer = Consumer(consumer_config(cluster.addresses, "read_committed"))
    try:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITION_COUNT)]
        return {one.partition: consumer.get_watermark_offsets(one, timeout=TIMEOUT_S)[1] for one in places}
    finally:
        consumer.close()


def _copied(cluster: ClusterProcesses) -> dict[int, int]:
    """Partition -> the offset that the copy's last transaction committed."""
    consumer = Consumer({**consumer_config(cluster.addresses, "read_committed"), "group.id": GROUP})
    try:
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITION_COUNT)]
        return {place.partition: place.offset for place in consumer.committed(places, timeout=TIMEOUT_S)}
    finally:
        consumer.close()


def _check_groups(cluster: ClusterProcesses, groups: list[Readers]) -> None:
    """Both groups and the copy have the records of the topic, once and in order."""
    places = [TopicPartition(topic, partition) for topic in (TOPIC, COPY) for partition in range(PARTITION_COUNT)]
    rows = read_to_end(cluster.addresses, places, "read_committed")
    for partition in range(PARTITION_COUNT):
        found = {row[0]: base64.b64decode(row[4]) for row in rows[TOPIC, partition]}
        copied = [base64.b64decode(row[4]) for row in rows[COPY, partition]]
        assert copied == list(found.values()), f"the copy of partition {partition}"
        for group in groups:
            assert group.failures == []
            assert group.values[partition] == found, f"{group.group}: partition {partition}"

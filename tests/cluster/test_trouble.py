"""Real processes in trouble: nothing acknowledged is lost, nothing is there twice, and the replicas are equal.

Idempotent producers, groups of both protocols and a transactional copy go on while nodes are killed, stand still longer
than their session, end and return. A minute in all in `make test`, ten minutes for each cluster in `make soak`.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.cluster.readers import Readers
from tests.cluster.replicas import check_equal_replicas
from tests.cluster.trouble import Trouble
from tests.durability.killing import PARTITION_COUNT, TOPIC, Load, check, wait_for_progress
from tests.support.processes import ClusterProcesses
from tests.support.survey import read_to_end

IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
SEED = int(os.environ.get("OTTLA_SEED", "1"))
PAUSE_S = 0.01


@pytest.mark.timeout(1200 if IS_SOAK else 240)
@pytest.mark.parametrize(
    ("brokers", "controllers", "seconds"),
    [(3, 0, 20), (3, 3, 10), (5, 0, 10)],
    ids=["three", "three-and-three-controllers", "five"],
)
def test_nothing_acknowledged_is_lost_or_repeated_while_nodes_die(
    brokers: int, controllers: int, seconds: int, tmp_path: Path
) -> None:
    cluster = ClusterProcesses(tmp_path, brokers=brokers, controllers=controllers)
    with cluster:
        cluster.create_topic(TOPIC, PARTITION_COUNT)
        loads = [Load(f"p{number}", cluster.addresses, pause_s=PAUSE_S) for number in range(2)]
        groups = [Readers(protocol, protocol, cluster.addresses, TOPIC) for protocol in ("classic", "consumer")]
        trouble = Trouble(cluster, SEED)
        for load in loads:
            load.start()
        for group in groups:
            group.start()
        try:
            wait_for_progress(loads)
            trouble.run(600 if IS_SOAK else seconds, between=lambda: wait_for_progress(loads))
        finally:
            print(f"{', '.join(trouble.done)}")
            for load in loads:
                load.finish()
            _wait_for_groups(cluster, groups, loads)
        check(cluster.addresses, loads)
        _check_groups(cluster, groups)
        topics = cluster.topics()
        cluster.wait(lambda: cluster.is_in_sync(*topics), "every replica in sync")
        cluster.stop()
    assert check_equal_replicas(cluster, whole=(TOPIC,)) > PARTITION_COUNT
    assert cluster.errors() == []


def _wait_for_groups(cluster: ClusterProcesses, groups: list[Readers], loads: list[Load]) -> None:
    """Until every group has read and committed all that was acknowledged; then its members leave."""
    ends = {
        partition: 1 + max(offset for load in loads for offset in load.acknowledged[partition])
        for partition in range(PARTITION_COUNT)
    }
    try:
        cluster.wait(
            lambda: all(group.failures or group.has_committed(ends) for group in groups),
            f"both groups at {ends}",
        )
    finally:
        for group in groups:
            group.finish()


def _check_groups(cluster: ClusterProcesses, groups: list[Readers]) -> None:
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITION_COUNT)]
    rows = read_to_end(cluster.addresses, places, "read_committed")
    for group in groups:
        assert group.failures == []
        for partition in range(PARTITION_COUNT):
            found = {row[0]: base64.b64decode(row[4]) for row in rows[TOPIC, partition]}
            assert group.values[partition] == found, f"{group.group}: partition {partition}"

"""Internal topics are made by the first who asks for a coordinator, with the replication factors of their settings."""

from __future__ import annotations

import pytest

from ottla.errors import CoordinatorNotAvailable
from ottla.types import Uuid
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.node.trio import Trio

SHARE_KEY = f"g:{Uuid(bytes(15) + b'1')}:0"
TOPICS = {
    "__consumer_offsets": (0, "g", "offsets.topic"),
    "__transaction_state": (1, "t", "transaction.state.log"),
    "__share_group_state": (2, SHARE_KEY, "share.coordinator.state.topic"),
}
"""The kind of key that belongs to each topic, a key, and what its settings begin with."""
PARTITION_COUNT = 4


def trio(factors: dict[str, int]) -> Trio:
    settings = {}
    for name, (_, _, prefix) in TOPICS.items():
        settings[f"{prefix}.num.partitions"] = str(PARTITION_COUNT)
        settings[f"{prefix}.replication.factor"] = str(factors[name])
    settings |= {"transaction.state.log.min.isr": "1", "share.coordinator.state.topic.min.isr": "1"}
    return Trio(settings)


def find(cluster: Trio, topic: str, *, node_id: int) -> Coordinator:
    """What this node answers to whom looks for a coordinator of that topic."""
    key_type, key, _ = TOPICS[topic]
    sender = cluster.node(next(one for one in (1, 2, 3) if one != node_id and cluster.nodes[f"node{one}"].is_running))
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    response = cluster.run(sender.broker.peers.send(node_id, request, timeout_ms=5_000, lane="client"))
    assert isinstance(response, FindCoordinatorResponse)
    return response.coordinators[0]


def replica_counts(cluster: Trio, topic: str) -> list[int]:
    """Of each partition; none while there is no such topic."""
    found = cluster.controller.loader.image.topics.by_name.get(topic)
    return [] if found is None else [len(one.replicas) for one in found.partitions.values()]


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_internal_topics_have_the_replication_factors_of_their_settings(factor: int) -> None:
    factors = {name: (factor + place) % 3 + 1 for place, name in enumerate(TOPICS)}
    with trio(factors) as cluster:
        for name, expected in factors.items():
            assert find(cluster, name, node_id=1).error_code == CoordinatorNotAvailable.code
            cluster.pass_seconds(2)
            assert replica_counts(cluster, name) == PARTITION_COUNT * [expected]
            found = find(cluster, name, node_id=1)
            assert (found.error_code, found.node_id in (1, 2, 3)) == (0, True)


@pytest.mark.parametrize("topic", TOPICS)
def test_with_too_few_brokers_there_is_no_coordinator_until_there_are_enough(
    topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka: the controller refuses the topic, and whoever looks for the coordinator is told to ask again."""
    with trio(dict.fromkeys(TOPICS, 3)) as cluster:
        leave(cluster, 3)
        for _ in range(2):
            assert find(cluster, topic, node_id=1).error_code == CoordinatorNotAvailable.code
            cluster.pass_seconds(2)
        assert replica_counts(cluster, topic) == []
        refusals = [one.getMessage() for one in caplog.records if f"{topic} was not created" in one.getMessage()]
        assert len(refusals) == 2, "each who asks has it tried again"
        assert all("INVALID_REPLICATION_FACTOR" in one and "only 2 broker(s)" in one for one in refusals)
        cluster.run(cluster.nodes.start("node3"))
        cluster.pass_seconds(2)
        assert find(cluster, topic, node_id=1).error_code == CoordinatorNotAvailable.code
        cluster.pass_seconds(2)
        assert find(cluster, topic, node_id=1).error_code == 0
        assert replica_counts(cluster, topic) == PARTITION_COUNT * [3]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_broker_that_is_registered_and_down_gets_its_replicas_all_the_same(topic: str) -> None:
    """As in Kafka, which counts the registered brokers and not the live ones: it joins the ISR when it is back."""

    def in_sync() -> list[int]:
        return [len(one.isr) for one in cluster.controller.loader.image.topics.by_name[topic].partitions.values()]

    with trio(dict.fromkeys(TOPICS, 3)) as cluster:
        cluster.nodes.kill("node3")
        cluster.pass_seconds(12)
        assert find(cluster, topic, node_id=1).error_code == CoordinatorNotAvailable.code
        cluster.pass_seconds(2)
        assert find(cluster, topic, node_id=1).error_code == 0
        assert replica_counts(cluster, topic) == PARTITION_COUNT * [3]
        assert in_sync() == PARTITION_COUNT * [2]
        cluster.run(cluster.nodes.start("node3"))
        cluster.pass_seconds(5)
        assert in_sync() == PARTITION_COUNT * [3]


def leave(cluster: Trio, node_id: int) -> None:
    """End a broker for good, as far as the controller knows."""
    cluster.run(cluster.nodes.stop(f"node{node_id}"))
    cluster.pass_seconds(12)
    response = cluster.run(cluster.controller.controller.handle(UnregisterBrokerRequest(node_id), version=0))
    assert isinstance(response, UnregisterBrokerResponse)
    assert response.error_code == 0
    cluster.pass_seconds(1)

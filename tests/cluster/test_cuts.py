"""Stories of nodes that are cut off: each in a network namespace, packets lost on the way, connections left hanging.

Skipped where there can be no namespaces. The other stories are in test_stories.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.cluster.replicas import check_equal_metadata
from tests.cluster.story import TOPIC, found, leader, send, story
from tests.support.logs import make_batch
from tests.support.processes import ClusterProcesses, NodeProcess
from tests.support.raw import RawClient

PRODUCE_VERSION = 9
ACKS_ALL, ACKS_LEADER = -1, 1
pytestmark = pytest.mark.timeout(180)


def produce(node: NodeProcess, value: str, *, acks: int, timeout_ms: int = 1_000) -> PartitionProduceResponse:
    """Write one value to this very node, whoever leads, and return what it answers."""
    batch = make_batch(value.encode(), timestamp=int(time.time() * 1000))
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=data)
    with RawClient(node.port, host=node.host, timeout_s=10) as client:
        (answer,) = client.send(request, PRODUCE_VERSION, ProduceResponse).responses
    return answer.partition_responses[0]


def is_created_at(node: NodeProcess, topic: str) -> bool:
    """Ask this very node for a topic. An error is an answer, and none within a few seconds is another."""
    request = CreateTopicsRequest([CreatableTopic(topic, 1, 1, [], [])], timeout_ms=2_000)
    try:
        with RawClient(node.port, host=node.host, timeout_s=4) as client:
            (made,) = client.send(request, 7, CreateTopicsResponse).topics
    except TimeoutError:
        return False
    return made.error_code == 0


def test_the_controller_is_cut_off_and_returns(tmp_path: Path) -> None:
    """Another takes over meanwhile; the old one finds out, follows, and has the same metadata log in the end."""
    with story(tmp_path, brokers=2, controllers=3, namespaces=True, min_insync_replicas="1") as cluster:
        old = cluster.active_controller()
        cluster.isolate(old)
        cluster.wait(lambda: cluster.active_controller() != old, "another controller")
        cluster.create_topic("meanwhile", 3, replicas=2)
        values = send(cluster, "meanwhile")
        new = cluster.active_controller()
        cluster.heal()
        cluster.create_topic("afterwards", 3, replicas=2)
        assert cluster.active_controller() == new
        assert found(cluster) == values
    check_equal_metadata(cluster, b"afterwards")


def test_the_controller_is_cut_off_from_the_others_and_not_from_clients(tmp_path: Path) -> None:
    """It must not make a topic that nobody else knows of: without a majority it does not answer that it has."""
    with story(tmp_path, namespaces=True) as cluster:
        old = cluster.active_controller()
        cluster.isolate(old, clients=False)
        assert not is_created_at(cluster[old], "nobody-knows")
        cluster.wait(lambda: cluster.active_controller() != old, "another controller")
        cluster.create_topic("meanwhile", 3, replicas=2)
        assert not is_created_at(cluster[old], "nobody-knows-either")
        values = send(cluster, "meanwhile", without=old)
        cluster.heal()
        cluster.wait(lambda: cluster.is_in_sync(TOPIC, "meanwhile"), "all replicas in sync")
        cluster.create_topic("afterwards", 3)
        assert found(cluster) == values
    check_equal_metadata(cluster, b"afterwards")


def test_a_leader_that_only_clients_reach_acknowledges_nothing_with_acks_all(tmp_path: Path) -> None:
    """With acks=1 it does, until it hears of its successor, and loses that: acks=1 is one node's word."""
    with story(tmp_path, namespaces=True) as cluster:
        values = send(cluster, "all three")
        old = leader(cluster)
        cluster.isolate(old, clients=False)
        assert produce(cluster[old], "acks=all, at once", acks=ACKS_ALL).error_code != 0
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) not in (None, old), "another leader")
        assert produce(cluster[old], "acks=all, later", acks=ACKS_ALL).error_code != 0
        lost = produce(cluster[old], "acks=1", acks=ACKS_LEADER)
        assert lost.error_code == 0
        assert lost.base_offset >= len(values)
        values += send(cluster, "two of three", without=old)
        cluster.heal()
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        values += send(cluster, "all three again")
        assert found(cluster) == values


def test_a_leader_cut_off_from_the_controllers_is_replaced(tmp_path: Path) -> None:
    """Its followers and the clients still reach it. They hear of another leader, and it does when it is healed."""
    with story(tmp_path, brokers=3, controllers=3, namespaces=True) as cluster:
        values = send(cluster, "all three")
        old = leader(cluster)
        controllers = [node.node_id for node in cluster.controllers]
        cluster.cut(*((old, one) for one in controllers), *((one, old) for one in controllers))
        values += send(cluster, "nobody knows yet")
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) not in (None, old), "another leader")
        values += send(cluster, "two of three", without=old)
        assert produce(cluster[old], "acks=all", acks=ACKS_ALL).error_code != 0
        cluster.heal()
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        assert found(cluster) == values


@pytest.mark.parametrize("is_heard", [False, True], ids=["hears", "is-heard"])
def test_a_follower_whose_link_works_one_way_leaves_the_isr_and_returns(is_heard: bool, tmp_path: Path) -> None:
    with story(tmp_path, namespaces=True) as cluster:
        values = send(cluster, "all three")
        first = leader(cluster)
        follower = max(node.node_id for node in cluster.brokers if node.node_id != first)
        others = sorted(node.node_id for node in cluster.brokers if node.node_id != follower)
        cluster.cut(*((one, follower) if is_heard else (follower, one) for one in others))
        _wait_for_isr(cluster, others)
        values += send(cluster, "two of three", without=follower)
        cluster.heal()
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the follower in sync")
        values += send(cluster, "all three again")
        assert found(cluster) == values


def _wait_for_isr(cluster: ClusterProcesses, node_ids: list[int]) -> None:
    cluster.wait(lambda: cluster.isr(TOPIC)[0] == node_ids, f"an ISR of {node_ids}")

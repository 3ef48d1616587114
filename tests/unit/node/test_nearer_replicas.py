"""`replica.selector.class`: a consumer is sent to a replica in its own rack, and gets on there (KIP-392)."""

from __future__ import annotations

import pytest

from ottla.config import RACK_AWARE_SELECTOR, BrokerConfig
from ottla.errors import FencedLeaderEpoch, InvalidConfig
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tests.support.logs import make_batch
from tests.unit.node.trio import Trio

RACKS = {1: "a", 2: "b", 3: "b"}


def trio(selector: str) -> Trio:
    return Trio({"replica.selector.class": selector}, racks=RACKS)


def fetch(cluster: Trio, node_id: int, *, rack: str, offset: int = 0, epoch: int = -1) -> PartitionData:
    """What a consumer in that rack is answered by that node."""
    topic = cluster.node(1).loader.image.topics.by_name["t"]
    wanted = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic("", topic.id, [wanted])], rack_id=rack, session_epoch=-1
    )
    sender = cluster.node(1 if node_id != 1 else 2).broker.peers
    response = cluster.run(sender.send(node_id, request, timeout_ms=5_000, lane="consumer"))
    assert isinstance(response, FetchResponse)
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def written(cluster: Trio) -> None:
    """A topic that node 1 leads, with three records that all replicas have."""
    cluster.create("t", [[1, 2, 3]])
    for number in range(3):
        cluster.node(1).replicas.by_name["t"][0].append(bytearray(make_batch(b"%d" % number)))
    cluster.pass_seconds(2)


def test_a_consumer_is_sent_to_its_own_rack_and_reads_there() -> None:
    with trio(RACK_AWARE_SELECTOR) as cluster:
        written(cluster)
        told = fetch(cluster, 1, rack="b")
        assert (told.error_code, told.preferred_read_replica, len(told.records or b"")) == (0, 3, 0)
        assert (told.high_watermark, told.last_stable_offset, told.log_start_offset) == (3, 3, 0)
        near = fetch(cluster, 3, rack="b")
        assert (near.error_code, near.preferred_read_replica, near.high_watermark) == (0, -1, 3)
        assert len(near.records or b"") == 3 * len(make_batch(b"0"))


@pytest.mark.parametrize(("rack", "offset"), [("a", 0), ("nowhere", 0), ("", 0), ("b", 99)])
def test_a_consumer_stays_with_the_leader_unless_a_replica_is_nearer_and_has_the_offset(rack: str, offset: int) -> None:
    with trio(RACK_AWARE_SELECTOR) as cluster:
        written(cluster)
        assert fetch(cluster, 1, rack=rack, offset=offset).preferred_read_replica == -1


def test_the_replica_that_has_most_is_preferred_and_one_that_is_not_in_sync_is_not() -> None:
    with trio(RACK_AWARE_SELECTOR) as cluster:
        written(cluster)
        cluster.nodes.kill("node3")
        cluster.pass_seconds(15)
        assert fetch(cluster, 1, rack="b").preferred_read_replica == 2
        cluster.nodes.kill("node2")
        assert cluster.node(1).replicas.by_name["t"][0].isr == (1, 2), "nobody has noticed yet"
    with trio(RACK_AWARE_SELECTOR) as cluster:
        written(cluster)
        partition = cluster.node(1).replicas.by_name["t"][0]
        partition.leadership.followers[3].log_end_offset = 2
        assert fetch(cluster, 1, rack="b", offset=0).preferred_read_replica == 2
        partition.leadership.followers[3].log_end_offset = 1
        partition.leadership.followers[2].log_end_offset = 1
        assert fetch(cluster, 1, rack="b", offset=2).preferred_read_replica == -1, "neither has it"


def test_an_old_leader_epoch_is_refused_before_anybody_is_sent_away() -> None:
    with trio(RACK_AWARE_SELECTOR) as cluster:
        written(cluster)
        cluster.node(1).replicas.by_name["t"][0].leader_epoch += 1
        assert fetch(cluster, 1, rack="b", epoch=0).error_code == FencedLeaderEpoch.code


@pytest.mark.parametrize("selector", ["", "org.apache.kafka.common.replica.LeaderSelector"])
def test_without_a_selector_that_looks_at_racks_nobody_is_sent_away(selector: str) -> None:
    settings = {"replica.selector.class": selector} if selector else {}
    with Trio(settings, racks=RACKS) as cluster:
        written(cluster)
        assert fetch(cluster, 1, rack="b").preferred_read_replica == -1


def test_a_class_that_is_not_there_is_told_at_the_start() -> None:
    with pytest.raises(InvalidConfig, match=r"replica\.selector\.class: the class could not be found"):
        BrokerConfig(
            {
                "node.id": "1",
                "process.roles": "broker,controller",
                "controller.quorum.voters": "1@localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
                "replica.selector.class": "com.example.Mine",
            }
        )

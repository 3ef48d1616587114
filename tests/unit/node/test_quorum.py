"""Nodes that make a quorum of several: they find each other over the network, elect, follow, and elect again."""

from __future__ import annotations

import pytest

from tests.unit.node.simulated import Cluster


def test_three_controllers_elect_one_and_another_when_it_dies() -> None:
    with Cluster(1, 0, controller_count=3) as quorum:
        quorum.start()
        first = quorum.settled()
        assert first.node is not None
        epoch = first.node.raft.epoch
        first.kill(is_power_loss=True)
        second = quorum.settled()
        assert second is not first
        assert second.node is not None
        assert second.node.raft.epoch > epoch
        quorum.start(first.name)
        assert quorum.settled() is second
        offset = second.node.raft.high_watermark
        quorum.wait(
            lambda: all(one.node is not None and one.node.loader.image.offset >= offset - 1 for one in quorum.cluster)
        )


def test_a_leader_that_is_stopped_in_order_is_followed_soon() -> None:
    with Cluster(2, 0, controller_count=3) as quorum:
        quorum.start()
        first = quorum.settled()
        begun_us = quorum.loop.now_us
        quorum.loop.run_until_complete(quorum.cluster.stop(first.name))
        quorum.settled()
        assert (quorum.loop.now_us - begun_us) / 1000 < 1_000, "without an election timeout"


@pytest.mark.parametrize("seed", range(3))
def test_nodes_of_both_roles_register_with_whoever_leads(seed: int) -> None:
    with Cluster(seed, 3) as cluster:
        cluster.start()
        leader = cluster.settled()
        assert leader.node is not None
        cluster.wait(
            lambda: all(one.node is not None and len(one.node.loader.image.brokers) == 3 for one in cluster.cluster)
        )


def test_a_broker_alone_follows_the_controllers_and_serves_when_it_is_unfenced() -> None:
    cluster = Cluster(6, 2, controller_count=1)
    cluster.start()
    nodes = [node for name in ("node1", "node2") if (node := cluster.cluster[name].node) is not None]
    assert [(node.controller_role, node.raft.is_leader, node.raft.leader_id) for node in nodes] == [
        (None, False, 101),
        (None, False, 101),
    ]
    cluster.wait(lambda: all(not one.is_fenced for node in nodes for one in node.loader.image.brokers.values()))
    assert [sorted(node.loader.image.brokers) for node in nodes] == [[1, 2], [1, 2]]
    assert not cluster.errors


def test_voters_whose_leader_was_killed_do_not_wait_for_the_fetch_timeout() -> None:
    """Its host refuses connections. Now and then two stand at once, and the election timeout decides."""
    took_s = []
    for seed in range(5):
        with Cluster(seed, 0, controller_count=3) as quorum:
            quorum.start()
            first = quorum.settled()
            begun_us = quorum.loop.now_us
            first.kill(is_power_loss=False)
            assert quorum.settled() is not first
            took_s.append((quorum.loop.now_us - begun_us) / 1e6)
    assert sorted(took_s)[2] < 0.5
    assert max(took_s) < 4

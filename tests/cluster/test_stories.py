"""The stories that are told about replication, each with real processes, from its beginning to its end.

What is acknowledged with acks=all outlives every one of them; what acks=1 and an unclean election may lose is lost, and
nothing besides. After each, the replicas' log files are equal.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.cluster.replicas import check_equal_metadata
from tests.cluster.story import TOPIC, found, leader, send, story
from tests.durability.killing import Load, check, wait_for_progress
from tests.support.processes import ClusterProcesses

A_SOAK = pytest.mark.skipif(not os.environ.get("OTTLA_SOAK"), reason="each order once in make test: OTTLA_SOAK=1")
HEAD_START_S = 1.0
pytestmark = pytest.mark.timeout(180)


def test_the_leader_dies_with_a_lagging_follower(tmp_path: Path) -> None:
    """The one that stood still is not elected before it has what the other one has."""
    with story(tmp_path) as cluster:
        values = send(cluster, "all three")
        first = leader(cluster)
        lagging, other = (node.node_id for node in cluster.brokers if node.node_id != first)
        cluster[lagging].pause()
        cluster.wait(lambda: cluster.isr(TOPIC)[0] == sorted([first, other]), "the ISR without the lagging follower")
        values += send(cluster, "two of three")
        cluster[first].kill()
        cluster[lagging].resume()
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == other, "the election of the replica that has it all")
        cluster.wait(lambda: cluster.isr(TOPIC)[0] == sorted([lagging, other]), "the return of the lagging follower")
        values += send(cluster, "another two of three")
        cluster.start(first)
        assert found(cluster) == values


@pytest.mark.parametrize("returns_first", ["the last in sync", "the one behind"])
def test_all_replicas_die_and_return(returns_first: str, tmp_path: Path) -> None:
    """The replica that was in sync to the end leads again; one that was behind waits for it, however early it is."""
    with story(tmp_path, brokers=2, controllers=1, min_insync_replicas="1") as cluster:
        values = send(cluster, "both")
        last = leader(cluster)
        (behind,) = (node.node_id for node in cluster.brokers if node.node_id != last)
        cluster[behind].kill()
        values += send(cluster, "the last one alone")
        cluster[last].kill()
        if returns_first == "the last in sync":
            cluster.start(last)
            assert leader(cluster) == last
            assert found(cluster) == values
            cluster.start(behind)
        else:
            cluster.start(behind)
            # It may not lead, because it has not got everything: when the last one's session is over, nobody does.
            cluster.wait(lambda: cluster.leaders(TOPIC) == {}, "a partition without a leader")
            cluster.start(last)
            assert leader(cluster) == last
        values += send(cluster, "both again")
        assert found(cluster) == values


@pytest.mark.parametrize(
    ("order", "controllers"),
    [
        pytest.param("first to last", 0, id="first-to-last-with-the-quorum"),
        pytest.param("last to first", 1, id="last-to-first-beside-a-controller"),
        pytest.param("last to first", 0, id="last-to-first-with-the-quorum", marks=A_SOAK),
        pytest.param("first to last", 1, id="first-to-last-beside-a-controller", marks=A_SOAK),
    ],
)
def test_all_three_replicas_are_killed_at_once_and_return(order: str, controllers: int, tmp_path: Path) -> None:
    """With kill -9, while producers write with acks=all. The leader, which is the first, returns first or last."""
    with story(tmp_path, controllers=controllers) as cluster:
        loads = [
            Load(f"p{number}", cluster.addresses, pause_s=0.005, topic=TOPIC, partition_count=1) for number in range(2)
        ]
        for load in loads:
            load.start()
        try:
            wait_for_progress(loads)
            first = leader(cluster)
            brokers = [first, *(node.node_id for node in cluster.brokers if node.node_id != first)]
            wait_for_progress(loads)
            cluster.kill(*brokers)
            _return_in_turn(cluster, brokers if order == "first to last" else brokers[::-1])
            wait_for_progress(loads)
        finally:
            for load in loads:
                load.finish()
        check(cluster.addresses, loads)


def _return_in_turn(cluster: ClusterProcesses, node_ids: list[int]) -> None:
    """Each serves before the next one is started; where it needs a second voter for that, it is a second ahead."""
    needs_another = cluster[node_ids[0]] in cluster.controllers
    for number, node_id in enumerate(node_ids):
        cluster[node_id].launch()
        if number == 0 and needs_another:
            time.sleep(HEAD_START_S)
        else:
            for started in node_ids[: number + 1]:
                cluster[started].await_ready()


def test_the_controller_stands_still_and_returns(tmp_path: Path) -> None:
    """Another takes over meanwhile; the old one finds out, follows, and has the same metadata log in the end.

    What is cut off instead, and by whom, is in test_cuts.py."""
    with story(tmp_path, brokers=2, controllers=3, min_insync_replicas="1") as cluster:
        old = cluster.active_controller()
        cluster[old].pause()
        cluster.wait(lambda: cluster.active_controller() != old, "another controller")
        cluster.create_topic("meanwhile", 3, replicas=2)
        values = send(cluster, "meanwhile")
        new = cluster.active_controller()
        cluster[old].resume()
        cluster.create_topic("afterwards", 3, replicas=2)
        assert cluster.active_controller() == new
        assert found(cluster) == values
    check_equal_metadata(cluster, b"afterwards")


SLOW_TO_FENCE = {"broker.session.timeout.ms": "5000", "replica.lag.time.max.ms": "20000"}
"""Followers that stand still stay in the ISR until their leader is dead."""


def test_acks_1_loses_what_no_follower_had_yet_and_nothing_besides(tmp_path: Path) -> None:
    """acks=1 is the leader's word alone (producer setting `acks`): what it acknowledged and nobody had fetched is gone
    with it, also from its own log when it returns. What was replicated, or acknowledged with acks=all, stays."""
    with story(tmp_path, brokers=2, controllers=1, settings=SLOW_TO_FENCE, min_insync_replicas="1") as cluster:
        kept = send(cluster, "acks=all") + send(cluster, "acks=1, replicated", acks="1")
        first = leader(cluster)
        (follower,) = (node.node_id for node in cluster.brokers if node.node_id != first)
        kept += send(cluster, "acks=all again")  # its acknowledgement says that the follower has all of the above
        cluster[follower].pause()
        answered = send(cluster, "acks=1, answers the fetch that waits", 1, acks="1")
        send(cluster, "acks=1, fetched by nobody", acks="1")
        cluster[first].kill()
        cluster[follower].resume()
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == follower, "the election of the follower")
        survived = found(cluster)
        assert survived in (kept, kept + answered)
        kept = survived
        kept += send(cluster, "after the election")
        cluster.start(first)
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        assert found(cluster) == kept


def test_an_unclean_election_loses_what_the_elected_replica_had_not_and_nothing_besides(tmp_path: Path) -> None:
    """With `unclean.leader.election.enable` a replica out of sync leads rather than none: the topic is available again
    without what was acknowledged while that replica was away."""
    with story(
        tmp_path, brokers=2, controllers=1, min_insync_replicas="1", unclean_leader_election_enable="true"
    ) as cluster:
        kept = send(cluster, "both")
        last = leader(cluster)
        (behind,) = (node.node_id for node in cluster.brokers if node.node_id != last)
        cluster[behind].kill()
        lost = send(cluster, "the last one alone")
        assert found(cluster) == kept + lost
        cluster[last].kill()
        cluster.start(behind)
        cluster.wait(lambda: cluster.leaders(TOPIC).get(0) == behind, "the unclean election")
        assert found(cluster) == kept
        kept += send(cluster, "after the election")
        cluster.start(last)
        cluster.wait(lambda: cluster.is_in_sync(TOPIC), "the old leader in sync")
        assert found(cluster) == kept

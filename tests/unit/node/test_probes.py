"""Brokers that die, hang or are cut off, as the controller finds out: by asking their hosts, or by their sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ottla.sim.node import SimulatedNode
from tests.unit.node.simulated import Cluster

SESSION_S = 9.0


@pytest.fixture
def three() -> Iterator[Cluster]:
    with Cluster(1, 3) as cluster:
        cluster.start()
        yield cluster


def follower_of(cluster: Cluster) -> SimulatedNode:
    """A node that is not the active controller, unfenced and heard of by it."""
    leader = cluster.settled()
    victim = next(one for one in cluster.cluster if one is not leader)
    cluster.wait(lambda: not is_fenced(cluster, victim))
    pass_s(cluster, 5)
    return victim


def is_fenced(cluster: Cluster, victim: SimulatedNode) -> bool:
    """Whether the metadata of any other node says so."""
    others = [one.node for one in cluster.cluster if one is not victim and one.is_running and one.node is not None]
    return any(node.loader.image.brokers[int(victim.settings["node.id"])].is_fenced for node in others)


def pass_s(cluster: Cluster, seconds: float) -> None:
    end_us = cluster.loop.now_us + round(seconds * 1_000_000)
    cluster.loop.call_at_us(end_us, lambda: None)
    cluster.loop.run_until(lambda: cluster.loop.now_us >= end_us)


def fenced_after_s(cluster: Cluster, victim: SimulatedNode) -> float:
    begun_us = cluster.loop.now_us
    cluster.wait(lambda: is_fenced(cluster, victim))
    return (cluster.loop.now_us - begun_us) / 1e6


def test_a_killed_broker_is_fenced_as_soon_as_its_host_refuses_connections(three: Cluster) -> None:
    victim = follower_of(three)
    victim.kill(is_power_loss=False)
    assert fenced_after_s(three, victim) < 0.5


def test_a_killed_broker_need_not_wait_for_its_own_session_to_register(three: Cluster) -> None:
    victim = follower_of(three)
    victim.kill(is_power_loss=False)
    pass_s(three, 0.2)
    begun_us = three.loop.now_us
    three.start(victim.name)
    assert (three.loop.now_us - begun_us) / 1e6 < 3
    three.wait(lambda: not is_fenced(three, victim))


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda cluster, victim: victim.pause(), id="SIGSTOP"),
        pytest.param(lambda cluster, victim: victim.kill(is_power_loss=True), id="power loss"),
        pytest.param(lambda cluster, victim: cluster.network.links.isolate(victim.name), id="cut off"),
    ],
)
def test_a_broker_whose_host_does_not_answer_has_its_session_to_the_end(
    three: Cluster, harm: Callable[[Cluster, SimulatedNode], object]
) -> None:
    victim = follower_of(three)
    harm(three, victim)
    assert SESSION_S - 3 < fenced_after_s(three, victim) < SESSION_S + 3


def test_a_broker_that_could_never_be_reached_has_its_session_to_the_end() -> None:
    """Its registration names a port that always refuses: that it refuses now says nothing."""
    wrong = {"node3": {"advertised.listeners": "PLAINTEXT://node3:9999"}}
    with Cluster(1, 3, overrides=wrong) as cluster:
        cluster.start("node1", "node2")
        cluster.settled()
        cluster.start("node3")
        victim = cluster.cluster["node3"]
        cluster.wait(lambda: not is_fenced(cluster, victim))
        pass_s(cluster, 5)
        victim.kill(is_power_loss=False)
        assert SESSION_S - 3 < fenced_after_s(cluster, victim) < SESSION_S + 3


def test_a_refusal_of_a_broker_that_beats_on_is_ignored(three: Cluster) -> None:
    victim = follower_of(three)
    three.network.refuse_chance = 1.0
    pass_s(three, 30)
    assert not is_fenced(three, victim)


def test_a_new_controller_fences_the_broker_that_died_with_the_last_one(three: Cluster) -> None:
    follower_of(three)
    victim = three.settled()
    victim.kill(is_power_loss=False)
    three.wait(lambda: bool(three.leaders))
    assert fenced_after_s(three, victim) < 0.5

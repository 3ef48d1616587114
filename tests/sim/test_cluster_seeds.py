"""Seeds of clusters: nodes, clients and troubles of all kinds, and nothing that was promised may be broken.

A failure prints the command that replays it: `make sim NODES=3 SEED=8472`. The course is the same for any number of
nodes, and the same code runs a cluster of one.
"""

from __future__ import annotations

import os

import pytest

from ottla.sim import VirtualDisk
from ottla.sim.many import CLUSTER_FAULTS, make_cluster_scenario, run_cluster_seed
from ottla.sim.tree import FileNode

FOUND = {
    (108, 3): "a broker that was stopped knows only the last batch of a producer again, and the one before came twice",
    (
        64,
        5,
    ): "a coordinator that was replaced while it was paused answers with the offsets of its time, as Kafka's does",
}
"""Seeds, of so many nodes with both roles, that have found something; and what."""
IS_SOAK = bool(os.environ.get("OTTLA_SOAK"))
SEEDS = range(200 if IS_SOAK else 6)
MANY_NODES = [(nodes, seed) for nodes, count in ((3, 4), (5, 1)) for seed in range(200 if IS_SOAK else count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_a_cluster_has_promised_is_broken(seed: int) -> None:
    outcome = run_cluster_seed(seed, 1)
    assert outcome.failure is None, f"{outcome.failure}\n\nreplay: make sim NODES=1 SEED={seed}"
    assert outcome.counts["looks at offsets"] > 0
    scenario = make_cluster_scenario(seed, 1)
    if scenario.has_group:
        assert outcome.counts.get("offsets committed", 0) > 0, "a run without commits proves nothing"
    if scenario.has_copiers:
        assert outcome.counts.get("copies shown", 0) > 0, "a run without transactions proves nothing"


@pytest.mark.parametrize(("node_count", "seed"), MANY_NODES)
def test_nothing_that_many_nodes_have_promised_is_broken(node_count: int, seed: int) -> None:
    outcome = run_cluster_seed(seed, node_count, is_combined=True)
    replay = f"make sim NODES={node_count} ARGS=--combined SEED={seed}"
    assert outcome.failure is None, f"{outcome.failure}\n\nreplay: {replay}"
    assert outcome.counts["looks at offsets"] > 0
    assert outcome.counts["lives"] >= 2 * node_count, "at the latest in the end all nodes are killed and return"
    if make_cluster_scenario(seed, node_count, is_combined=True).has_copiers:
        assert outcome.counts.get("copies shown", 0) > 0, "a run without transactions proves nothing"


@pytest.mark.parametrize(("seed", "node_count"), FOUND)
def test_what_a_seed_of_a_cluster_has_found_is_mended(seed: int, node_count: int) -> None:
    outcome = run_cluster_seed(seed, node_count, is_combined=True)
    assert outcome.failure is None, f"{FOUND[seed, node_count]}: {outcome.failure}"


def test_scenarios_have_every_fault_both_kinds_of_roles_and_the_rule_that_keeps_what_is_acknowledged() -> None:
    for node_count in (3, 5):
        scenarios = [make_cluster_scenario(seed, node_count) for seed in range(200)]
        assert {fault for scenario in scenarios for fault in scenario.faults} == set(CLUSTER_FAULTS)
        assert any(not scenario.faults for scenario in scenarios)
        assert {scenario.is_synced for scenario in scenarios} == {True, False}
        assert {len(scenario.settings) for scenario in scenarios} == {node_count, node_count + 3}
        for scenario in scenarios:
            assert scenario.replication_factor == 3
            for own in scenario.settings.values():
                assert own["min.insync.replicas"] == "2"
                assert own["unclean.leader.election.enable"] == "false"
            assert (own.get("log.flush.interval.messages") == "1") is scenario.is_synced
        assert len({scenario.describe() for scenario in scenarios}) == 200


def test_a_lone_node_syncs_everything_because_nobody_else_has_it() -> None:
    assert all(make_cluster_scenario(seed, 1).is_synced for seed in range(50))


def test_a_disk_that_lies_about_the_syncs_of_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the course sees it when something that was acknowledged is gone after a power loss."""
    honest = VirtualDisk._sync

    def sync(self: VirtualDisk, node: FileNode, path: str) -> None:
        if not path.endswith(".log") or "__cluster_metadata" in path:
            honest(self, node, path)

    monkeypatch.setattr(VirtualDisk, "_sync", sync)
    seeds = [seed for seed in range(200) if "power" in make_cluster_scenario(seed, 1).faults][:12]
    failures = (run_cluster_seed(seed, 1, trace_lines=0).failure or "" for seed in seeds)
    assert any("was shown there" in failure or "is acknowledged by all as" in failure for failure in failures)

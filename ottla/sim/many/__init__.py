"""Runs of a whole cluster: `scenario` is what a seed stands for, `workload` and `observer` are its clients, `troubles`
goes wrong, and `run` is its course. What is promised is in `ottla.sim.checks` and `ottla.sim.ledger`."""

from ottla.sim.many.run import CLUSTER_CHECKS, ClusterSimulation, run_cluster_seed
from ottla.sim.many.scenario import CLUSTER_FAULTS, ClusterScenario, make_cluster_scenario

__all__ = [
    "ClusterSimulation",
    "run_cluster_seed",
    "CLUSTER_CHECKS",
    "ClusterScenario",
    "make_cluster_scenario",
    "CLUSTER_FAULTS",
]

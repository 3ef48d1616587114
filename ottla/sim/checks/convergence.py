"""What is still missing until a healed cluster is whole: every partition led, every replica in sync, every node agreed.

A pure comparison of what all nodes tell. The course of a run asks again and again, and what is missing at the end of
its patience is the finding.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ottla.sim.checks.leaders import NO_LEADER


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as one node tells it."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


def missing_of(
    views: Mapping[str, Mapping[str, PartitionView]], *, nodes: Collection[str], partitions: Collection[str]
) -> list[str]:
    """One line for each thing that is not as it should be; none when the cluster has converged.

    `views` is what each node tells of every partition; `nodes` are those that must tell, and `partitions` of what.
    """
    missing = [f"{node} tells nothing" for node in nodes if node not in views]
    for partition in partitions:
        told = {node: views[node][partition] for node in views if partition in views[node]}
        missing += [f"{node} does not know {partition}" for node in views if partition not in views[node]]
        for node, view in told.items():
            if view.leader == NO_LEADER:
                missing.append(f"{partition} has no leader, says {node}")
            elif view.leader not in view.isr:
                missing.append(f"{partition} is led by {view.leader}, which is not in its ISR {view.isr}, says {node}")
            if sorted(view.isr) != sorted(view.replicas):
                missing.append(f"{partition} has ISR {view.isr} of replicas {view.replicas}, says {node}")
            if view.offline:
                missing.append(f"{partition} has offline replicas {view.offline}, says {node}")
        if len({(view.leader, view.leader_epoch) for view in told.values()}) > 1:
            leaders = ", ".join(f"{node}: {view.leader} in epoch {view.leader_epoch}" for node, view in told.items())
            missing.append(f"{partition} has leaders by who is asked: {leaders}")
    return missing

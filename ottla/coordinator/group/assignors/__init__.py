"""Assignors: which member of a group should own which partition, decided by the coordinator (KIP-848).

`ASSIGNORS` has them by name. The results are Kafka's: the same members keep, give up and get the same partitions.
"""

from ottla.coordinator.group.assignors import heterogeneous, homogeneous, range
from ottla.coordinator.group.assignors.hash_order import (
    HashOrder,
    partition_order,
    text_hash,
    timeline_order,
    uuid_hash,
)
from ottla.coordinator.group.assignors.spec import (
    NO_PARTITIONS,
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
    same_partitions,
)


def uniform(spec: GroupSpec) -> dict[str, Assignment]:
    """Everybody the same number of partitions, and as few moves as that allows."""
    if not spec.members:
        return {}
    return homogeneous.assign(spec) if spec.is_homogeneous else heterogeneous.assign(spec)


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": range.assign}

__all__ = [
    "ASSIGNORS",
    "NO_PARTITIONS",
    "Assignment",
    "Assignor",
    "GroupSpec",
    "HashOrder",
    "MemberSpec",
    "partition_order",
    "same_partitions",
    "text_hash",
    "timeline_order",
    "uniform",
    "uuid_hash",
]

"""The group coordinator: groups of all protocols and their committed offsets, sharded over `__consumer_offsets`.

`GroupCoordinator` is what handlers ask; a `GroupShard` holds the groups of one partition, in families (`Family`): one
for each protocol, and the offsets. See README.md.
"""

from ottla.coordinator.group.consumer import assignor_names, check_consumer_protocol
from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.family import Family
from ottla.coordinator.group.group import Caller, CommitCheck, Group, GroupType
from ottla.coordinator.group.metrics import GroupMetrics
from ottla.coordinator.group.shard import GroupShard

__all__ = [
    "Caller",
    "CommitCheck",
    "Family",
    "Group",
    "GroupCoordinator",
    "GroupMetrics",
    "GroupShard",
    "GroupType",
    "assignor_names",
    "check_consumer_protocol",
]

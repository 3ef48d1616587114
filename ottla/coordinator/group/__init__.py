"""The group coordinator: groups of all protocols and their committed offsets, sharded over `__consumer_offsets`.

`GroupCoordinator` is what handlers ask; a `GroupShard` holds the groups of one partition, in families (`Family`): one
for each protocol, and the offsets. See README.md.
"""

from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.family import Family
from ottla.coordinator.group.group import Group, GroupType
from ottla.coordinator.group.shard import GroupShard

__all__ = ["Family", "Group", "GroupCoordinator", "GroupShard", "GroupType"]

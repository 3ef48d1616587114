"""The group coordinator: groups of all protocols and their committed offsets, sharded over `__consumer_offsets`.

`GroupCoordinator` is what handlers ask; a `GroupShard` holds the groups of one partition, in families (`Family`): one
for each protocol, and the offsets. See README.md. The families are loaded with the first shard: a node that has no
groups starts without them.
"""

from typing import TYPE_CHECKING

from ottla.coordinator.group.coordinator import GroupCoordinator
from ottla.coordinator.group.group import Caller, CommitCheck, Group, GroupType
from ottla.coordinator.group.metrics import GroupMetrics
from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer import assignor_names, check_consumer_protocol
    from ottla.coordinator.group.family import Family
    from ottla.coordinator.group.shard import GroupShard

_LAZY = {
    "Family": "ottla.coordinator.group.family",
    "GroupShard": "ottla.coordinator.group.shard",
    "assignor_names": "ottla.coordinator.group.consumer",
    "check_consumer_protocol": "ottla.coordinator.group.consumer",
}

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

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)

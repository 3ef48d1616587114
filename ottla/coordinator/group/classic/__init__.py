"""The classic protocol: groups whose members agree on assignments among themselves (JoinGroup, SyncGroup)."""

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.group.classic.groups import ClassicGroups, ClassicHost
from ottla.coordinator.group.classic.member import ClassicMember

__all__ = ["ClassicGroup", "ClassicGroups", "ClassicHost", "ClassicMember", "ClassicState"]

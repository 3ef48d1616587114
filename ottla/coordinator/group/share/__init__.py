"""Share groups: members that read partitions together, each record once (KIP-932)."""

from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.groups import ShareGroups
from ottla.coordinator.group.share.heartbeat import Heartbeat, Wanted
from ottla.coordinator.group.share.member import ShareMember
from ottla.coordinator.group.share.offsets import Altered, Deletion, ShareOffsets
from ottla.coordinator.group.share.state_topics import StateTopic, StateTopics

__all__ = [
    "Altered",
    "Deletion",
    "Heartbeat",
    "ShareGroup",
    "ShareGroups",
    "ShareMember",
    "ShareOffsets",
    "StateTopic",
    "StateTopics",
    "Wanted",
]

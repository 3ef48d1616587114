"""The consumer protocol (KIP-848): groups that the coordinator assigns, and whose members reconcile by heartbeats."""

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.groups import ConsumerGroups, assignor_names, check_consumer_protocol
from ottla.coordinator.group.consumer.member import Member, MemberState

__all__ = ["ConsumerGroup", "ConsumerGroups", "Member", "MemberState", "assignor_names", "check_consumer_protocol"]

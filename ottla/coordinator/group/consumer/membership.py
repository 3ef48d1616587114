"""Who may join a consumer group, and as whom: dynamic members, and static ones, which keep their place (KIP-345)."""

from __future__ import annotations

import logging
from dataclasses import replace

from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, Member
from ottla.coordinator.group.consumer.records import Records
from ottla.errors import FencedInstanceId, GroupMaxSizeReached, UnknownMemberId, UnreleasedInstanceId

log = logging.getLogger(__name__)


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    """A full group takes nobody who is not in it."""
    if len(group.members) >= size_max and member_id not in group.members:
        raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {size_max} members.")


def join(name: str, group: ConsumerGroup, member_id: str, *, protocol: str = "consumer") -> Member:
    """A dynamic member joins, perhaps again. `name` begins the log line."""
    log.info("[%s] [GroupId %s] Member %s joins the consumer group using the %s protocol", name, group.group_id,
             member_id, protocol)  # fmt: skip
    return group.members.get(member_id) or Member(member_id)


def join_static(
    name: str, group: ConsumerGroup, member_id: str, instance_id: str, made: Records, *, protocol: str = "consumer"
) -> Member:
    """A static member joins, or comes back in the place of the one that has the instance id.

    In the consumer protocol that one must have left; in the classic one the newcomer fences it, and so it is when
    members go from one protocol to the other.
    """
    existing = group.static_member(instance_id)
    group_id = group.group_id
    if existing is None:
        log.info("[%s] [GroupId %s] Static member %s with instance id %s joins the consumer group using the %s "
                 "protocol", name, group_id, member_id, instance_id, protocol)  # fmt: skip
        return group.members.get(member_id) or Member(member_id)
    if protocol == "consumer" and existing.classic is None and existing.epoch != LEAVE_STATIC_EPOCH:
        log.info("[%s] [GroupId %s] Static member %s with instance id %s cannot join the group because the instance id "
                 "is owned by member %s", name, group_id, member_id, instance_id, existing.member_id)  # fmt: skip
        raise UnreleasedInstanceId(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by member {existing.member_id}."
        )
    successor = replace(existing, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    # The old one's time-outs stay, in case this cannot be written; afterwards they find nobody.
    made += records.no_member(group_id, existing.member_id)
    made += [
        records.member_metadata(group_id, successor),
        records.target(group_id, member_id, group.targets.get(existing.member_id, {})),
        records.current(group_id, successor),
    ]
    log.info("[%s] [GroupId %s] Static member with instance id %s re-joins the consumer group using the %s protocol. "
             "Created a new member %s to replace the existing member %s", name, group_id, instance_id, protocol,
             member_id, existing.member_id)  # fmt: skip
    return successor


def check_static(name: str, group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """The member that has the instance id, which must be the one that asks."""
    existing = group.static_member(instance_id)
    if existing is None:
        raise UnknownMemberId(f"Instance id {instance_id} is unknown.")
    if existing.member_id != member_id:
        log.info("[%s] [GroupId %s] Static member %s with instance id %s is fenced by existing member %s", name,
                 group.group_id, member_id, instance_id, existing.member_id)  # fmt: skip
        raise FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {existing.member_id}."
        )
    return existing

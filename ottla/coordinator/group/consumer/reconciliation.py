"""A member's way from what it owns to what it should own (KIP-848).

    Stable ---------------- a new target asks it to give something up -----------> UnrevokedPartitions
    Stable, Unrevoked ----- nothing (more) to give up, others still have some ---> UnreleasedPartitions
    any ------------------- nothing to give up, nothing to wait for -------------> Stable

A member gives up partitions before it enters the target's epoch, and gets new ones once it is there and their former
owners have let go: so no partition has two owners. Pure: a member in, a member out. Called when a member's heartbeat
arrives; other members' moves are found then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ottla.coordinator.group.assignors import Assignment
from ottla.coordinator.group.consumer.member import NO_EPOCHS, Member, MemberState, PartitionEpochs
from ottla.errors import FencedMemberEpoch
from ottla.types import Uuid


class Owned(Protocol):
    """One topic of what a member says it owns."""

    topic_id: Uuid
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class Goal:
    """Where a member is to go: the target of an epoch, and what stands in its way."""

    epoch: int
    target: Assignment
    topic_ids: Collection[Uuid]
    """The topics it is subscribed to, of those that exist; it gets nothing else whatever the target says."""
    partition_epochs: Mapping[tuple[Uuid, int], int]
    """The partitions that somebody has."""
    names_topics: bool = True
    """Whether it is subscribed to anything at all, be it to topics that do not exist."""


def reconcile(
    member: Member, goal: Goal, owned: Collection[Owned] | None, *, has_subscription_changed: bool = False
) -> Member:
    """The member after it has told what it owns, None if it did not; the same one where nothing changes."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != goal.epoch:
                return _advance(member, member.epoch, goal, owned)
            return _trim(member, goal, owned) if has_subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if not _owns_any(owned, member.pending_revocation):
                return _advance(member, member.epoch, goal, owned)
            return _trim(member, goal, owned) if has_subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(member, member.epoch, goal, owned)
        case MemberState.UNKNOWN:
            # Only a member that has nothing can be sure to be understood.
            if owned is None or owned:
                raise FencedMemberEpoch(
                    "The member is in a state that this coordinator does not know. It must give up all its "
                    "partitions and join again."
                )
            return _advance(member, goal.epoch, goal, owned)


def _advance(member: Member, epoch: int, goal: Goal, owned: Collection[Owned] | None) -> Member:
    """Towards the target: keep what stays, then give up what goes, then take what is free."""
    keeps: dict[Uuid, Mapping[int, int]] = {}
    gives_up: dict[Uuid, Mapping[int, int]] = {}
    takes: dict[Uuid, list[int]] = {}
    must_wait = False
    for topic_id in dict.fromkeys([*goal.target, *member.assigned]):
        wanted = goal.target.get(topic_id, ()) if topic_id in goal.topic_ids else ()
        has = member.assigned.get(topic_id, {})
        kept = {partition: has[partition] for partition in wanted if partition in has}
        lost = {partition: since for partition, since in has.items() if partition not in kept}
        # What it is giving up is its own until then: it may have it back.
        own = member.pending_revocation.get(topic_id, {})
        missing = [partition for partition in wanted if partition not in kept]
        free = [one for one in missing if one in own or (topic_id, one) not in goal.partition_epochs]
        must_wait = must_wait or len(free) < len(missing)
        if kept:
            keeps[topic_id] = kept
        if lost:
            gives_up[topic_id] = lost
        if free:
            takes[topic_id] = free
    if gives_up and _owns_any(owned, gives_up):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, keeps, gives_up)
    for topic_id, partitions in takes.items():
        keeps[topic_id] = {**keeps.get(topic_id, {}), **dict.fromkeys(partitions, goal.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
    return _moved(member, goal.epoch, state, keeps, NO_EPOCHS)


def _trim(member: Member, goal: Goal, owned: Collection[Owned] | None) -> Member:
    """The subscription has changed but the target has not yet: topics it does not want any more go at once."""
    gone = {topic: epochs for topic, epochs in member.assigned.items() if topic not in goal.topic_ids}
    if not gone and (goal.names_topics or member.pending_revocation or not member.epoch):
        return member  # one that wants nothing is written once more, as Kafka writes it
    keeps = {topic: epochs for topic, epochs in member.assigned.items() if topic not in gone}
    gives_up = dict(member.pending_revocation)
    for topic_id, epochs in gone.items():
        gives_up[topic_id] = {**gives_up.get(topic_id, {}), **epochs}
    if gives_up and _owns_any(owned, gives_up):
        return _moved(member, member.epoch, MemberState.UNREVOKED_PARTITIONS, keeps, gives_up)
    return replace(member, previous_epoch=member.epoch, assigned=keeps)


def _moved(
    member: Member, epoch: int, state: MemberState, assigned: PartitionEpochs, pending_revocation: PartitionEpochs
) -> Member:
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def _owns_any(owned: Collection[Owned] | None, partitions: PartitionEpochs) -> bool:
    """Whether the member may still own one of these: who does not tell may own anything."""
    if owned is None:
        return True
    return any(
        partition in epochs
        for one in owned
        if (epochs := partitions.get(one.topic_id)) is not None
        for partition in one.partitions
    )

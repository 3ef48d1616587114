"""A group's next target: what each member should have, from the assignor, and the records that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinator.group.assignors import HashOrder, text_hash
from ottla.coordinator.group.streams.assignor import MemberSpec, assign
from ottla.coordinator.group.streams.configured import ConfiguredTopology
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.member import StreamsMember
from ottla.coordinator.group.streams.records import target_epoch_record, target_record
from ottla.coordinator.group.streams.settings import NUM_STANDBY_REPLICAS
from ottla.coordinator.group.streams.tasks import NO_TASKS, Tasks
from ottla.coordinator.record import CoordinatorRecord


class Target(NamedTuple):
    """What each member should have, and the records of what is new in that."""

    tasks: Mapping[str, Tasks]
    records: list[CoordinatorRecord]


def compute_target(
    group: StreamsGroup,
    configured: ConfiguredTopology,
    *,
    epoch: int,
    updated: StreamsMember | None,
    assignment_configs: Mapping[str, str],
    now_ms: int,
) -> Target:
    """The target of that epoch; `updated` is the member whose heartbeat asks for it, as it is after that."""
    members = dict(group.members)
    if updated is not None:
        members[updated.id] = updated
    if configured.is_ready:
        tasks = assign(
            {id: MemberSpec(member.process_id, group.target_of(id)) for id, member in members.items()},
            {id: one.spec for id, one in configured.subtopologies.items()},
            standby_replicas=int(assignment_configs.get(NUM_STANDBY_REPLICAS, "0")),
        )
    else:
        tasks = dict.fromkeys(members, NO_TASKS)
    records = [
        target_record(group.group_id, id, tasks[id])
        for id in HashOrder(text_hash, members)
        if group.target.get(id) != tasks[id]
    ]
    records.append(target_epoch_record(group.group_id, epoch, now_ms))
    return Target(tasks, records)

"""Between classic groups and the records of their generations."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.group.classic.group import EMPTY, STABLE, ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.record import CoordinatorRecord
from ottla.wire.coordinator.classic_group import GroupMetadataKey, GroupMetadataValue, MemberMetadata

GROUP_METADATA_VERSION = 3
NO_TIMEOUT = -1


def generation_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group's generation, with an assignment for each member."""
    name = group.protocol_name
    members = [
        MemberMetadata(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(name),
            assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        group.protocol_type, group.generation, name, group.leader_id, group.state_timestamp_ms, members
    )
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def creation_record(group: ClassicGroup) -> CoordinatorRecord:
    """A group that is new, before its first generation."""
    value = GroupMetadataValue("", 0, None, None, group.state_timestamp_ms, [])
    return CoordinatorRecord(GroupMetadataKey(group.group_id), value, GROUP_METADATA_VERSION)


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group as it was written: stable with its last generation, or empty."""
    group = ClassicGroup(
        group_id,
        STABLE if value.members else EMPTY,
        now_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol_name=value.protocol,
        leader_id=value.leader,
    )
    for one in value.members:
        group.add(
            ClassicMember(
                one.member_id,
                one.group_instance_id,
                one.client_id,
                one.client_host,
                # The first version of the record has the session's only.
                rebalance_timeout_ms=one.session_timeout
                if one.rebalance_timeout == NO_TIMEOUT
                else one.rebalance_timeout,
                session_timeout_ms=one.session_timeout,
                protocols=((value.protocol or "", bytes(one.subscription)),),
                assignment=bytes(one.assignment),
            )
        )
    group.note_subscribed_topics()
    return group

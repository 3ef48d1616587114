"""`Migration`: a group goes from the classic protocol to the consumer one and back, with its members at work.

A classic group becomes a consumer group when the first member of the new protocol joins it; the others stay what they
are, and are told by heartbeats to join again when something changes for them. It becomes a classic group again when the
last member of the new protocol leaves. `group.consumer.migration.policy` says which of the two is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.assignors import NO_PARTITIONS, HashOrder, partition_order, uuid_hash
from ottla.coordinator.group.classic import ClassicGroup, ClassicMember, ClassicState
from ottla.coordinator.group.classic.records import generation_record
from ottla.coordinator.group.consumer import embedded, records
from ottla.coordinator.group.consumer.group import CONSUMER, ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicSide, Member
from ottla.coordinator.group.consumer.records import Records
from ottla.errors import GroupIdNotFound, RebalanceInProgress
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)

UPGRADES = ("bidirectional", "upgrade")
DOWNGRADES = ("bidirectional", "downgrade")


class Migration:
    """See the module."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups

    @property
    def _policy(self) -> str:
        return self._groups.config.group_consumer_migration_policy.lower()

    @property
    def is_disabled(self) -> bool:
        """Whether members of the two protocols may not be in one group at all."""
        return self._policy not in (*UPGRADES, *DOWNGRADES)

    # To the consumer protocol

    def upgrade(self, classic: ClassicGroup, made: Records) -> ConsumerGroup:
        """The consumer group that a classic group with members becomes, and the records that make it so."""
        self._check_upgrade(classic)
        group = self._upgraded(classic)
        self._refuse_waiting(classic)
        group_id = classic.group_id
        members = group.members.values()
        made += classic.tombstones()
        made += [records.member_metadata(group_id, member) for member in members]
        made.append(records.group_epoch(group_id, group.epoch, group.metadata_hash))
        made += [records.target(group_id, member.member_id, group.targets[member.member_id]) for member in members]
        made.append(records.target_epoch(group_id, group.assignment_epoch, group.assignment_timestamp_ms))
        made += [records.current(group_id, member) for member in members]
        for member in members:
            assert member.classic is not None, "the members of a classic group speak the classic protocol"
            self._groups.leaves.begin_session(group_id, member.member_id, member.classic.session_timeout_ms)
        log.info("[%s] [GroupId %s] Converted the classic group to a consumer group", self._groups.name, group_id)
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        reason = None
        if self._policy not in UPGRADES:
            reason = "online upgrade is disabled"
        elif not classic.uses_consumer_protocol:
            reason = "the group does not use the consumer embedded protocol"
        elif len(classic.members) > self._groups.config.group_consumer_max_size:
            reason = "the group size exceeds the consumer group maximum size"
        if reason is not None:
            raise self._refused(classic, reason)

    def _refused(self, classic: ClassicGroup, reason: str) -> GroupIdNotFound:
        text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}"
        log.info("[%s] %s", self._groups.name, text)
        return GroupIdNotFound(f"{text}.")

    def _upgraded(self, classic: ClassicGroup) -> ConsumerGroup:
        """The group with its last assignment as the target, and every member there already."""
        image = self._groups.image
        group = self._groups.scratch(classic.group_id)
        group.set_epoch(classic.generation, 0)
        group.set_assignment_epoch(classic.generation, 0)
        for one in classic.members.values():
            try:
                # A member that has joined and never synced has no assignment.
                owned, has_user_data = (
                    embedded.read_assignment(one.assignment, image) if one.assignment else ({}, False)
                )
                subscription = embedded.read_subscription(one.metadata(classic.protocol_name))
            except embedded.Malformed:
                raise self._refused(classic, "the embedded consumer protocol is malformed") from None
            if has_user_data:
                raise self._refused(
                    classic,
                    "an unsupported custom assignor is in use: what it keeps in assignments would be lost; switch to "
                    "one of the standard assignors first",
                )
            group.targets[one.member_id] = {
                topic: partition_order(owned[topic]) for topic in HashOrder(uuid_hash, owned)
            }
            group.put_member(
                Member(
                    one.member_id,
                    epoch=classic.generation,
                    previous_epoch=classic.generation,
                    instance_id=one.group_instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=one.rebalance_timeout_ms,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    topic_names=frozenset(subscription.topics),
                    assigned={topic: dict.fromkeys(owned[topic], classic.generation) for topic in owned},
                    classic=ClassicSide(one.session_timeout_ms, one.protocols),
                )
            )
        group.set_epoch(classic.generation, self._groups.hash_of(group.topics))
        return group

    def _refuse_waiting(self, classic: ClassicGroup) -> None:
        """Members in the middle of a rebalance are to join again: there they meet the consumer group."""
        code = RebalanceInProgress.code
        for one in classic.members.values():
            classic.answer_join(one, JoinGroupResponse(error_code=code, member_id=one.member_id))
            classic.answer_sync(one, SyncGroupResponse(error_code=code))

    # To the classic protocol

    def can_downgrade_without(self, group: ConsumerGroup, leaving: Collection[Member]) -> bool:
        """Whether only members of the classic protocol are left when these have gone."""
        remaining = len(group.members) - len(leaving)
        remaining_classic = group.classic_count - sum(member.classic is not None for member in leaving)
        return remaining > 0 and remaining_classic == remaining and self._may_downgrade(group, remaining)

    def can_downgrade_replacing(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether only such members are left when one takes the static member's place."""
        is_last = replaced.classic is None and group.classic_count == len(group.members) - 1
        return is_last and self._may_downgrade(group, len(group.members))

    def _may_downgrade(self, group: ConsumerGroup, size: int) -> bool:
        reason = None
        if self._policy not in DOWNGRADES:
            reason = "the online downgrade is disabled"
        elif size > self._groups.config.group_max_size:
            reason = "its group size is greater than classic group max size"
        if reason is not None:
            log.info("[%s] Cannot downgrade consumer group %s to classic group because %s", self._groups.name,
                     group.group_id, reason)  # fmt: skip
        return reason is None

    def downgrade_without(self, group: ConsumerGroup, leaving: Collection[Member], made: Records) -> None:
        """The group is a classic one from now on, which rebalances because members have left."""
        gone = {member.member_id for member in leaving}
        made += group.tombstones()
        members = {member_id: member for member_id, member in group.members.items() if member_id not in gone}
        self._become_classic(
            group,
            members,
            {member_id: member_id for member_id in members},
            made,
            f"Downgrade group {group.group_id} from consumer to classic for member leaving.",
        )
        for member in group.members.values():
            self._groups.timeouts.cancel_all(group.group_id, member.member_id)

    def downgrade_replacing(self, group: ConsumerGroup, joining: Member, made: Records, *, rebalances: bool) -> None:
        """The same with a member in the place of the one that had its instance id; its records are made already."""
        replaced = group.static_member(joining.instance_id)
        assert replaced is not None, "who joins takes a static member's place"
        heirs = {one: one for one in group.members if one != replaced.member_id}
        made += group.tombstones_of(joining.member_id if one == replaced.member_id else one for one in group.members)
        members = {one: group.members[one] for one in heirs}
        members[joining.member_id] = joining
        heirs[joining.member_id] = replaced.member_id
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        self._become_classic(group, members, heirs, made, reason if rebalances else None)

    def _become_classic(
        self,
        group: ConsumerGroup,
        members: Mapping[str, Member],
        heirs: Mapping[str, str],
        made: Records,
        rebalance_reason: str | None,
    ) -> None:
        """Each member gets what the one that it is the heir of should own, which is mostly itself."""
        now_ms = self._groups.now_ms
        classic = ClassicGroup(
            group.group_id, ClassicState.STABLE, now_ms=now_ms, generation=group.epoch, protocol_type=CONSUMER
        )
        for member in members.values():
            assert member.classic is not None, f"member {member.member_id} does not speak the classic protocol"
            classic.add(
                ClassicMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocols=member.classic.protocols,
                )
            )
        classic.protocol_name = classic.select_protocol()
        classic.note_subscribed_topics()
        for one in classic.members.values():
            target = group.targets.get(heirs[one.member_id], NO_PARTITIONS)
            try:
                version = embedded.read_version(one.metadata(classic.protocol_name))
            except embedded.Malformed as error:
                log.warning("[%s] Cannot downgrade the consumer group %s: %s", self._groups.name, group.group_id, error)
                raise GroupIdNotFound(f"Cannot downgrade the consumer group {group.group_id}: {error}.") from None
            one.assignment = embedded.write_assignment(target, self._groups.image, version)
        made.append(generation_record(classic, {one.member_id: one.assignment for one in classic.members.values()}))
        family = self._groups.shard.classic
        family.adopt(classic)
        for one in classic.members.values():
            family.rebalances.renew_session(classic, one)
        if rebalance_reason is not None:
            result = family.rebalances.prepare(classic, rebalance_reason)
            assert not result.records, "the rebalance waits for the members, and writes nothing yet"
        log.info("[%s] [GroupId %s] Converted the consumer group to a classic group", self._groups.name, group.group_id)

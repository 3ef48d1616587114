"""`MemberUpdate`: what a member's heartbeat, or its JoinGroup, does to the group and to the member, in three steps.

1. `subscribe`: what the member has told anew is written; if that or the topics have changed, the group epoch moves on.
2. `assign`: if the group epoch is ahead of the target assignment, a new target is computed, though not more often than
   the group's interval allows (KIP-1263); until then the old one holds.
3. `reconcile`: the member moves towards the target.

Each step adds records; nothing changes before they are replayed, so a step sees the group as it was and carries what
the steps before it came to.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.coordinator.group.assignors import ASSIGNORS, Assignment, timeline_order
from ottla.coordinator.group.consumer import records, target
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import Member, MemberState
from ottla.coordinator.group.consumer.reconciliation import Goal, Owned, reconcile
from ottla.coordinator.group.consumer.records import Records
from ottla.coordinator.group.consumer.regex_refresh import RegexChange
from ottla.coordinator.group.consumer.subscriptions import count, is_homogeneous, topics_after
from ottla.coordinator.group.group import is_too_soon

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)


class MemberUpdate:
    """See the module. `before` is the member as the log has it, `after` as it is to be."""

    __slots__ = ("_epoch", "_groups", "_has_changed", "_is_homogeneous", "after", "before", "group", "records")

    def __init__(
        self, groups: ConsumerGroups, group: ConsumerGroup, before: Member, after: Member, records: Records
    ) -> None:
        self._groups = groups
        self.group = group
        self.before = before
        self.after = after
        self.records = records
        self._epoch = group.epoch
        self._is_homogeneous: bool | None = None
        self._has_changed = False

    # 1

    def subscribe(self, *, is_classic: bool = False) -> None:
        before, after, group = self.before, self.after, self.group
        have_names_changed = False
        if after is not before and after != before:
            self.records.append(records.member_metadata(group.group_id, after))
            have_names_changed = after.topic_names != before.topic_names
        change = self._groups.regexes.update(group, before, after, self.records)
        self._has_changed = have_names_changed or change is not RegexChange.NONE
        # An expression that is not resolved yet gives no reason to assign anew: its resolution will.
        bumps = self._has_changed if is_classic else have_names_changed or change is RegexChange.RESOLVED
        now_ms = self._groups.now_ms
        if bumps or group.must_refresh(now_ms):
            self._look_at_topics(now_ms, bumps=bumps)

    def _look_at_topics(self, now_ms: int, *, bumps: bool) -> None:
        before, after, group = self.before, self.after, self.group
        ended = []
        regex_counts = dict(group.regex_counts)
        if before.regex != after.regex:
            if before.regex is not None and regex_counts.get(before.regex) == 1 and before.regex in group.regexes:
                ended = [group.regexes[before.regex]]
            count(regex_counts, before.regex, -1)
            count(regex_counts, after.regex, 1)
        topics = topics_after(group.topics, without=[before], plus=after, ended=ended)
        metadata_hash = self._groups.hash_of(topics)
        is_new = after.member_id not in group.members and after.instance_id not in group.static_members
        self._is_homogeneous = is_homogeneous(regex_counts, topics.values(), len(group.members) + is_new)
        if bumps or metadata_hash != group.metadata_hash:
            self._epoch += 1
            self.records.append(self._groups.bump(group, self._epoch, metadata_hash))
        group.refresh_later(now_ms, self._epoch)
        if group.has_partition_metadata:
            self.records.append(records.no_partition_metadata(group.group_id))

    @property
    def must_assign(self) -> bool:
        """Whether the target assignment is behind."""
        return self.group.assignment_epoch < self._epoch

    # 2

    def assign(self) -> tuple[int, Assignment]:
        """The target assignment's epoch, and what the member should own."""
        group, after = self.group, self.after
        if not self.must_assign or not self._may_assign():
            return group.assignment_epoch, group.target_of(after)
        started_ms = self._groups.now_ms
        members = {member_id: group.members[member_id] for member_id in timeline_order(group.members)}
        members[after.member_id] = after
        inherited = {}
        previous = group.static_members.get(after.instance_id) if after.instance_id is not None else None
        if previous is not None and previous != after.member_id:
            members.pop(previous, None)
            inherited[after.member_id] = group.target_of(after)
        name = self._groups.assignor_name(group.preferred_assignor(self.before, after))
        assigned = target.assign(
            ASSIGNORS[name],
            members.values(),
            group.targets,
            inherited,
            {expression: resolved.topics for expression, resolved in group.regexes.items()},
            self._groups.image,
            is_homogeneous=self._are_alike(len(members)),
        )
        self.records += target.changes(group.group_id, group.targets, assigned)
        self.records.append(records.target_epoch(group.group_id, self._epoch, self._groups.now_ms))
        log.info("[%s] [GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor in %dms",
                 self._groups.name, group.group_id, self._epoch, name,
                 self._groups.now_ms - started_ms)  # fmt: skip
        return self._epoch, assigned[after.member_id]

    def _are_alike(self, member_count: int) -> bool:
        """Whether all members are subscribed to the same topics.

        Kafka does not count a member that joins with no topics here, and then may take everybody's partitions away.
        """
        if self._is_homogeneous is not None:
            return self._is_homogeneous
        return is_homogeneous(self.group.regex_counts, self.group.topics.values(), member_count)

    def _may_assign(self) -> bool:
        interval_ms = self._groups.settings(self.group.group_id).assignment_interval_ms
        return not is_too_soon(self._groups.now_ms, self.group.assignment_timestamp_ms, interval_ms)

    # 3

    def reconcile(self, epoch: int, wanted: Assignment, owned: Collection[Owned] | None) -> Member:
        """The member as it is then; its time to give up partitions begins or ends."""
        after, group = self.after, self.group
        if not self._has_changed and after.is_reconciled_to(epoch):
            return after
        names = target.subscription(after, {key: resolved.topics for key, resolved in group.regexes.items()})
        by_name = self._groups.image.topics.by_name
        topic_ids = {by_name[name].id for name in names if name in by_name}
        goal = Goal(epoch, wanted, topic_ids, group.partition_epochs, bool(names))
        moved = reconcile(after, goal, owned, has_subscription_changed=self._has_changed)
        if moved == after:
            return after
        self.records.append(records.current(group.group_id, moved))
        log.debug("[%s] [GroupId %s] Member %s new assignment state: epoch=%d, previousEpoch=%d, state=%s",
                  self._groups.name, group.group_id, moved.member_id, moved.epoch, moved.previous_epoch,
                  moved.state.name)  # fmt: skip
        if moved.classic is None:  # the others have time-outs of their own
            if moved.state is MemberState.UNREVOKED_PARTITIONS:
                self._groups.leaves.begin_rebalance(group.group_id, moved)
            else:
                self._groups.timeouts.cancel("rebalance", group.group_id, moved.member_id)
        return moved

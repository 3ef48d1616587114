"""`ConsumerGroup`: a group of the consumer protocol, as its records tell it.

A group has an epoch that moves on whenever its members, their subscriptions or their topics change; a target
assignment, computed for a group epoch; and members, each on its way to the target. The state clients are told follows
from these.

Promises: everything here but the time of the next look at the metadata is replicated: it changes in replay, by the
methods under "Replay", and can be taken back. A partition has at most one owner at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.coordinator.group.assignors import NO_PARTITIONS, Assignment, HashOrder, text_hash, timeline_order
from ottla.coordinator.group.assignors.hash_order import DEFAULT_CAPACITY
from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.member import LEAVE_EPOCH, NO_EPOCHS, Member, MemberState, PartitionEpochs
from ottla.coordinator.group.consumer.subscriptions import (
    ResolvedRegex,
    Subscribers,
    count,
    count_topics,
)
from ottla.coordinator.group.group import CommitCheck, Group, GroupType
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import (
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from ottla.machine import UndoDict, UndoLog
from ottla.types import Uuid

FIRST_EPOCH = 1
"""Of a group that nobody has joined yet, and of its empty target assignment."""
CONSUMER_COMMIT_VERSION = 9
"""From here on OffsetCommit knows member epochs."""
CONSUMER = "consumer"
REFRESH_MS = 2**31 - 1
"""How long a group's topics are taken to be as they were if nothing is heard; changes are told at once."""


class ConsumerGroup(Group):
    """See the module."""

    __slots__ = (
        "_undo",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "assignor_counts",
        "classic_count",
        "classic_protocols",
        "epoch",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "partition_epochs",
        "refresh_at_ms",
        "refresh_epoch",
        "regex_counts",
        "regexes",
        "static_members",
        "targets",
        "topics",
    )

    type = GroupType.CONSUMER
    protocol_type = CONSUMER

    def __init__(self, group_id: str, undo: UndoLog) -> None:
        super().__init__(group_id)
        self._undo = undo
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        """Of the topics that the epoch is about."""
        self.members: UndoDict[str, Member] = UndoDict(undo)
        self.static_members: UndoDict[str, str] = UndoDict(undo)
        """Instance id -> member id."""
        self.assignment_epoch = FIRST_EPOCH
        """The group epoch that the target assignment is for."""
        self.assignment_timestamp_ms = 0
        self.targets: UndoDict[str, Assignment] = UndoDict(undo)
        self.topics: UndoDict[str, Subscribers] = UndoDict(undo)
        """The topics that are subscribed to, whether they exist or not."""
        self.regex_counts: UndoDict[str, int] = UndoDict(undo)
        self.regexes: UndoDict[str, ResolvedRegex] = UndoDict(undo)
        self.assignor_counts: UndoDict[str, int] = UndoDict(undo)
        self.partition_epochs: UndoDict[tuple[Uuid, int], int] = UndoDict(undo)
        """The epoch of the member that has each partition or is giving it up; free ones are not in it."""
        self.classic_count = 0
        """How many members speak the classic protocol."""
        self.classic_protocols: UndoDict[str, int] = UndoDict(undo)
        self.has_partition_metadata = False
        """The log has a record of the group's topics from before 4.1, which is to be ended."""
        self.refresh_at_ms = 0
        """When a heartbeat is to look at the topics' hash again: soft, like the epoch below it."""
        self.refresh_epoch = 0
        """The group epoch that the last look came to; the group is below it when that could not be written."""

    # States

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        """Who has the instance id, if anybody has."""
        return None if instance_id is None else self.members.get(self.static_members.get(instance_id, ""))

    def target_of(self, member: Member) -> Assignment:
        """What a member should own; one that is about to take a static member's place should own what that one did."""
        member_id: str | None = member.member_id
        if member.instance_id is not None:
            member_id = self.static_members.get(member.instance_id)
        return NO_PARTITIONS if member_id is None else self.targets.get(member_id, NO_PARTITIONS)

    def preferred_assignor(self, before: Member | None = None, after: Member | None = None) -> str | None:
        """The assignor that most members ask for, as it will be when `after` stands in the place of `before`.

        Of several that equally many ask for, it is the one that Kafka meets first in its tables.
        """
        counts = dict(self.assignor_counts)
        order = timeline_order(counts)
        if before is not None or after is not None:
            table = HashOrder(text_hash, order, capacity=int(len(order) / 0.75 + 1) if order else DEFAULT_CAPACITY)
            if before is not None and before.assignor is not None:
                count(counts, before.assignor, -1)
                if before.assignor not in counts:
                    table.discard(before.assignor)
            if after is not None and after.assignor is not None:
                count(counts, after.assignor, 1)
                table.add_if_absent(after.assignor)
            order = list(table)
        return max(order, key=counts.__getitem__, default=None)

    def is_waiting_for_others(self, member: Member) -> bool:
        """Whether partitions that the member should own still belong to somebody."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and (topic_id, partition) in self.partition_epochs
            for topic_id, partitions in self.targets.get(member.member_id, NO_PARTITIONS).items()
            for partition in partitions
        )

    def supports_classic(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these strategies can join: all classic members must share one."""
        if protocol_type != CONSUMER:
            return False
        if self.is_empty:
            return any(True for _ in protocols)
        return any(self.classic_protocols.get(name, 0) == self.classic_count for name in protocols)

    # Looking at the metadata

    def must_refresh(self, now_ms: int) -> bool:
        return now_ms >= self.refresh_at_ms or self.epoch < self.refresh_epoch

    def refresh_later(self, now_ms: int, epoch: int) -> None:
        """The topics were looked at; the group's epoch is this one now."""
        self.refresh_at_ms = now_ms + REFRESH_MS
        self.refresh_epoch = epoch

    def refresh_soon(self) -> None:
        """A topic of the group has changed."""
        self.refresh_at_ms = self.refresh_epoch = 0

    # Replay

    def set_epoch(self, epoch: int, metadata_hash: int) -> None:
        self._undo.assign(self, "epoch", epoch)
        self._undo.assign(self, "metadata_hash", metadata_hash)

    def set_assignment_epoch(self, epoch: int, timestamp_ms: int) -> None:
        self._undo.assign(self, "assignment_epoch", epoch)
        self._undo.assign(self, "assignment_timestamp_ms", timestamp_ms)

    def set_has_partition_metadata(self, value: bool) -> None:
        self._undo.assign(self, "has_partition_metadata", value)

    def put_regex(self, expression: str, resolved: ResolvedRegex | None) -> None:
        """What an expression matches from now on; None for one that is nobody's any more."""
        before = self.regexes.pop(expression, None)
        if before is not None:
            count_topics(self.topics, before.topics, by_regex=-1)
        if resolved is not None:
            self.regexes[expression] = resolved
            count_topics(self.topics, resolved.topics, by_regex=1)

    def put_member(self, after: Member) -> None:
        """A member is new or has changed."""
        before = self.members.get(after.member_id)
        self.members[after.member_id] = after
        self._recount(before, after)
        if after.instance_id is not None and self.static_members.get(after.instance_id) != after.member_id:
            self.static_members[after.instance_id] = after.member_id

    def forget_assignment(self, member_id: str) -> None:
        """The member has left: it owns nothing any more."""
        before = self.members.get(member_id)
        if before is not None:
            self.put_member(
                replace(
                    before,
                    epoch=LEAVE_EPOCH,
                    previous_epoch=LEAVE_EPOCH,
                    assigned=NO_EPOCHS,
                    pending_revocation=NO_EPOCHS,
                )
            )

    def remove_member(self, member_id: str) -> None:
        before = self.members.get(member_id)
        if before is None:
            return
        assert before.epoch == LEAVE_EPOCH, f"member {member_id} of {self.group_id} goes before its assignment has"
        assert member_id not in self.targets, f"member {member_id} of {self.group_id} goes before its target has"
        del self.members[member_id]
        self._recount(before, None)
        if before.instance_id is not None:
            self.static_members.pop(before.instance_id, None)

    def _recount(self, before: Member | None, after: Member | None) -> None:
        old, new = before or _NOBODY, after or _NOBODY
        if old.topic_names != new.topic_names:
            count_topics(self.topics, old.topic_names, by_name=-1)
            count_topics(self.topics, new.topic_names, by_name=1)
        if old.assignor != new.assignor:
            count(self.assignor_counts, old.assignor, -1)
            count(self.assignor_counts, new.assignor, 1)
        if old.regex != new.regex:
            count(self.regex_counts, old.regex, -1)
            count(self.regex_counts, new.regex, 1)
        if old.classic != new.classic:
            is_more = (new.classic is not None) - (old.classic is not None)
            if is_more:
                self._undo.assign(self, "classic_count", self.classic_count + is_more)
            for side, by in ((old.classic, -1), (new.classic, 1)):
                for name, _ in () if side is None else side.protocols:
                    count(self.classic_protocols, name, by)
        if old.epoch != new.epoch or old.assigned != new.assigned or old.pending_revocation != new.pending_revocation:
            self._release(old.assigned, old.epoch)
            self._release(old.pending_revocation, old.epoch)
            self._take(new.assigned, new.epoch)
            self._take(new.pending_revocation, new.epoch)

    def _release(self, owned: PartitionEpochs, epoch: int) -> None:
        """The partitions are free, unless somebody has them already at another epoch.

        That is so when a compacted log has lost the record in which this member gave them up.
        """
        for topic_id, partitions in owned.items():
            for partition in partitions:
                if self.partition_epochs.get((topic_id, partition)) == epoch:
                    del self.partition_epochs[topic_id, partition]

    def _take(self, owned: PartitionEpochs, epoch: int) -> None:
        for topic_id, partitions in owned.items():
            for partition in partitions:
                held = self.partition_epochs.get((topic_id, partition))
                assert held is None or held < epoch, (
                    f"group {self.group_id}: {topic_id}-{partition} is taken at epoch {epoch} but owned at {held}"
                )
                self.partition_epochs[topic_id, partition] = epoch

    # What groups of all protocols are asked

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        if generation < 0 and not self.members:
            return None  # from outside of the group: a consumer without membership, or a tool
        if is_transactional and generation == -1 and not member_id and group_instance_id is None:
            return None  # transactional producers need not tell who they are
        member = self.member(member_id)
        if not is_transactional and member.classic is None and version < CONSUMER_COMMIT_VERSION:
            raise UnsupportedVersion(
                f"Members of the consumer protocol commit with version {CONSUMER_COMMIT_VERSION} or above."
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            raise _epoch_error(member, f"is newer than the member's, {member.epoch}", generation)

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            given = member.epoch_of(topic_id, partition)
            if given is None:
                raise _epoch_error(member, f"is old, and {topic}-{partition} is not the member's", generation)
            if generation < given:
                raise _epoch_error(member, f"is older than {given}, when {topic}-{partition} was assigned", generation)

        return check

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.epoch:
            raise _epoch_error(member, f"is not the member's, {member.epoch}", member_epoch)

    def check_offset_delete(self) -> None:
        """Offsets of topics that nobody is subscribed to may go at any time."""

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topics

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """The end of the group if these are its members when it ends."""
        group_id = self.group_id
        ids = list(member_ids)
        return [
            *(records.no_current(group_id, member_id) for member_id in ids),
            *(records.no_target(group_id, member_id) for member_id in ids),
            records.no_target_epoch(group_id),
            *(records.no_metadata(group_id, member_id) for member_id in ids),
            *(records.no_regex(group_id, expression) for expression in self.regexes),
            records.no_partition_metadata(group_id),
            records.no_group(group_id),
        ]

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms


_NOBODY = Member("")


def _epoch_error(member: Member, what: str, epoch: int) -> KafkaError:
    """Members are told in the words of their own protocol."""
    if member.classic is None:
        return StaleMemberEpoch(f"The member epoch {epoch} {what}.")
    return IllegalGeneration(f"The generation {epoch} {what}.")

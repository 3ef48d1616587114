"""`ShareGroup`: the members of a share group, and what each of them should read.

Replicated attributes change in replay only; `refresh_ms` and what is cached are this coordinator's own.
"""

from __future__ import annotations

from ottla.coordinator.group.assignors import Assignment
from ottla.coordinator.group.group import CommitCheck, Group, GroupType
from ottla.coordinator.group.share import records
from ottla.coordinator.group.share.member import ShareMember
from ottla.coordinator.group.share.simple_assignor import NAME
from ottla.coordinator.group.share.state_topics import StateTopics
from ottla.coordinator.record import CoordinatorRecord
from ottla.errors import GroupIdNotFound, NonEmptyGroup, UnknownMemberId
from ottla.machine import UndoDict, UndoLog
from ottla.metadata import Image, TopicsImage
from ottla.wire.messages.share_group_describe import Assignment as DescribedAssignment
from ottla.wire.messages.share_group_describe import DescribedGroup, TopicPartitions
from ottla.wire.messages.share_group_describe import Member as DescribedMember

NO_STATE = StateTopics()
INITIAL_EPOCH = 1
"""Of a group and its target before anything was written; the target of a group that has ended is at -1."""


class ShareGroup(Group):
    """See the module."""

    __slots__ = (
        "_complete_of",
        "_pending",
        "_pending_of",
        "assignment_epoch",
        "assignment_ms",
        "epoch",
        "members",
        "metadata_hash",
        "refresh_epoch",
        "refresh_ms",
        "state_topics",
        "targets",
    )

    type = GroupType.SHARE
    should_expire = False
    protocol_type = "share"

    def __init__(self, group_id: str, undo: UndoLog) -> None:
        super().__init__(group_id)
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = 0
        self.members: UndoDict[str, ShareMember] = UndoDict(undo)
        self.targets: UndoDict[str, Assignment] = UndoDict(undo)
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_ms = 0
        """When it was computed; 0 when there is none."""
        self.state_topics = NO_STATE
        self.refresh_ms = 0
        """When the metadata of the topics is looked at again, though no change was told."""
        self.refresh_epoch = 0
        """The epoch that was to come when the metadata was last looked at; should it not have come, look again."""
        self._pending_of: object = None
        self._pending = False
        self._complete_of: tuple[TopicsImage, int, StateTopics] | None = None

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ShareMember:
        """The member; `UnknownMemberId` when there is none."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def topic_names(self, changed: ShareMember | None = None, *, without: str = "") -> set[str]:
        """What the members are subscribed to, with one of them as it will be, or without one that goes."""
        names: set[str] = set() if changed is None else set(changed.topic_names)
        skipped = without if changed is None else changed.member_id
        for member in self.members.values():
            if member.member_id != skipped:
                names |= member.topic_names
        return names

    def has_expired_metadata(self, now_ms: int) -> bool:
        return now_ms >= self.refresh_ms or self.epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """A topic that members are subscribed to has changed."""
        self.refresh_ms = self.refresh_epoch = 0

    @property
    def has_unassigned_state(self) -> bool:
        """Whether there are partitions with state, in topics that members are subscribed to, that nobody reads.

        Asked with every heartbeat, so it is found out once for each target and each state.
        """
        key = (self.state_topics, self.epoch, self.assignment_epoch)
        if self._pending_of is None or self._pending_of != key:
            self._pending = self._find_unassigned()
            self._pending_of = key
        return self._pending

    def _find_unassigned(self) -> bool:
        if not self.members or not self.state_topics.initialized:
            return False
        names = self.topic_names()
        for topic_id, topic in self.state_topics.initialized.items():
            if topic.name not in names:
                continue
            assigned = {one for target in self.targets.values() for one in target.get(topic_id, ())}
            if assigned != topic.partitions:
                return True
        return False

    def note_complete(self, topics: TopicsImage) -> None:
        """As the topics are, all partitions of the members' topics have state: nobody need look until that changes."""
        if not self.state_topics.initializing:
            self._complete_of = (topics, self.epoch, self.state_topics)

    def is_complete(self, topics: TopicsImage) -> bool:
        known = self._complete_of
        return known is not None and known[0] is topics and known[1] == self.epoch and known[2] is self.state_topics

    # What the everyday APIs ask

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        raise self._no_offsets()

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        raise self._no_offsets()

    def check_offset_delete(self) -> None:
        raise self._no_offsets()

    def _no_offsets(self) -> GroupIdNotFound:
        return GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.members.values())

    def tombstones(self) -> list[CoordinatorRecord]:
        members = [one for member_id in self.members for one in records.member_tombstones(self.group_id, member_id)]
        return members + records.group_tombstones(self.group_id)

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        return None

    def describe(self, image: Image) -> DescribedGroup:
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor_name=NAME,
            members=[_described(member, image) for member in self.members.values()],
        )


def _described(member: ShareMember, image: Image) -> DescribedMember:
    by_id = image.topics.by_id
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=DescribedAssignment(
            [
                TopicPartitions(topic_id, by_id[topic_id].name, list(partitions))
                for topic_id, partitions in member.assigned.items()
                if topic_id in by_id
            ]
        ),
    )

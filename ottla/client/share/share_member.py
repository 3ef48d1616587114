"""A member of a share group (KIP-932): what it tells with its heartbeats, and what the coordinator tells it.

Simpler than a member of a consumer group: partitions are shared, so nothing has to be given up before another member
may have it, and an assignment is taken over as it comes. No I/O and no time. Driven by `share_membership`.
"""

from __future__ import annotations

from ottla.client.group.heartbeats import GO_ON, Beat, BeatVerdict, MemberState, refused
from ottla.client.network import Build
from ottla.errors import KafkaError, UnsupportedVersion
from ottla.types import Uuid
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

HEARTBEAT_KEY = 76
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
NOT_SUPPORTED = "The cluster does not support share groups: its feature share.version is not 1 or higher"


class ShareMember:
    def __init__(self, group_id: str, member_id: str, *, rack: str | None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self._rack = rack
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self.topics: tuple[str, ...] = ()
        self.target: dict[Uuid, tuple[int, ...]] = {}
        """What the coordinator has assigned."""
        self.joins = 0
        self._sent_topics: tuple[str, ...] | None = None

    @property
    def is_in_group(self) -> bool:
        return self.state in (MemberState.JOINING, MemberState.STABLE)

    @property
    def must_heartbeat_now(self) -> bool:
        return self.state is MemberState.JOINING or (self.is_in_group and self._sent_topics not in (None, self.topics))

    @property
    def has_nothing(self) -> bool:
        return not self.target

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics = topics

    def join(self) -> None:
        """Be a new member with the next heartbeat."""
        self.state = MemberState.JOINING
        self.epoch = JOIN_EPOCH
        self.target = {}
        self.joins += 1
        self._sent_topics = None

    def heartbeat_request(self) -> Build:
        """The next heartbeat, with what the coordinator does not know yet."""
        is_full = self.state is MemberState.JOINING
        request = ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch)
        if is_full:
            request.rack_id = self._rack
        if is_full or self._sent_topics != self.topics:
            request.subscribed_topic_names = sorted(self.topics)
        self._sent_topics = self.topics
        return Build(HEARTBEAT_KEY, lambda _: request)

    def leave_request(self) -> ShareGroupHeartbeatRequest | None:
        """The last heartbeat; None when there is no place to give up."""
        was_in_group = self.is_in_group
        self.state = MemberState.UNSUBSCRIBED
        self.target = {}
        if not was_in_group:
            return None
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH)

    def begin_stale(self) -> None:
        """The user does not poll: out until it does."""
        self.state = MemberState.STALE

    def on_lost(self) -> None:
        """A heartbeat was not answered: the next one tells everything again."""
        self._sent_topics = None

    def on_heartbeat(self, response: ShareGroupHeartbeatResponse, joins: int) -> BeatVerdict:
        """The answer to a heartbeat that was sent after `joins` joins."""
        if joins != self.joins or not self.is_in_group:
            return GO_ON
        if response.error_code:
            self._sent_topics = None
            verdict = refused(response.error_code, response.error_message, self.group_id)
            if verdict.next is Beat.LET_GO:
                self.state = MemberState.FENCED
                self.target = {}
            elif verdict.next is Beat.FAIL:
                self.state = MemberState.FATAL
                if isinstance(verdict.error, UnsupportedVersion):
                    verdict = BeatVerdict(Beat.FAIL, UnsupportedVersion(NOT_SUPPORTED))
            return verdict
        self.epoch = response.member_epoch
        self.state = MemberState.STABLE
        if response.assignment is not None:
            self.target = {
                Uuid(one.topic_id): tuple(sorted(one.partitions))
                for one in sorted(response.assignment.topic_partitions, key=lambda one: one.topic_id)
            }
        return GO_ON

    def on_refused(self, error: KafkaError) -> BeatVerdict:
        """A heartbeat could not be sent, for a reason that time does not mend."""
        self.state = MemberState.FATAL
        return BeatVerdict(
            Beat.FAIL, UnsupportedVersion(NOT_SUPPORTED) if isinstance(error, UnsupportedVersion) else error
        )

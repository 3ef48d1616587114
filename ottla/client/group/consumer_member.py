"""A member of a consumer group (KIP-848): what it tells with its heartbeats, and what the coordinator tells it.

The coordinator shares out; every heartbeat may bring a new target, which the member carries out step by step: it gives
up what is not in it, takes what is, and acknowledges. No I/O and no time. Promises: a heartbeat tells only what has
changed since the last that was answered, and everything after a failure; a target is acknowledged only once it is
carried out; a member that is fenced or stale joins again with epoch 0 after it has let go of everything. As Kafka's
AbstractMembershipManager. Driven by `consumer_membership`; tests/transcripts/client_consumer are its conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.errors import CommitFailed
from ottla.client.group.commits import POLL_TOO_SLOW, Identity
from ottla.client.group.heartbeats import GO_ON, Beat, BeatVerdict, MemberState, refused
from ottla.client.group.interface import Subscription
from ottla.client.network import Build
from ottla.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
)
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

HEARTBEAT_KEY = 68
REGEX_VERSION = 1
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH = 0, -1, -2

PartitionsById = Mapping[Uuid, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Local:
    """An assignment and how many came before it: the same partitions given anew are acknowledged anew."""

    number: int = -1
    partitions: PartitionsById = field(default_factory=dict)


NOTHING = Local()


class ConsumerMember:
    """One member, from `join` to `leave`, and again."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None,
        rack: str | None,
        rebalance_timeout_ms: int,
        assignor: str | None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self._rack = rack
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._assignor = assignor
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self.subscription = Subscription()
        self.target = NOTHING
        self.current = NOTHING
        """What was carried out last."""
        self.joins = 0
        """How often the member has joined: what was begun before the last of them is of no use any more."""
        self._sent = _Sent()

    # What is true

    @property
    def is_in_group(self) -> bool:
        return self.state in (
            MemberState.JOINING,
            MemberState.RECONCILING,
            MemberState.ACKNOWLEDGING,
            MemberState.STABLE,
        )

    @property
    def must_heartbeat_now(self) -> bool:
        if self.state in (MemberState.JOINING, MemberState.ACKNOWLEDGING):
            return True
        return self.is_in_group and self._sent.subscription not in (None, self.subscription)

    @property
    def has_nothing(self) -> bool:
        return not self.target.partitions

    @property
    def is_reconciled(self) -> bool:
        return self.current == self.target

    # Commands

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def join(self) -> None:
        """Be a new member with the next heartbeat."""
        assert self.state is not MemberState.FATAL, "who is refused for good does not come back"
        self.state = MemberState.JOINING
        self.epoch = JOIN_EPOCH
        self.target = self.current = NOTHING
        self.joins += 1
        self._sent = _Sent()

    def begin_stale(self) -> None:
        self.state = MemberState.STALE

    def reconciled(self, carried_out: Local) -> None:
        """The target, or the part of it whose topics are known, is carried out."""
        self.current = carried_out
        self.state = MemberState.ACKNOWLEDGING

    def leave_request(self, *, keep_place: bool) -> ConsumerGroupHeartbeatRequest | None:
        """The last heartbeat; None when there is no place to give up."""
        was_in_group = self.is_in_group or self.state is MemberState.STALE
        self.state = MemberState.UNSUBSCRIBED
        epoch = LEAVE_FOR_A_WHILE_EPOCH if keep_place and self.instance_id is not None else LEAVE_EPOCH
        if not was_in_group or (keep_place and self.instance_id is None):
            return None
        self.epoch = epoch
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    # Heartbeats

    def heartbeat_request(self) -> Build:
        """The next heartbeat, with what the coordinator does not know yet."""
        assert self.is_in_group, f"a member that is {self.state.value} sends no heartbeat"
        is_full = self.state is MemberState.JOINING
        sent, subscription = self._sent, self.subscription
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if is_full:
            request.rack_id = self._rack
        if is_full or not sent.has_constants:
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._assignor
        if is_full or sent.subscription is None or sent.subscription.topics != subscription.topics:
            request.subscribed_topic_names = sorted(subscription.topics)
        known_pattern = None if sent.subscription is None else sent.subscription.pattern
        if (is_full and subscription.pattern is not None) or known_pattern != subscription.pattern:
            request.subscribed_topic_regex = subscription.pattern or ""
        if is_full or sent.local != self.current:
            request.topic_partitions = [
                TopicPartitions(topic_id, list(partitions)) for topic_id, partitions in self.current.partitions.items()
            ]
        self._sent = _Sent(True, subscription, self.current)
        if self.state is MemberState.ACKNOWLEDGING:
            self.state = MemberState.STABLE if self.is_reconciled else MemberState.RECONCILING
        needed = REGEX_VERSION if request.subscribed_topic_regex is not None else 0
        return Build(HEARTBEAT_KEY, lambda _: request, needed)

    def on_lost(self) -> None:
        """A heartbeat was not answered: the next one tells everything again."""
        self._sent = _Sent()

    def on_heartbeat(self, response: ConsumerGroupHeartbeatResponse, joins: int) -> BeatVerdict:
        """The answer to a heartbeat that was sent after `joins` joins."""
        if joins != self.joins or not self.is_in_group:
            return GO_ON  # it tells of a member that this one is not any more
        if response.error_code:
            self._sent = _Sent()
            return self._on_error(response)
        if response.member_id:
            self.member_id = response.member_id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            told = {
                Uuid(one.topic_id): tuple(sorted(one.partitions))
                for one in sorted(response.assignment.topic_partitions, key=lambda one: one.topic_id)
            }
            if self.target.number < 0 or told != self.target.partitions:
                self.target = Local(self.target.number + 1, told)
            if not self.is_reconciled:
                self.state = MemberState.RECONCILING
            elif self.state in (MemberState.RECONCILING, MemberState.JOINING):
                self.state = MemberState.STABLE
        elif self.state is MemberState.JOINING:
            # Nothing to own yet is told by an empty assignment: until it comes, the member waits for it.
            self.state = MemberState.STABLE
        return GO_ON

    def _on_error(self, response: ConsumerGroupHeartbeatResponse) -> BeatVerdict:
        verdict = refused(response.error_code, response.error_message, self.group_id)
        match verdict.error:
            case FencedInstanceId() | UnreleasedInstanceId():
                reason = f"Another consumer has the group.instance.id {self.instance_id}, and this one is out"
                verdict = BeatVerdict(Beat.FAIL, type(verdict.error)(f"{reason}: {verdict.error}"))
            case _:
                pass
        if verdict.next is Beat.LET_GO:
            self.state = MemberState.FENCED
            self.epoch = JOIN_EPOCH
        elif verdict.next is Beat.FAIL:
            self.state = MemberState.FATAL
        return verdict

    def on_refused(self, error: KafkaError) -> BeatVerdict:
        """A heartbeat could not be sent, for a reason that time does not mend."""
        if isinstance(error, UnsupportedVersion):
            if self.subscription.pattern is not None:
                error = UnsupportedVersion("The cluster does not support patterns that the broker matches")
            else:
                error = UnsupportedVersion("The cluster does not support the consumer protocol: see group.protocol")
        self.state = MemberState.FATAL
        return BeatVerdict(Beat.FAIL, error)

    # Commits

    def commit_as(self) -> Identity:
        if self.state in (MemberState.FENCED, MemberState.STALE, MemberState.FATAL):
            raise CommitFailed(POLL_TOO_SLOW)
        return self.identity

    @property
    def identity(self) -> Identity:
        """Who the member is to the coordinator; nobody before the first answer."""
        if self.epoch > 0:
            return Identity(self.epoch, self.member_id, self.instance_id)
        return Identity()

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        match error:
            case StaleMemberEpoch():
                # A newer epoch has come meanwhile, or comes with the next heartbeat: the commit is good with that one.
                return error if self.epoch > 0 and self.is_in_group else CommitFailed(POLL_TOO_SLOW)
            case UnknownMemberId():
                return CommitFailed(f"The member {sent.member_id or '(none)'} is not part of the group: {error}")
            case FencedMemberEpoch():
                return CommitFailed(POLL_TOO_SLOW)
            case _:
                return error


@dataclass(frozen=True, slots=True)
class _Sent:
    """What the coordinator knows, if it got the last heartbeat."""

    has_constants: bool = False
    subscription: Subscription | None = None
    local: Local | None = None

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
from enum import Enum

from ottla.client.errors import CommitFailed
from ottla.client.group.commits import POLL_TOO_SLOW, Identity
from ottla.client.group.interface import Subscription
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    InvalidRegularExpression,
    KafkaError,
    NotCoordinator,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
    error_class,
)
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH = 0, -1, -2

PartitionsById = Mapping[Uuid, tuple[int, ...]]


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """There is a target that is not carried out yet."""
    ACKNOWLEDGING = "acknowledging"
    """What was carried out is told with the next heartbeat, which is due at once."""
    STABLE = "stable"
    FENCED = "fenced"
    """Out of the group; joins again when everything is let go of."""
    STALE = "stale"
    """Left because the user does not poll; joins again with the next poll."""
    FATAL = "fatal"
    """Refused for good: the user must act."""


class Beat(Enum):
    """How to go on after a heartbeat."""

    GO_ON = "go on"
    FIND = "find"
    """Another coordinator is to be looked for."""
    RETRY = "retry"
    LET_GO = "let go"
    """The member is out: everything it owned is lost; then `rejoin`."""
    TELL = "tell"
    """The user must hear of it; heartbeats go on."""
    FAIL = "fail"
    """The user must hear of it, and the member is out for good."""


@dataclass(frozen=True, slots=True)
class BeatVerdict:
    next: Beat
    error: KafkaError | None = None


GO_ON = BeatVerdict(Beat.GO_ON)


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

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
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
        return request

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
        kind = error_class(response.error_code)
        error = kind(response.error_message) if response.error_message else kind()
        match error:
            case NotCoordinator() | CoordinatorNotAvailable():
                return BeatVerdict(Beat.FIND, error)
            case CoordinatorLoadInProgress():
                return BeatVerdict(Beat.RETRY, error)
            case FencedMemberEpoch() | UnknownMemberId():
                self.state = MemberState.FENCED
                self.epoch = JOIN_EPOCH
                return BeatVerdict(Beat.LET_GO, error)
            case TopicAuthorizationFailed():
                return BeatVerdict(Beat.TELL, error)
            case GroupAuthorizationFailed():
                error = GroupAuthorizationFailed(f"Not authorized to access group: {self.group_id}")
            case InvalidRegularExpression():
                error = InvalidRegularExpression(f"The pattern of the subscription is not valid RE2: {error}")
            case FencedInstanceId() | UnreleasedInstanceId():
                error = type(error)(
                    f"Another consumer has the group.instance.id {self.instance_id}: {error} This one is out"
                )
            case GroupIdNotFound():
                error = GroupIdNotFound(f"Group {self.group_id} is a group of another protocol: {error}")
            case UnsupportedVersion():
                error = UnsupportedVersion("The cluster does not support the consumer protocol: see group.protocol")
            case _ if error.retriable:
                return BeatVerdict(Beat.RETRY, error)
            case _:
                pass
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

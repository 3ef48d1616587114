"""A member of a classic group: where it stands, what it asks of the coordinator, and what the answers mean.

No I/O and no time: requests are made here, responses are brought here, and a `Verdict` says how to go on. Promises: an
answer to a request of an older generation changes nothing; a member that was forgotten joins as a new one, one whose
generation is over keeps its id; while another round is under way nothing is committed. As Kafka's AbstractCoordinator.
Driven by `classic_membership`; tests/transcripts/client_classic are its conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ottla.client.errors import CommitFailed
from ottla.client.group.commits import POLL_TOO_SLOW, Identity
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    UnsupportedVersion,
    error_class,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

PROTOCOL_TYPE = "consumer"
NO_GENERATION = -1
REASON_MAX = 255
LEAVE_MANY_VERSION = 3
"""From here on LeaveGroup takes several members out, each by its identity."""
NO_STATIC_MEMBERS = "The broker does not support group.instance.id: unset it"


class ClassicState(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    """JoinGroup is with the coordinator, which answers when all members have come."""
    SYNCING = "syncing"
    """SyncGroup is with the coordinator, which answers when the leader has shared out."""
    STABLE = "stable"


class Next(Enum):
    """How to go on after an answer."""

    GO_ON = "go on"
    REJOIN = "rejoin"
    """Join again, at once."""
    RETRY = "retry"
    """Try again after the backoff."""
    FIND = "find"
    """The same, with another coordinator, which is to be looked for."""
    FAIL = "fail"
    """The user must hear of it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    next: Next
    error: KafkaError | None = None


GO_ON = Verdict(Next.GO_ON)


class ClassicMember:
    """One member, from before it joins to after it has left."""

    def __init__(
        self, group_id: str, *, instance_id: str | None, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self.state = ClassicState.UNJOINED
        self.generation_id = NO_GENERATION
        self.member_id = ""
        self.protocol_name: str | None = None
        self.is_leader = False
        self.rejoin_reason: str | None = ""
        """Why the member has to join (again), empty when there is nothing to say; None when it has not."""

    # What is true

    @property
    def identity(self) -> Identity:
        return Identity(self.generation_id, self.member_id, self.instance_id)

    @property
    def has_lost_its_place(self) -> bool:
        """Whether what the member owned may be somebody else's by now."""
        return self.generation_id == NO_GENERATION or not self.member_id

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (ClassicState.JOINING, ClassicState.SYNCING)

    @property
    def must_heartbeat(self) -> bool:
        """While JoinGroup waits the coordinator knows that the member lives."""
        return self.state in (ClassicState.SYNCING, ClassicState.STABLE)

    def request_rejoin(self, reason: str) -> None:
        self.rejoin_reason = reason

    def _reset(self, reason: str, *, keep_member_id: bool) -> None:
        """The generation is over for this member."""
        self.state = ClassicState.UNJOINED
        self.generation_id = NO_GENERATION
        self.protocol_name = None
        if not keep_member_id:
            self.member_id = ""
        self.rejoin_reason = reason

    # Join

    def join_request(self, protocols: list[tuple[str, bytes]]) -> JoinGroupRequest:
        """Ask to be part of the next generation with these strategies, best first, each with its subscription."""
        self.state = ClassicState.JOINING
        self.is_leader = False
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
            reason=(self.rejoin_reason or "")[:REASON_MAX],
        )

    def on_join(self, response: JoinGroupResponse) -> Verdict:
        if self.state is not ClassicState.JOINING:
            return Verdict(Next.REJOIN)  # the member has left meanwhile
        if response.error_code:
            return self._on_join_error(response)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            return Verdict(Next.FAIL, _other_protocol_type(response.protocol_type))
        self.state = ClassicState.SYNCING
        self.generation_id = response.generation_id
        self.member_id = response.member_id
        self.protocol_name = response.protocol_name
        self.is_leader = response.leader == response.member_id
        return GO_ON

    def _on_join_error(self, response: JoinGroupResponse) -> Verdict:
        error = error_class(response.error_code)()
        match error:
            case MemberIdRequired():
                # The broker gives an id first, so that a member whose answer is lost is not counted twice (KIP-394).
                self.member_id = response.member_id
                self.generation_id = NO_GENERATION
                self.rejoin_reason = f"need to re-join with the given member-id: {response.member_id}"
                return Verdict(Next.REJOIN, error)
            case UnknownMemberId():
                self._reset(_because(error, "JOIN_GROUP"), keep_member_id=False)
                return Verdict(Next.REJOIN, error)
            case GroupMaxSizeReached():
                error = GroupMaxSizeReached(f"Consumer group {self.group_id} already has its most members")
            case GroupAuthorizationFailed():
                error = GroupAuthorizationFailed(f"Not authorized to access group: {self.group_id}")
            case InconsistentGroupProtocol():
                error = InconsistentGroupProtocol(
                    f"Group {self.group_id} has no strategy in common with this member's "
                    "partition.assignment.strategy, or is a group of another protocol: see group.protocol"
                )
            case UnsupportedVersion() if self.instance_id is not None:
                error = UnsupportedVersion(NO_STATIC_MEMBERS)
            case _:
                pass
        return self._on_other_error(error, "JoinGroup")

    def _on_other_error(self, error: KafkaError, api: str) -> Verdict:
        match error:
            case NotCoordinator() | CoordinatorNotAvailable():
                return Verdict(Next.FIND, error)
            case CoordinatorLoadInProgress() | RebalanceInProgress():
                return Verdict(Next.RETRY, error)
            case FencedInstanceId():
                return Verdict(Next.FAIL, FencedInstanceId(_fenced(self.instance_id, api)))
            case _:
                return Verdict(Next.RETRY if error.retriable else Next.FAIL, error)

    # Sync

    def sync_request(self, assignments: list[tuple[str, bytes]]) -> SyncGroupRequest:
        """Ask for the own assignment; the leader brings everybody's."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id, assignment) for member_id, assignment in assignments],
        )

    def on_sync(self, response: SyncGroupResponse, sent: Identity) -> Verdict:
        if response.error_code:
            return self._on_sync_error(error_class(response.error_code)(), sent)
        if self.state is not ClassicState.SYNCING or sent != self.identity:
            # A heartbeat has told meanwhile that the generation is over.
            return Verdict(Next.REJOIN)
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            return Verdict(Next.FAIL, _other_protocol_type(response.protocol_type))
        if response.protocol_name not in (None, self.protocol_name):
            return Verdict(
                Next.FAIL,
                InconsistentGroupProtocol(
                    f"The group was shared out with {response.protocol_name}, and joined with {self.protocol_name}"
                ),
            )
        self.state = ClassicState.STABLE
        self.rejoin_reason = None
        return GO_ON

    def _on_sync_error(self, error: KafkaError, sent: Identity) -> Verdict:
        match error:
            case RebalanceInProgress():
                self.rejoin_reason = "rebalance failed due to RebalanceInProgressException"
                return Verdict(Next.REJOIN, error)
            case UnknownMemberId() | IllegalGeneration():
                if sent == self.identity:
                    self._reset(_because(error, "SYNC_GROUP"), keep_member_id=isinstance(error, IllegalGeneration))
                return Verdict(Next.REJOIN, error)
            case GroupAuthorizationFailed():
                error = GroupAuthorizationFailed(f"Not authorized to access group: {self.group_id}")
            case _:
                pass
        return self._on_other_error(error, "SyncGroup")

    # Heartbeat

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def on_heartbeat(self, error_code: int, sent: Identity) -> Verdict:
        if not error_code:
            return GO_ON
        error = error_class(error_code)()
        match error:
            case RebalanceInProgress():
                if self.state is ClassicState.STABLE and sent == self.identity and self.rejoin_reason is None:
                    self.rejoin_reason = "group is already rebalancing"
                    return Verdict(Next.REJOIN, error)
                return GO_ON
            case IllegalGeneration() | UnknownMemberId() | FencedInstanceId():
                if sent != self.identity:
                    return GO_ON
                self._reset(_because(error, "HEARTBEAT"), keep_member_id=isinstance(error, IllegalGeneration))
                if isinstance(error, FencedInstanceId):
                    return Verdict(Next.FAIL, FencedInstanceId(_fenced(self.instance_id, "Heartbeat")))
                return Verdict(Next.REJOIN, error)
            case GroupAuthorizationFailed():
                error = GroupAuthorizationFailed(f"Not authorized to access group: {self.group_id}")
            case _:
                pass
        return self._on_other_error(error, "Heartbeat")

    # Leave

    def leave_request(self, reason: str) -> Callable[[int], LeaveGroupRequest] | None:
        """Give the place up: the request in each version; None when there is no place to give up."""
        has_place = self.state is not ClassicState.UNJOINED and bool(self.member_id)
        identity = MemberIdentity(self.member_id, self.instance_id, reason[:REASON_MAX])
        self.forget()

        def make(version: int) -> LeaveGroupRequest:
            if version < LEAVE_MANY_VERSION:
                return LeaveGroupRequest(group_id=self.group_id, member_id=identity.member_id)
            return LeaveGroupRequest(group_id=self.group_id, members=[identity])

        return make if has_place else None

    def forget(self) -> None:
        """Be nobody: the next join is that of a new member."""
        self._reset("consumer pro-actively leaving the group", keep_member_id=False)
        self.is_leader = False

    # Commits

    def commit_as(self) -> Identity:
        if self.state is ClassicState.STABLE:
            return self.identity
        if self.is_rebalancing:
            raise RebalanceInProgress(
                "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition "
                "assignment. You can try completing the rebalance by calling poll() and then retry the operation."
            )
        raise CommitFailed(
            "Offset commit cannot be completed since the consumer is not part of an active group for auto partition "
            "assignment; it is likely that the consumer was kicked out of the group."
        )

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        is_old = sent != self.identity
        match error:
            case RebalanceInProgress():
                if self.rejoin_reason is None:
                    self.rejoin_reason = "offset commit failed since group is already rebalancing"
                return RebalanceInProgress(
                    "Offset commit cannot be completed since the consumer group is executing a rebalance at the "
                    "moment. You can try completing the rebalance by calling poll() and then retry commit again"
                )
            case FencedInstanceId():
                if not is_old:
                    return FencedInstanceId(_fenced(self.instance_id, "OffsetCommit"))
                return self._stale() if self.state is ClassicState.JOINING else CommitFailed(POLL_TOO_SLOW)
            case UnknownMemberId() | IllegalGeneration():
                if is_old and self.state is ClassicState.JOINING:
                    return self._stale()
                self._reset(_because(error, "OFFSET_COMMIT"), keep_member_id=isinstance(error, IllegalGeneration))
                return CommitFailed(POLL_TOO_SLOW)
            case _:
                return error

    def _stale(self) -> KafkaError:
        return RebalanceInProgress(
            "Offset commit cannot be completed since the consumer member's generation is already stale: it has taken "
            "part in another rebalance since. Complete it by calling poll(), then commit again"
        )


def _because(error: KafkaError, api: str) -> str:
    return f"encountered {error.name} from {api} response"


def _fenced(instance_id: str | None, api: str) -> str:
    return f"{api}: another consumer has joined with the same group.instance.id {instance_id}; this one is out"


def _other_protocol_type(protocol_type: str | None) -> KafkaError:
    return InconsistentGroupProtocol(f"The group is one of {protocol_type}, not of {PROTOCOL_TYPE}s")

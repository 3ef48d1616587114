"""How a member of a group comes to its partitions: by the classic protocol, in which one member assigns them to all, or
by the consumer protocol (KIP-848), in which the coordinator does.

Both are driven by their client: `tick` sends what is due and says whether there are partitions to work on. A member
that the coordinator has heard of within its session must be known to it, whatever happened to the coordinator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ottla.errors import (
    FencedMemberEpoch,
    IllegalGeneration,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    error_class,
)
from ottla.sim.clients.client import Client, Topic
from ottla.sim.history import Violation
from ottla.sim.ledger import SOURCE, Ledger
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS = 3_000
REBALANCE_TIMEOUT_MS = 4_000
"""Longer than a session: who is late for a rebalance is gone already for want of heartbeats."""
HEARTBEAT_MS = 400
PROTOCOL = "range"
LEAVE_EPOCH = -1
_JOIN, _HEARTBEAT, _LEAVE, _SYNC = 11, 12, 13, 14
MUST_REJOIN = (IllegalGeneration, UnknownMemberId, RebalanceInProgress, FencedMemberEpoch, StaleMemberEpoch)
"""What tells a member that its group has moved on without it."""


class Membership:
    """One member of a group, whichever protocol it speaks."""

    def __init__(self, client: Client, ledger: Ledger, group: str, topic: Topic) -> None:
        self.client = client
        self.ledger = ledger
        self.group = group
        self.topic = topic
        self.member_id = ""
        self.epoch = -1
        """Of the group's generation, or of the member: what its commits carry."""
        self.owned: list[int] = []
        """Partitions of the source."""
        self.tenure = 0
        """Grows whenever the member may have lost its partitions for a while: positions in them are void then."""
        self._contact_ms: int | None = None
        """When it last sent a heartbeat that was taken without complaint: from then on its session runs anew."""
        self._heartbeat_ms = 0

    async def tick(self) -> bool:
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def on_refused(self, error: type[KafkaError]) -> None:
        """A request of this member was refused: it has to find out about its group."""
        self._check_forgotten(error)
        if error not in (RebalanceInProgress, StaleMemberEpoch):
            self._drop()
        self._heartbeat_ms = 0

    def _drop(self) -> None:
        self.owned = []
        self.tenure += 1

    def _check_forgotten(self, error: type[KafkaError]) -> None:
        if self._contact_ms is None or error is not UnknownMemberId:
            return
        silent_ms = self.ledger.now_ms() - self._contact_ms
        if silent_ms < SESSION_TIMEOUT_MS:
            raise Violation(
                f"{self.client.name} was heard of {silent_ms} ms ago as {self.member_id} of {self.group}, and is told "
                f"{error.name}"
            )

    def _refused(self, what: str, code: int, *allowed: type[KafkaError]) -> type[KafkaError]:
        error = error_class(code)
        self.client.trace(f"{self.client.name}: {what} is answered with {error.name}")
        self.client.history.count(f"group: {error.name}")
        if not error.retriable and error not in allowed:
            raise Violation(f"{self.client.name}: {what} is answered with {error.name}")
        return error

    @property
    def _is_due(self) -> bool:
        return self.ledger.now_ms() >= self._heartbeat_ms

    def _on_contact(self, sent_ms: int) -> None:
        self._contact_ms = sent_ms
        self._heartbeat_ms = self.ledger.now_ms() + HEARTBEAT_MS


class ClassicMembership(Membership):
    """JoinGroup, SyncGroup, Heartbeat; every rebalance takes everything from everybody first."""

    def _drop(self) -> None:
        super()._drop()
        self.epoch = -1

    async def tick(self) -> bool:
        if self.epoch >= 0 and self._is_due:
            await self._beat()
        if self.epoch < 0:
            await self._join()
        return bool(self.owned)

    async def _beat(self) -> None:
        sent_ms = self.ledger.now_ms()
        response: HeartbeatResponse = await self.client.ask(HeartbeatRequest(self.group, self.epoch, self.member_id))
        if not response.error_code:
            self._on_contact(sent_ms)
            return
        error = self._refused("Heartbeat", response.error_code, *MUST_REJOIN)
        if not error.retriable:
            self._check_forgotten(error)
            self._forget_if_unknown(error)
            self._drop()
        self._heartbeat_ms = sent_ms + HEARTBEAT_MS

    def on_refused(self, error: type[KafkaError]) -> None:
        super().on_refused(error)
        self._forget_if_unknown(error)

    def _forget_if_unknown(self, error: type[KafkaError]) -> None:
        if error is UnknownMemberId:
            self.member_id = ""

    async def _join(self) -> None:
        self._contact_ms = None
        self._drop()
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(PROTOCOL, _subscription())],
        )
        await self.client.link()
        response: JoinGroupResponse = await self.client.ask(request, self.client.version_of(_JOIN, first=1))
        if response.error_code:
            error = self._refused("JoinGroup", response.error_code, MemberIdRequired, *MUST_REJOIN)
            self._forget_if_unknown(error)
            if error is MemberIdRequired:
                self.member_id = response.member_id
            else:
                await self.client.pause()
            return
        self.member_id = response.member_id
        members = response.members
        if (response.leader == response.member_id) is not bool(members):
            raise Violation(f"{self.client.name}: the leader {response.leader} of {self.group} is given {members}")
        await self._sync(response.generation_id, members)

    async def _sync(self, generation: int, members: list[JoinGroupResponseMember]) -> None:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assign(sorted(member.member_id for member in members)),
        )
        response: SyncGroupResponse = await self.client.ask(request)
        if response.error_code:
            error = self._refused("SyncGroup", response.error_code, *MUST_REJOIN)
            self._forget_if_unknown(error)
            await self.client.pause()
            return
        self.epoch = generation
        self.owned = _read_assignment(bytes(response.assignment))
        # Who syncs with a group that is stable already is answered, and its session goes on running, as in Kafka.
        self._heartbeat_ms = self.ledger.now_ms() + HEARTBEAT_MS
        self.client.trace(f"{self.client.name} has {self.owned} in generation {generation} of {self.group}")

    def _assign(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        count = len(member_ids)
        indexes = range(self.topic.partition_count)
        return [
            SyncGroupRequestAssignment(member_id, _assignment([index for index in indexes if index % count == place]))
            for place, member_id in enumerate(member_ids)
        ]

    async def leave(self) -> None:
        if not self.member_id:
            return
        await self.client.link()
        version = self.client.version_of(_LEAVE)
        request = LeaveGroupRequest(self.group, self.member_id if version < 3 else "")
        if version >= 3:
            request.members = [MemberIdentity(self.member_id)]
        self._drop()
        self.member_id = ""
        response: LeaveGroupResponse = await self.client.ask(request, version)
        for code in (response.error_code, *(one.error_code for one in response.members)):
            if code:
                self._refused("LeaveGroup", code, UnknownMemberId)


class ConsumerMembership(Membership):
    """ConsumerGroupHeartbeat, which does everything: partitions are given up one by one, and told when they are."""

    def __init__(self, client: Client, ledger: Ledger, group: str, topic: Topic) -> None:
        super().__init__(client, ledger, group, topic)
        self.member_id = str(Uuid(client.chance.randbytes(16)))
        self.epoch = 0
        self._must_tell = True
        """Whether the coordinator has to be told everything, or what it is told has changed."""

    def _drop(self) -> None:
        super()._drop()
        self.ledger.release(self.group, self.client.name)
        self.epoch = 0
        self._contact_ms = None
        self._must_tell = True

    async def tick(self) -> bool:
        if self.epoch <= 0 or self._must_tell or self._is_due:
            await self._beat()
        return bool(self.owned) and self.epoch > 0

    async def _beat(self) -> None:
        sent_ms = self.ledger.now_ms()
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch)
        if self._must_tell or self.epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = [SOURCE]
            request.topic_partitions = [TopicPartitions(self.topic.id, self.owned)] if self.owned else []
        self._must_tell = True  # until it is answered
        response: ConsumerGroupHeartbeatResponse = await self.client.ask(request)
        if response.error_code:
            error = self._refused("ConsumerGroupHeartbeat", response.error_code, *MUST_REJOIN)
            if error in (UnknownMemberId, FencedMemberEpoch):
                self._check_forgotten(error)
                self._drop()
            await self.client.pause()
            return
        self._must_tell = False
        self.epoch = response.member_epoch
        if response.assignment is not None:
            given = [index for one in response.assignment.topic_partitions for index in one.partitions]
            if sorted(given) != self.owned:
                self.client.trace(f"{self.client.name} has {given} in epoch {self.epoch} of {self.group}")
                self._must_tell = True
            self.owned = sorted(given)
            self.ledger.release(self.group, self.client.name, self.owned)
        self._on_contact(sent_ms)
        self.ledger.claim(self.group, self.client.name, self.owned, sent_ms + SESSION_TIMEOUT_MS)

    async def leave(self) -> None:
        member_id, epoch = self.member_id, self.epoch
        self._drop()
        if epoch <= 0:
            return
        request = ConsumerGroupHeartbeatRequest(self.group, member_id, LEAVE_EPOCH)
        response: ConsumerGroupHeartbeatResponse = await self.client.ask(request)
        if response.error_code:
            self._refused("ConsumerGroupHeartbeat", response.error_code, UnknownMemberId)


def _subscription() -> bytes:
    """What a consumer tells the others of its group: that it wants the source."""
    topic = SOURCE.encode()
    return struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic, -1)


def _assignment(indexes: Iterable[int]) -> bytes:
    topic, wanted = SOURCE.encode(), list(indexes)
    head = struct.pack(f">hih{len(topic)}s", 0, 1, len(topic), topic)
    return head + struct.pack(f">i{len(wanted)}ii", len(wanted), *wanted, -1)


def _read_assignment(data: bytes) -> list[int]:
    if not data:
        return []
    position = struct.calcsize(f">hih{len(SOURCE)}s")
    (count,) = struct.unpack_from(">i", data, position)
    found = list(struct.unpack_from(f">{count}i", data, position + 4))
    if data != _assignment(found):
        raise Violation(f"a member is given an assignment that nobody made: {data!r}")
    return found

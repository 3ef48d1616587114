"""Being a member of a classic group: joins, shares out when it leads, heartbeats, and watches what it shared out.

A round (`_rebalance`) begins inside a poll and then runs by itself: what must be given up first is handed to the user,
JoinGroup and SyncGroup go out, and the assignment is handed to the user. Heartbeats go on beside it. Promises: at most
one round at a time; with cooperative strategies only what goes to others is taken away, and another round follows so
that they get it (KIP-429); the leader begins a round when a subscribed topic gets partitions or comes into being.
The rules are `classic_member`'s. Made by `consumer_group`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from ottla.client.errors import as_kafka_error
from ottla.client.group.assignors.assignor import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    topic_racks,
)
from ottla.client.group.assignors.assignor import Subscription as MemberSubscription
from ottla.client.group.assignors.wire_form import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.group.classic_member import NO_STATIC_MEMBERS, ClassicMember, ClassicState, Next, Verdict
from ottla.client.group.commits import Identity
from ottla.client.group.context import GroupContext
from ottla.client.group.interface import GroupMetadata, RebalanceEvent, RebalanceKind, Subscription
from ottla.client.group.membership import Membership, listed
from ottla.client.network import Build, Cluster
from ottla.errors import InvalidConfig, KafkaError, MemberIdRequired, UnknownMemberId, UnsupportedVersion
from ottla.types import TopicPartition
from ottla.wire import DecodeError, Message
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.world import Task

log = logging.getLogger(__name__)

JOIN_GROUP_KEY, HEARTBEAT_KEY, LEAVE_GROUP_KEY, SYNC_GROUP_KEY = 11, 12, 13, 14
STATIC_VERSIONS = {JOIN_GROUP_KEY: 5, HEARTBEAT_KEY: 3, SYNC_GROUP_KEY: 3}
"""The first version of each request that has room for group.instance.id."""
JOIN_LAPSE_MS = 5_000
"""How much longer than the rebalance may take JoinGroup is waited for."""
COOPERATIVE_STICKY = "cooperative-sticky"

Snapshot = Mapping[str, tuple[object, ...]]
"""Of each subscribed topic, what an assignment depends on."""


class ClassicMembership(Membership):
    def __init__(self, context: GroupContext) -> None:
        super().__init__(context)
        config = context.config
        self.member = ClassicMember(
            context.group_id,
            instance_id=config.group_instance_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
        )
        self._assignors = config.assignors()
        self._protocol = common_protocol(self._assignors)
        self._joined_topics: tuple[str, ...] | None = None
        """The subscription of the last JoinGroup."""
        self._shared_out: Snapshot | None = None
        """What the leader saw of the cluster when it shared out; None for others."""
        self._group_topics: set[str] = set()
        self._round: Task[None] | None = None
        self._round_number = 0
        self._heartbeats: Task[None] | None = None
        context.metadata.on_update.append(self._on_metadata)

    # What ConsumerGroup calls

    def subscribe(self, subscription: Subscription) -> None:
        if subscription.pattern is not None:
            raise UnsupportedVersion("A pattern that the broker matches needs group.protocol=consumer")
        self.subscription = subscription
        if self._joined_topics is not None and set(subscription.topics) != set(self._joined_topics):
            self._request_rejoin("subscription has changed")
        self.context.consumed.on_group_event()

    @property
    def wants_poll(self) -> bool:
        return self.subscription is not None and self._round is None and self.member.rejoin_reason is not None

    def on_poll(self) -> None:
        if self.wants_poll:
            self._round = self.context.world.tasks.spawn(self._rebalance(), f"[{self.context.name}] rebalance")

    def on_poll_too_late(self) -> None:
        self._stop()
        is_static = self.context.config.group_instance_id is not None
        request = self.member.leave_request("consumer poll timeout has expired.")
        if request is not None and not is_static:
            self.context.world.tasks.spawn(self._send_leave(request, None), f"[{self.context.name}] leave")

    def begin_leave(self) -> RebalanceEvent | None:
        self._stop()
        self.subscription = None
        self._joined_topics = None
        self._shared_out = None
        self._group_topics = set()
        return self.give_up_all(is_lost=self.member.has_lost_its_place or self.member.is_rebalancing)

    async def leave(self, timeout_ms: float | None, keep_place: bool, reason: str) -> None:
        request = self.member.leave_request(reason)
        if request is not None and not keep_place:
            await self._send_leave(request, timeout_ms)

    async def _send_leave(self, make: Callable[[int], Message], timeout_ms: float | None) -> None:
        timeout_ms = self.context.config.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            response = await self.context.ask(Build(LEAVE_GROUP_KEY, make), timeout_ms)
        except KafkaError as error:
            log.warning("[%s] LeaveGroup was not answered: %s", self.context.name, error)
            return
        codes = [response.error_code, *(one.error_code for one in response.members)]
        if any(code not in (0, UnknownMemberId.code) for code in codes):  # who is unknown is out already
            log.warning("[%s] LeaveGroup failed with error code %d", self.context.name, max(codes))

    def close(self) -> None:
        self._stop()
        if self._on_metadata in self.context.metadata.on_update:
            self.context.metadata.on_update.remove(self._on_metadata)

    def _stop(self) -> None:
        for task in (self._round, self._heartbeats):
            if task is not None:
                task.cancel()
        self._round = self._heartbeats = None
        self._round_number += 1

    def enforce_rebalance(self, reason: str) -> None:
        self._request_rejoin(reason)

    def watched_topics(self) -> Iterable[str]:
        return self._group_topics

    @property
    def is_active(self) -> bool:
        return self.member.state is not ClassicState.UNJOINED

    def commit_as(self) -> Identity:
        return self.member.commit_as()

    def fetch_as(self) -> Identity:
        return Identity()

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        refusal = self.member.commit_refused(error, sent)
        self.context.consumed.on_group_event()
        return refusal

    def group_metadata(self) -> GroupMetadata:
        member = self.member
        return GroupMetadata(self.context.group_id, member.generation_id, member.member_id, member.instance_id)

    # A round

    def _request_rejoin(self, reason: str) -> None:
        if self.member.rejoin_reason is None:
            log.info("[%s] Request joining group due to: %s", self.context.name, reason)
            self.member.request_rejoin(reason)
        self.context.consumed.on_group_event()

    async def _rebalance(self) -> None:
        self._round_number += 1
        number = self._round_number
        failures = 0
        try:
            while self.subscription is not None and self.member.rejoin_reason is not None:
                verdict = await self._attempt()
                if verdict.next is not Next.GO_ON and not isinstance(verdict.error, MemberIdRequired):
                    self.context.metrics.rebalance_failed()
                if verdict.next is Next.FAIL:
                    assert verdict.error is not None, "a failure has its reason"
                    log.error("[%s] Joining the group failed: %s", self.context.name, verdict.error)
                    self.context.fail(verdict.error)
                    return
                if verdict.next in (Next.RETRY, Next.FIND):
                    await self.context.world.tasks.sleep_ms(self.context.network.retry_backoff.delay_ms(failures))
                    failures += 1
                else:
                    failures = 0
        finally:
            if number == self._round_number:  # else this one was stopped, and another has begun
                self._round = None
                self.context.consumed.on_group_event()

    async def _attempt(self) -> Verdict:
        """One way through give up, join, share out, sync and take over; how to go on."""
        try:
            if self.context.metadata.wants_all:
                # A new topic that matches a pattern would be found by one member after the other, with a round for
                # each: whoever joins looks first, so that one round is enough.
                await self.context.metadata.next_update()
            await self._give_up()
            verdict = await self._join_and_sync()
        except Exception as raised:  # noqa: BLE001  it is told to the user: an assignor may be the user's own
            error = as_kafka_error(raised, "The rebalance failed")
            if error.retriable:
                log.info("[%s] The rebalance failed: %s. Trying again", self.context.name, error)
                return Verdict(Next.RETRY, error)
            return Verdict(Next.FAIL, error)
        if verdict.error is not None:
            self.context.note(verdict.error.code)
            if verdict.next is not Next.FAIL:
                level = logging.DEBUG if isinstance(verdict.error, MemberIdRequired) else logging.INFO
                log.log(level, "[%s] The rebalance failed: %s Joining again", self.context.name, verdict.error)
        return verdict

    async def _give_up(self) -> None:
        """Before joining: what was lost is gone; eagerly all is given up, else what is not subscribed to any more."""
        assert self.subscription is not None, "only who subscribes joins"
        if self.member.has_lost_its_place:
            if self.owned:
                log.info("[%s] Giving away all assigned partitions as lost since the member is no longer part of the "
                         "group: %s", self.context.name, listed(self.owned))  # fmt: skip
                await self.hand_over(RebalanceKind.LOST, self.owned, ())
        elif self._protocol is RebalanceProtocol.EAGER:
            gone = self.owned
            if gone:
                log.info("[%s] Revoking previously assigned partitions %s", self.context.name, listed(gone))
                await self.hand_over(RebalanceKind.REVOKED, gone, ())
        else:
            topics = set(self.subscription.topics)
            gone = frozenset(one for one in self.owned if one.topic not in topics)
            if gone:
                log.info("[%s] Revoking partitions that are not subscribed to: %s", self.context.name, listed(gone))
                await self.hand_over(RebalanceKind.REVOKED, gone, self.owned - gone)

    async def _join_and_sync(self) -> Verdict:
        member = self.member
        config = self.context.config
        await self.context.find(None)
        log.info("[%s] (Re-)joining group", self.context.name)
        request = member.join_request(self._subscriptions())
        self._shared_out = None
        answer_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_LAPSE_MS)
        metrics, now_ms = self.context.metrics, self.context.world.clock.monotonic_ms
        begun_ms = now_ms()
        joined: JoinGroupResponse = await self.context.ask(self._build(request), None, answer_ms=answer_ms)
        metrics.joined(now_ms() - begun_ms)
        verdict = member.on_join(joined)
        if verdict.next is not Next.GO_ON:
            return verdict
        log.info("[%s] Successfully joined group with generation %d as %s%s", self.context.name, member.generation_id,
                 member.member_id, ", which leads" if member.is_leader else "")  # fmt: skip
        self._beat()
        assignments = await self._share_out(joined) if member.is_leader else []
        sent, sync_ms = member.identity, now_ms()
        synced = await self.context.ask(self._build(member.sync_request(assignments)), None)
        metrics.synced(now_ms() - sync_ms)
        verdict = member.on_sync(synced, sent)
        if verdict.next is not Next.GO_ON:
            return verdict
        metrics.rebalanced(now_ms() - begun_ms)
        await self._take_over(synced.assignment)
        return verdict

    def _build(self, request: Message) -> Message | Build:
        """The request; one of a static member is not sent to a broker that would not see that it is one."""
        api_key = request.schema.api_key
        if self.member.instance_id is None or api_key is None:
            return request

        def make(version: int) -> Message:
            if version < STATIC_VERSIONS[api_key]:
                raise UnsupportedVersion(NO_STATIC_MEMBERS)
            return request

        return Build(api_key, make)

    def _subscriptions(self) -> list[tuple[str, bytes]]:
        """What JoinGroup tells: for each strategy what this member wants and has."""
        assert self.subscription is not None, "only who subscribes joins"
        topics = tuple(sorted(self.subscription.topics))
        self._joined_topics = topics
        rack = self.context.config.client_rack or None
        return [
            (
                assignor.name,
                encode_subscription(
                    MemberSubscription(
                        topics,
                        assignor.subscription_user_data(topics),
                        sorted(self.owned),
                        self.member.generation_id,
                        rack,
                    )
                ),
            )
            for assignor in self._assignors
        ]

    # Leading

    async def _share_out(self, joined: JoinGroupResponse) -> list[tuple[str, bytes]]:
        """Everybody's assignment, from the strategy that all have."""
        assignor = self._assignor(joined.protocol_name)
        subscriptions: dict[str, MemberSubscription] = {}
        for member in joined.members:
            try:
                subscriptions[member.member_id] = decode_subscription(member.metadata, member.group_instance_id)
            except DecodeError as error:
                raise KafkaError(f"The subscription of member {member.member_id} cannot be read: {error}") from error
        topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        await self._watch(topics)
        if joined.skip_assignment:
            log.info("[%s] Skipped assignment for returning static leader at generation %d: all keep what they have",
                     self.context.name, joined.generation_id)  # fmt: skip
            self._shared_out = self._snapshot()
            return []
        assignments = assignor.assign(self.context.metadata.cluster, subscriptions)
        if self._protocol is RebalanceProtocol.COOPERATIVE and assignor.name != COOPERATIVE_STICKY:
            check_cooperative(assignor.name, subscriptions, assignments)
        assigned = {one.topic for assignment in assignments.values() for one in assignment.partitions}
        if not assigned <= topics:
            # An assignor of the user's may know more topics than were asked for; they are watched as well.
            await self._watch(topics | assigned)
        self._shared_out = self._snapshot()
        log.info("[%s] Finished assignment for group at generation %d: %s", self.context.name, joined.generation_id,
                 {member: listed(one.partitions) for member, one in assignments.items()})  # fmt: skip
        return [(member, encode_assignment(assignment)) for member, assignment in assignments.items()]

    def _assignor(self, name: str | None) -> Assignor:
        for assignor in self._assignors:
            if assignor.name == name:
                return assignor
        raise KafkaError(f"The coordinator chose the assignment strategy {name}, which this member does not have")

    async def _watch(self, topics: set[str]) -> None:
        """Have fresh metadata of these topics, now and from now on."""
        metadata = self.context.metadata
        self._group_topics = topics
        is_new = metadata.add_topics(topics)
        if is_new or any(topic not in metadata.cluster.topics for topic in topics):
            # The next answer tells of each, if only that it does not exist.
            await metadata.next_update()

    def _snapshot(self) -> Snapshot:
        return snapshot(self.context.metadata.cluster, self._group_topics, bool(self.context.config.client_rack))

    def _on_metadata(self, cluster: Cluster) -> None:
        if self._shared_out is None or self.member.state is not ClassicState.STABLE:
            return
        if self._snapshot() != self._shared_out and self.member.rejoin_reason is None:
            self._request_rejoin("cached metadata has changed since the partitions were shared out")

    # After it

    async def _take_over(self, data: bytes) -> None:
        """Tell the user what this member has from now on."""
        member = self.member
        generation_id = member.generation_id
        assignor = self._assignor(member.protocol_name)
        try:
            assignment = decode_assignment(data)
        except DecodeError as error:
            raise KafkaError(f"The assignment that the group's leader made cannot be read: {error}") from error
        assigned = frozenset(assignment.partitions)
        if self._strange(assigned):
            # The leader has seen a topic that matches a pattern here as well: this member is about to see it.
            await self.context.metadata.next_update()
        strange = self._strange(assigned)
        if strange:
            self._request_rejoin(f"received assignment has topics that are not subscribed to: {', '.join(strange)}")
            return
        owned = self.owned
        gone, added = owned - assigned, assigned - owned
        log.info("[%s] Updating assignment of generation %d: assigned %s, added %s, revoked %s", self.context.name,
                 generation_id, listed(assigned), listed(added), listed(gone))  # fmt: skip
        if gone:
            await self.hand_over(RebalanceKind.REVOKED, gone, owned - gone)
            self._request_rejoin("need to revoke partitions and re-join")
        assignor.on_assignment(assignment, generation_id)
        await self.hand_over(RebalanceKind.ASSIGNED, added, assigned)
        self._look_back()

    def _strange(self, assigned: Iterable[TopicPartition]) -> list[str]:
        """Topics that were assigned and are not subscribed to: the subscription has changed since the member joined."""
        subscription = self.subscription
        if subscription is None:
            return []
        return sorted({one.topic for one in assigned} - set(subscription.topics))

    def _look_back(self) -> None:
        """What has changed since this round began asks for another."""
        if self.subscription is not None and set(self.subscription.topics) != set(self._joined_topics or ()):
            self._request_rejoin("subscription has changed")
        self._on_metadata(self.context.metadata.cluster)

    # Heartbeats

    def _beat(self) -> None:
        if self._heartbeats is None:
            self._heartbeats = self.context.world.tasks.spawn(self._beating(), f"[{self.context.name}] heartbeats")

    async def _beating(self) -> None:
        config = self.context.config
        tasks = self.context.world.tasks
        failures = 0
        while True:
            delay_ms = self.context.network.retry_backoff.delay_ms(failures - 1) if failures else 0.0
            await tasks.sleep_ms(
                min(delay_ms, config.heartbeat_interval_ms) if failures else config.heartbeat_interval_ms
            )
            if not self.member.must_heartbeat:
                if self._round is None:
                    break
                continue
            sent = self.member.identity
            begun_ms = self.context.world.clock.monotonic_ms()
            self.context.metrics.heartbeat_sent()
            try:
                request = self._build(self.member.heartbeat_request())
                response = await self.context.ask(request, config.session_timeout_ms)
                self.context.metrics.heartbeat_answered(self.context.world.clock.monotonic_ms() - begun_ms)
                self._on_heartbeat(self.member.on_heartbeat(response.error_code, sent), response.error_code)
            except Exception as raised:  # noqa: BLE001  it is told to the user
                error = as_kafka_error(raised, "A heartbeat could not be sent, or its response not be read")
                if not error.retriable:
                    self.context.fail(error)
                    break
                failures += 1
                continue
            failures = failures + 1 if self.member.identity == sent and response.error_code in (14, 15, 16) else 0
        self._heartbeats = None

    def _on_heartbeat(self, verdict: Verdict, error_code: int) -> None:
        self.context.note(error_code)
        if verdict.next is Next.FAIL:
            assert verdict.error is not None, "a failure has its reason"
            self.context.fail(verdict.error)
        elif verdict.next is Next.REJOIN:
            log.info("[%s] Request joining group due to: %s", self.context.name, self.member.rejoin_reason)
            self.context.consumed.on_group_event()


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The most advanced protocol that all of a member's assignors have; `InvalidConfig` when there is none."""
    assignors = tuple(assignors)
    if not assignors:
        raise InvalidConfig("partition.assignment.strategy is empty: there is nothing to share out partitions with")
    common = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise InvalidConfig(f"partition.assignment.strategy: {names} have no rebalance protocol in common")
    return max(common)


def check_cooperative(
    name: str, subscriptions: Mapping[str, MemberSubscription], assignments: Mapping[str, Assignment]
) -> None:
    """A cooperative assignor takes a partition from its owner first, and gives it to another in the next round."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, assignment in assignments.items():
        owned = set(subscriptions[member].owned_partitions) if member in subscriptions else set()
        added |= set(assignment.partitions) - owned
        revoked |= owned - set(assignment.partitions)
    if both := added & revoked:
        raise KafkaError(
            f"The assignor {name} is a COOPERATIVE one and gives away partitions that are still owned: {listed(both)}"
        )


def snapshot(cluster: Cluster, topics: Iterable[str], with_racks: bool) -> Snapshot:
    """What an assignment of these topics depends on: how many partitions each has, and where, if that matters."""
    return {
        topic: tuple(topic_racks(cluster, topic)) if with_racks else (cluster.partition_count(topic),)
        for topic in sorted(topics)
        if cluster.partition_count(topic)
    }

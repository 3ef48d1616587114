"""Being a member of a consumer group (KIP-848): heartbeats, and carrying out what the coordinator wants.

Three things run, each when it is needed: heartbeats, at the coordinator's interval and at once when there is something
to tell; the reconciliation of a target, which hands to the user what goes and what comes; and letting go, after the
member was fenced, refused, or has not polled in time. Promises: a partition is owned until the user has given it up,
and the coordinator hears of that only afterwards; topics that the client does not know are looked up by their ids. The
rules are `consumer_member`'s. Made by `consumer_group`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ottla.client.errors import as_kafka_error
from ottla.client.group.commits import Identity
from ottla.client.group.consumer_member import ConsumerMember, Local
from ottla.client.group.context import GroupContext
from ottla.client.group.heartbeats import Beat, BeatVerdict, Heartbeats, MemberState
from ottla.client.group.interface import GroupMetadata, RebalanceEvent, RebalanceKind, Subscription
from ottla.client.group.membership import Membership, listed
from ottla.client.group.topic_names import TopicNames
from ottla.errors import GroupIdNotFound, InconsistentGroupProtocol, KafkaError, UnknownMemberId, UnsupportedVersion
from ottla.types import TopicPartition, Uuid
from ottla.wire import Message
from ottla.world import Task

log = logging.getLogger(__name__)

REFUSALS = (GroupIdNotFound, UnsupportedVersion, InconsistentGroupProtocol)
"""What a broker answers to a member of the new protocol when the group, or the cluster, has not got it."""


class ConsumerMembership(Membership):
    def __init__(self, context: GroupContext, on_refused: Callable[[KafkaError], bool]) -> None:
        super().__init__(context)
        config = context.config
        self._on_refused = on_refused
        self.member = ConsumerMember(
            context.group_id,
            str(Uuid(context.world.random.randbytes(16))),
            instance_id=config.group_instance_id,
            rack=config.client_rack or None,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            assignor=config.group_remote_assignor,
        )
        self._heartbeats = Heartbeats(context, self.member, context.metrics, self._carry_out)
        self._reconciliation: Task[None] | None = None
        self._letting_go: Task[None] | None = None
        self._names = TopicNames(context)
        self._fatal: KafkaError | None = None

    # What ConsumerGroup calls

    def subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.member.subscribe(subscription)
        self._heartbeats.wake()
        self.context.consumed.on_group_event()

    @property
    def wants_poll(self) -> bool:
        if self.subscription is None or self._letting_go is not None:
            return False
        return self.member.state in (MemberState.UNSUBSCRIBED, MemberState.STALE, MemberState.FATAL)

    def on_poll(self) -> None:
        if not self.wants_poll:
            return
        if self._fatal is not None:
            raise self._fatal
        if self.member.state is MemberState.UNSUBSCRIBED:
            self._join()
        else:
            self._let_go(and_join=True)

    def on_poll_too_late(self) -> None:
        self._stop()
        if not self.member.is_in_group:
            return
        request = self.member.leave_request(keep_place=self.member.instance_id is not None)
        self.member.begin_stale()
        if request is not None:
            self.context.world.tasks.spawn(self._send_leave(request, None), f"[{self.context.name}] leave")

    def begin_leave(self) -> RebalanceEvent | None:
        self._stop()
        self.subscription = None
        return self.give_up_all(is_lost=not self.member.is_in_group or self.member.epoch <= 0)

    async def leave(self, timeout_ms: float | None, keep_place: bool, reason: str) -> None:
        request = self.member.leave_request(keep_place=keep_place)
        if request is not None:
            await self._send_leave(request, timeout_ms)

    async def _send_leave(self, request: Message, timeout_ms: float | None) -> None:
        try:
            response = await self.context.ask(
                request, self.context.config.request_timeout_ms if timeout_ms is None else timeout_ms
            )
        except KafkaError as error:
            log.warning("[%s] The heartbeat that leaves was not answered: %s", self.context.name, error)
            return
        if response.error_code not in (0, GroupIdNotFound.code, UnknownMemberId.code):  # those are out already
            log.warning("[%s] The heartbeat that leaves failed with error code %d: %s", self.context.name,
                        response.error_code, response.error_message)  # fmt: skip

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        self._heartbeats.stop()
        for task in (self._reconciliation, self._letting_go):
            if task is not None:
                task.cancel()
        self._reconciliation = self._letting_go = None

    def enforce_rebalance(self, reason: str) -> None:
        log.warning("[%s] enforce_rebalance has no effect with the consumer protocol: the coordinator shares out",
                    self.context.name)  # fmt: skip

    def watched_topics(self) -> Iterable[str]:
        return self._names.known.values()

    @property
    def is_active(self) -> bool:
        return self.member.is_in_group

    def commit_as(self) -> Identity:
        return self.member.commit_as()

    def fetch_as(self) -> Identity:
        return self.member.identity

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        return self.member.commit_refused(error, sent)

    def group_metadata(self) -> GroupMetadata:
        member = self.member
        return GroupMetadata(self.context.group_id, member.identity.generation_id, member.member_id, member.instance_id)

    # Heartbeats

    def _join(self) -> None:
        log.info("[%s] Joining the group as member %s", self.context.name, self.member.member_id)
        self.member.join()
        self._heartbeats.beat()

    def _carry_out(self, verdict: BeatVerdict) -> None:
        match verdict.next:
            case Beat.LET_GO:
                log.info("[%s] Member %s is out of the group: %s It gives up its partitions and joins again",
                         self.context.name, self.member.member_id, verdict.error)  # fmt: skip
                self._let_go(and_join=True)
            case Beat.TELL | Beat.FAIL:
                assert verdict.error is not None, "a failure has its reason"
                if verdict.next is Beat.FAIL:
                    self._fail(verdict.error)
                else:
                    log.error("[%s] A heartbeat failed: %s", self.context.name, verdict.error)
                    self.context.fail(verdict.error)
            case _:
                if self.member.state is MemberState.RECONCILING and self._reconciliation is None:
                    self._reconciliation = self.context.world.tasks.spawn(
                        self._told(self._reconciling()), f"[{self.context.name}] reconciliation"
                    )

    def _fail(self, error: KafkaError) -> None:
        if isinstance(error, REFUSALS) and not self.owned and self._on_refused(error):
            return
        log.error("[%s] The group cannot be joined: %s", self.context.name, error)
        self.context.metrics.rebalance_failed()
        self.member.state = MemberState.FATAL
        self._fatal = error
        self._let_go(and_join=False)
        self.context.consumed.on_group_event()

    # Letting go

    def _let_go(self, *, and_join: bool) -> None:
        if self._reconciliation is not None:
            self._reconciliation.cancel()
            self._reconciliation = None
        self._letting_go = self.context.world.tasks.spawn(
            self._told(self._giving_up(and_join)), f"[{self.context.name}] giving up partitions"
        )

    async def _told(self, work: Coroutine[Any, Any, None]) -> None:
        """Have the user told of whatever ends `work` before its time: nothing else would, and the member would stay as
        it is for ever."""
        try:
            await work
        except Exception as error:
            failure = as_kafka_error(error, "The assignment could not be carried out")
            log.error("[%s] %s", self.context.name, failure, exc_info=error)
            self.member.state = MemberState.FATAL
            self._fatal = failure
            self._reconciliation = self._letting_go = None
            self.context.consumed.on_group_event()

    async def _giving_up(self, and_join: bool) -> None:
        """What was owned is lost: the user is told, and then the member begins anew."""
        if self.owned:
            await self.hand_over(RebalanceKind.LOST, self.owned, ())
        self._letting_go = None
        if and_join and self.subscription is not None:
            self._join()

    # Reconciliation

    async def _reconciling(self) -> None:
        """Carry out the target, and the one that comes meanwhile, until there is nothing left to do or to know."""
        member = self.member
        joins, failures = member.joins, 0
        while member.state is MemberState.RECONCILING and member.joins == joins:
            target = member.target
            names = await self._names.resolve(target.partitions)
            known = {topic_id: found for topic_id, found in target.partitions.items() if topic_id in names}
            carried_out = target if len(known) == len(target.partitions) else Local(target.number, known)
            if carried_out == member.current:
                # The rest cannot be named yet: its topics are very new, or already gone.
                await self.context.world.tasks.sleep_ms(self.context.network.retry_backoff.delay_ms(failures))
                failures += 1
                continue
            assigned = frozenset(
                TopicPartition(names[topic_id], partition) for topic_id, found in known.items() for partition in found
            )
            begun_ms = self.context.world.clock.monotonic_ms()
            await self._change_to(assigned)
            if member.state is MemberState.RECONCILING and member.joins == joins:
                self.context.metrics.rebalanced(self.context.world.clock.monotonic_ms() - begun_ms)
                member.reconciled(carried_out)
                self._heartbeats.wake()
        self._reconciliation = None

    async def _change_to(self, assigned: frozenset[TopicPartition]) -> None:
        owned = self.owned
        gone, added = owned - assigned, assigned - owned
        log.info("[%s] Reconciling assignment at epoch %d: assigned %s, added %s, revoked %s", self.context.name,
                 self.member.epoch, listed(assigned), listed(added), listed(gone))  # fmt: skip
        if gone:
            await self.hand_over(RebalanceKind.REVOKED, gone, owned - gone)
        await self.hand_over(RebalanceKind.ASSIGNED, added, assigned)

"""`ConsumerGroup`: a consumer's place in its group, in whichever protocol, and its commits.

Chooses the protocol when the consumer first polls after `subscribe`: with `group.protocol=auto` the new one where the
broker has it (KIP-848), the classic one elsewhere. Watches max.poll.interval.ms, commits by itself when that is asked
for, and passes everything else on to `Membership` and `Commits`. Implements `interface.GroupFace`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from ottla.client.config import ConsumerConfig
from ottla.client.errors import ClientClosed, as_kafka_error
from ottla.client.group.commits import Commits, Outsider
from ottla.client.group.context import GroupContext
from ottla.client.group.interface import Consumed, GroupMetadata, RebalanceEvent, RebalanceKind, Subscription
from ottla.client.group.membership import Membership
from ottla.client.group.poll_watch import PollWatch
from ottla.client.network import COORDINATOR, ApiVersions, Coordinators, Deadline, Metadata, NetworkClient
from ottla.errors import KafkaError
from ottla.world import Task

log = logging.getLogger(__name__)

CONSUMER_GROUP_HEARTBEAT_KEY = 68
GROUP_VERSION = "group.version"


class ConsumerGroup:
    """One consumer and its group. Everything runs on the loop, but for `note_poll`."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ConsumerConfig,
        consumed: Consumed,
        coordinators: Coordinators | None = None,
    ) -> None:
        self._context = GroupContext(network, metadata, config, consumed, coordinators)
        self._world = network.world
        self._config = config
        self.events: deque[RebalanceEvent] = self._context.events
        self.commits = Commits(self._context)
        self.metrics = self._context.metrics
        self._subscription: Subscription | None = None
        self._membership: Membership | None = None
        self._choosing: Task[None] | None = None
        self._watch = PollWatch(
            self._world,
            self._context.name,
            interval_ms=config.max_poll_interval_ms,
            records_max=config.max_poll_records,
            matters=lambda: self._membership is not None and self._membership.is_active,
            on_late=self._on_late,
        )
        self._commit_due_ms = self._world.clock.monotonic_ms() + config.auto_commit_interval_ms
        self._leaving: Deadline | None = None
        """Until when a member that is on its way out may still commit and say so."""
        self._is_closed = False

    # The subscription

    def subscribe(self, subscription: Subscription) -> None:
        """Join with this subscription, or tell the group of a changed one. Nothing happens before `on_poll`."""
        self._subscription = subscription
        self._leaving = None
        if self._membership is not None:
            self._membership.subscribe(subscription)
        self._context.consumed.on_group_event()

    def watched_topics(self) -> Iterable[str]:
        """Topics whose metadata the group needs beside the consumer's own: keep them when asking for others."""
        return () if self._membership is None else self._membership.watched_topics()

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group just now."""
        if self._membership is None:
            return GroupMetadata(self._context.group_id, group_instance_id=self._config.group_instance_id)
        return self._membership.group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group share out anew with the next poll (classic only; the other protocol has no need)."""
        if self._membership is not None:
            self._membership.enforce_rebalance(reason or "rebalance enforced by user")

    # Polls

    def note_poll(self) -> bool:
        """The user polls: the clock of max.poll.interval.ms begins again. Whether `on_poll` has something to do."""
        now_ms = self._watch.note()
        context = self._context
        return (
            bool(context.events)
            or context.has_error
            or self._watch.is_late
            or (self._config.enable_auto_commit and now_ms >= self._commit_due_ms)
            or self._wants_poll()
        )

    def _wants_poll(self) -> bool:
        if self._subscription is None:
            return False
        return self._choosing is None if self._membership is None else self._membership.wants_poll

    def on_poll(self) -> None:
        """Auto-commit when it is due, (re)join when that is needed, raise what the user must hear of."""
        error = self._context.take_error()
        if error is not None:
            raise error
        if self._subscription is not None:
            self._watch.watch()
            if self._membership is None:
                self._choose()
            if self._membership is not None:
                self._membership.on_poll()
        if self._config.enable_auto_commit and self._world.clock.monotonic_ms() >= self._commit_due_ms:
            self._auto_commit()

    def next_poll_ms(self) -> float | None:
        """In how many ms `on_poll` wants to be called again: for auto-commit, and so that a long poll counts as one."""
        wait_ms = None if self._subscription is None else self._config.max_poll_interval_ms / 3
        if self._config.enable_auto_commit:
            due_ms = max(0.0, self._commit_due_ms - self._world.clock.monotonic_ms())
            wait_ms = due_ms if wait_ms is None else min(wait_ms, due_ms)
        return wait_ms

    def _on_late(self) -> None:
        assert self._membership is not None, "only a member can be late"
        self._membership.on_poll_too_late()

    # Auto-commit

    def _auto_commit(self) -> None:
        """Commit what the user was given before this poll, and so has worked through."""
        positions = self._context.consumed.positions()
        self._commit_due_ms = self._world.clock.monotonic_ms() + self._config.auto_commit_interval_ms

        def done(error: KafkaError | None) -> None:
            if error is None or isinstance(error, ClientClosed):
                return
            if error.retriable:
                log.debug("[%s] Auto-commit failed for now: %s", self._context.name, error)
                self._commit_due_ms = self._world.clock.monotonic_ms() + self._config.retry_backoff_ms
            else:
                log.warning("[%s] Auto-commit failed: %s", self._context.name, error)

        if positions:
            self.commits.commit_then(positions, done)

    async def prepare(self, event: RebalanceEvent, timeout_ms: float | None = None) -> None:
        """Before the listener hears of `event`: commits what was consumed when auto-commit is on. Never raises."""
        if event.kind is not RebalanceKind.REVOKED:
            return
        limit_ms: float = self._config.max_poll_interval_ms
        if self._leaving is not None:
            limit_ms = self._leaving.at_most(self._config.request_timeout_ms)
        await self.auto_commit(limit_ms if timeout_ms is None else min(limit_ms, timeout_ms))

    async def auto_commit(self, timeout_ms: float | None) -> None:
        """Commit what was consumed, now, when auto-commit is on: before partitions go, and on close. Never raises."""
        if not self._config.enable_auto_commit:
            return
        positions = self._context.consumed.positions()
        if positions:
            try:
                await self.commits.commit(positions, timeout_ms)
            except KafkaError as error:
                log.warning("[%s] Auto-commit of %s failed: %s. Going on without it", self._context.name,
                            ", ".join(map(str, positions)), error)  # fmt: skip
        self._commit_due_ms = self._world.clock.monotonic_ms() + self._config.auto_commit_interval_ms

    # The protocol

    def _choose(self) -> None:
        protocol = self._config.group_protocol
        if protocol == "auto":
            if self._choosing is None:
                self._choosing = self._world.tasks.spawn(self._ask(), f"[{self._context.name}] choosing the protocol")
        else:
            self._become(protocol)

    async def _ask(self) -> None:
        """What the broker can: the coordinator, or whoever of the cluster has told."""
        try:
            versions = await self._versions()
        except Exception as error:  # noqa: BLE001  it is told to the user
            self._context.fail(as_kafka_error(error, "The protocol of the group could not be chosen"))
            return
        finally:
            self._choosing = None
        has_it = (
            versions.usable(CONSUMER_GROUP_HEARTBEAT_KEY) is not None and versions.features.get(GROUP_VERSION, 0) >= 1
        )
        if self._subscription is not None and self._membership is None and not self._is_closed:
            self._become("consumer" if has_it else "classic")

    async def _versions(self) -> ApiVersions:
        network = self._context.network
        failures = 0
        while True:
            node_id = await self._context.find(None)
            told = [network.versions(node_id, COORDINATOR), *map(network.versions, [node_id, *network.nodes])]
            for versions in told:
                if versions is not None:
                    return versions
            # Who has told where the coordinator is has gone since.
            await self._world.tasks.sleep_ms(network.retry_backoff.delay_ms(failures))
            network.connect(node_id, COORDINATOR)
            failures += 1

    def _become(self, protocol: str) -> None:
        assert self._subscription is not None, "only who subscribes becomes a member"
        if protocol == "classic":
            from ottla.client.group.classic_membership import ClassicMembership

            membership: Membership = ClassicMembership(self._context)
        else:
            from ottla.client.group.consumer_membership import ConsumerMembership

            membership = ConsumerMembership(self._context, on_refused=self._on_refused)
        log.debug("[%s] Using the %s protocol", self._context.name, protocol)
        try:
            membership.subscribe(self._subscription)
        except KafkaError as error:
            self._context.fail(error)
            return
        self._membership = membership
        self.commits.committer = membership
        self._context.consumed.on_group_event()

    def _on_refused(self, error: KafkaError) -> bool:
        """The broker does not take the new protocol for this group: whether the classic one is tried instead."""
        can_be_classic = self._subscription is not None and self._subscription.pattern is None
        if self._config.group_protocol != "auto" or not can_be_classic or self._is_closed:
            return False
        log.info("[%s] The group cannot be joined with the consumer protocol (%s): joining with the classic one",
                 self._context.name, error)  # fmt: skip
        assert self._membership is not None, "somebody was refused"
        self._membership.close()
        self._membership = None
        self._become("classic")
        return True

    # The end

    def begin_leave(self, timeout_ms: float | None = None) -> RebalanceEvent | None:
        """Stop being a member in this process; the event gives up all that is owned.

        `timeout_ms` is for all of it, from here to the end of `leave`.
        """
        self._leaving = Deadline(self._world, timeout_ms)
        self._subscription = None
        if self._choosing is not None:
            self._choosing.cancel()
            self._choosing = None
        self._watch.stop()
        return None if self._membership is None else self._membership.begin_leave()

    async def leave(
        self, timeout_ms: float | None, *, is_closing: bool = False, keep_place: bool | None = None
    ) -> None:
        """Tell the coordinator, after `begin_leave`. Never raises: a coordinator that hears nothing notices by itself.

        By default a static member keeps its place, for when it comes back, and others give it up (KIP-1092).
        """
        membership, self._membership = self._membership, None
        self.commits.committer = Outsider()
        self._context.take_error()
        if membership is None:
            return
        if keep_place is None:
            keep_place = self._config.group_instance_id is not None
        reason = "the consumer is being closed" if is_closing else "the consumer unsubscribed from all topics"
        if self._leaving is not None and timeout_ms is not None:
            timeout_ms = self._leaving.at_most(timeout_ms)
        try:
            await membership.leave(timeout_ms, keep_place, reason)
        finally:
            membership.close()

    def close(self) -> None:
        """Stop everything that still runs; no more requests."""
        self._is_closed = True
        self.begin_leave()
        if self._membership is not None:
            self._membership.close()
            self._membership = None

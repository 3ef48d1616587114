"""Being a member of a share group: heartbeats, and the assignment in names. The rules are `share_member`'s.

Promises: `assignment` is what the coordinator said last, as far as its topics can be named; a member that is fenced, or
whose user was late to poll, joins again; `on_change` is called when the assignment has changed, or an error waits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.client.config import ShareConsumerConfig
from ottla.client.errors import as_kafka_error
from ottla.client.group.context import Coordination
from ottla.client.group.heartbeats import Beat, BeatVerdict, Heartbeats, MemberState
from ottla.client.group.topic_names import TopicNames
from ottla.client.metrics import HeartbeatMetrics
from ottla.client.share.session import IdPartition
from ottla.client.share.share_member import ShareMember
from ottla.errors import GroupIdNotFound, KafkaError, UnknownMemberId
from ottla.types import TopicPartition, Uuid
from ottla.wire import Message
from ottla.world import Task

log = logging.getLogger(__name__)


class ShareMembership:
    def __init__(
        self,
        coordination: Coordination,
        config: ShareConsumerConfig,
        metrics: HeartbeatMetrics,
        on_change: Callable[[], object],
    ) -> None:
        self._coordination = coordination
        self._config = config
        self._metrics = metrics
        self._on_change = on_change
        world = coordination.world
        self.member = ShareMember(
            coordination.group_id, str(Uuid(world.random.randbytes(16))), rack=config.client_rack or None
        )
        self._heartbeats = Heartbeats(coordination, self.member, metrics, self._carry_out)
        self._names = TopicNames(coordination)
        self._naming: Task[None] | None = None
        self.assignment: dict[TopicPartition, IdPartition] = {}
        self.error: KafkaError | None = None
        """What the user must hear of, once."""
        self._fatal: KafkaError | None = None

    # What the consumer calls

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Join with the next poll, or tell the group of other topics."""
        self.member.subscribe(topics)
        self._coordination.metadata.add_topics(topics)
        self._heartbeats.wake()

    def on_poll(self) -> None:
        """Join when that is needed; raise what the user must hear of."""
        error, self.error = self.error, None
        if self._fatal is not None:
            raise self._fatal
        if error is not None:
            raise error
        if self.member.topics and self.member.state in (MemberState.UNSUBSCRIBED, MemberState.STALE):
            log.info("[%s] Joining the share group as member %s", self._coordination.name, self.member.member_id)
            self.member.join()
            self._heartbeats.beat()

    def on_poll_too_late(self) -> None:
        """The user has not polled for max.poll.interval.ms: give the place up until it does."""
        self._stop()
        request = self.member.leave_request()
        self.member.begin_stale()
        self._set_assignment({})
        if request is not None:
            timeout_ms = self._config.request_timeout_ms
            self._coordination.world.tasks.spawn(self._tell(request, timeout_ms), f"[{self._coordination.name}] leave")

    async def leave(self, timeout_ms: float | None) -> None:
        """Give the place up, and tell the coordinator."""
        self._stop()
        self.member.subscribe(())
        request = self.member.leave_request()
        self._set_assignment({})
        self.error = self._fatal = None
        if request is not None:
            await self._tell(request, timeout_ms)

    async def _tell(self, request: Message, timeout_ms: float | None) -> None:
        try:
            response = await self._coordination.ask(request, timeout_ms)
        except KafkaError as error:
            log.warning("[%s] The heartbeat that leaves was not answered: %s", self._coordination.name, error)
            return
        if response.error_code not in (0, GroupIdNotFound.code, UnknownMemberId.code):  # those are out already
            log.warning("[%s] The heartbeat that leaves failed with error code %d: %s", self._coordination.name,
                        response.error_code, response.error_message)  # fmt: skip

    def close(self) -> None:
        self._stop()

    def _stop(self) -> None:
        self._heartbeats.stop()
        if self._naming is not None:
            self._naming.cancel()
            self._naming = None

    @property
    def is_active(self) -> bool:
        return self.member.is_in_group

    # What heartbeats bring

    def _carry_out(self, verdict: BeatVerdict) -> None:
        match verdict.next:
            case Beat.LET_GO:
                log.info("[%s] Member %s is out of the share group: %s It joins again", self._coordination.name,
                         self.member.member_id, verdict.error)  # fmt: skip
                self._set_assignment({})
                self.member.join()
                self._heartbeats.beat()
            case Beat.FAIL | Beat.TELL:
                assert verdict.error is not None, "a failure has its reason"
                log.error("[%s] A heartbeat failed: %s", self._coordination.name, verdict.error)
                self.error = verdict.error
                if verdict.next is Beat.FAIL:
                    self._fatal = verdict.error
                    self._set_assignment({})
                self._on_change()
            case _:
                if self._naming is None and not self._is_named():
                    name = f"[{self._coordination.name}] naming topics"
                    self._naming = self._coordination.world.tasks.spawn(self._naming_topics(), name)

    def _is_named(self) -> bool:
        """Whether the assignment in names is what the coordinator said."""
        told = {IdPartition(topic_id, one) for topic_id, found in self.member.target.items() for one in found}
        return told == set(self.assignment.values())

    async def _naming_topics(self) -> None:
        try:
            await self._name_topics()
        except Exception as error:  # noqa: BLE001  it is told to the user
            self.error = as_kafka_error(error, "The topics of the assignment could not be named")
            self._on_change()
        self._naming = None

    async def _name_topics(self) -> None:
        failures = 0
        while not self._is_named() and self.member.is_in_group:
            names = await self._names.resolve(tuple(self.member.target))
            self._set_assignment(
                {
                    TopicPartition(names[topic_id], partition): IdPartition(topic_id, partition)
                    for topic_id, found in self.member.target.items()
                    if topic_id in names
                    for partition in found
                }
            )
            if not self._is_named():
                await self._coordination.world.tasks.sleep_ms(
                    self._coordination.network.retry_backoff.delay_ms(failures)
                )
                failures += 1

    def _set_assignment(self, assignment: dict[TopicPartition, IdPartition]) -> None:
        if assignment != self.assignment:
            log.info("[%s] Assigned partitions: %s", self._coordination.name, ", ".join(map(str, sorted(assignment))))
            self.assignment = assignment
            self._metrics.rebalanced(0)
            self._on_change()

"""What membership and commits share: the way to the coordinator, the consumer's ear, and what the user must hear of.

Promises: a request to the coordinator is sent once, and a coordinator that cannot be reached, or is none any more, is
looked for again the next time; an error for the user is kept until `take_error`, one at a time, the first wins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ottla.client.config import ConsumerConfig
from ottla.client.group.interface import Consumed, RebalanceEvent, RebalanceKind
from ottla.client.metrics import CoordinatorMetrics
from ottla.client.network import COORDINATOR, CoordinatorKind, Coordinators, Deadline, Metadata, NetworkClient, Request
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.world import Promise


class Coordination:
    """The way to a group's coordinator."""

    def __init__(
        self, network: NetworkClient, metadata: Metadata, group_id: str, coordinators: Coordinators | None = None
    ) -> None:
        self.world = network.world
        self.network = network
        self.metadata = metadata
        self.coordinators = coordinators or Coordinators(network)
        self.group_id = group_id
        self.name = network.name if "groupId=" in network.name else f"{network.name}, groupId={group_id}"

    async def find(self, timeout_ms: float | None) -> int:
        """The coordinator's node id, once it is known."""
        return await self.coordinators.find(CoordinatorKind.GROUP, self.group_id, timeout_ms)

    async def ask(self, request: Request, timeout_ms: float | None, *, answer_ms: float | None = None) -> Any:
        """The coordinator's response. `timeout_ms` is for all of it, `answer_ms` for the request alone."""
        deadline = Deadline(self.world, timeout_ms)
        node_id = await self.find(timeout_ms)
        limit_ms = self.network.config.request_timeout_ms if answer_ms is None else answer_ms
        try:
            return await self.network.send(node_id, request, timeout_ms=deadline.at_most(limit_ms), lane=COORDINATOR)
        except KafkaError as error:
            if error.retriable:
                self.lost(error)
            raise

    def lost(self, why: KafkaError) -> None:
        """The coordinator cannot be reached, or is none any more."""
        self.coordinators.forget(CoordinatorKind.GROUP, self.group_id, why)

    def note(self, error_code: int) -> None:
        """A response of the coordinator had this error: whether another one is to be looked for."""
        self.coordinators.note(CoordinatorKind.GROUP, self.group_id, error_code)


class GroupContext(Coordination):
    """One consumer's ties to its group."""

    def __init__(
        self,
        network: NetworkClient,
        metadata: Metadata,
        config: ConsumerConfig,
        consumed: Consumed,
        coordinators: Coordinators | None = None,
    ) -> None:
        assert config.group_id is not None, "a consumer without group.id has no group"
        super().__init__(network, metadata, config.group_id, coordinators)
        self.config = config
        self.consumed = consumed
        self.events: deque[RebalanceEvent] = deque()
        self.assigned_count = 0
        self.metrics = CoordinatorMetrics(
            consumed.metrics, assigned=lambda: self.assigned_count, is_classic=config.group_protocol != "consumer"
        )
        self._error: KafkaError | None = None

    @property
    def has_error(self) -> bool:
        return self._error is not None

    def fail(self, error: KafkaError) -> None:
        """The next poll raises this."""
        if self._error is None:
            self._error = error
        self.consumed.on_group_event()

    def take_error(self) -> KafkaError | None:
        error, self._error = self._error, None
        return error

    def event(
        self, kind: RebalanceKind, partitions: Iterable[TopicPartition], assignment: Iterable[TopicPartition]
    ) -> RebalanceEvent:
        done: Promise[None] = self.world.tasks.promise()
        return RebalanceEvent(kind, tuple(sorted(partitions)), tuple(sorted(assignment)), done)

    async def hand_over(self, event: RebalanceEvent) -> None:
        """Have the consumer carry `event` out, and wait until it has."""
        # Who waits here may be cancelled, and the consumer must still find its promise open.
        told: Promise[None] = self.world.tasks.promise()
        event.done.add_done_callback(lambda _: None if told.done() else told.set_result(None))
        self.events.append(event)
        self.consumed.on_group_event()
        try:
            await told
        finally:
            if event in self.events:
                self.events.remove(event)

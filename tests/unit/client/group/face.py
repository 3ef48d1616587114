"""A consumer that reads nothing: the smallest `Consumed` there is, to see a `ConsumerGroup` at work."""

from __future__ import annotations

from ottla.client.config import ConsumerConfig, read_settings
from ottla.client.errors import KafkaTimeout
from ottla.client.group import ConsumerGroup, OffsetAndMetadata, Offsets, RebalanceEvent, RebalanceKind, Subscription
from ottla.client.metrics import Metrics
from ottla.client.network import Deadline, Metadata, NetworkClient, within
from ottla.types import TopicPartition
from ottla.world import ClientWorld, Promise


class Face:
    """Polls, carries out what the group hands over, and writes down what a listener would hear."""

    def __init__(self, world: ClientWorld, topics: list[str], settings: dict[str, object]) -> None:
        self.world = world
        self.config = read_settings(ConsumerConfig, settings, {})
        self.network = NetworkClient(world, self.config, name=f"Consumer clientId={self.config.client_id}")
        self.metadata = Metadata(self.network)
        self.metrics = Metrics(self.config.client_id, world.clock.monotonic_ms)
        self.assignment: tuple[TopicPartition, ...] = ()
        self.consumed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.heard: list[tuple[str, list[str]]] = []
        """What a listener would have been told."""
        self._signal: Promise[None] | None = None
        self.group = ConsumerGroup(self.network, self.metadata, self.config, self)
        self.commits = self.group.commits
        if topics:
            self.subscribe(topics)

    def subscribe(self, topics: list[str]) -> None:
        self.metadata.add_topics(topics)
        self.group.subscribe(Subscription(tuple(topics)))

    # Consumed

    def positions(self) -> Offsets:
        return {partition: self.consumed[partition] for partition in self.assignment if partition in self.consumed}

    def on_group_event(self) -> None:
        signal = getattr(self, "_signal", None)
        if signal is not None and not signal.done():
            signal.set_result(None)

    # The user

    async def poll(self, timeout_ms: float) -> None:
        """Be in poll for so long."""
        deadline = Deadline(self.world, timeout_ms)
        while True:
            self._signal = self.world.tasks.promise()
            await self.serve()
            if deadline.has_passed:
                return
            wait_ms = self.group.next_poll_ms()
            left_ms = deadline.at_most(timeout_ms if wait_ms is None else wait_ms)
            try:
                await within(self.world, self._signal, left_ms, "a signal")
            except KafkaTimeout:
                continue  # the next round looks at the deadline

    async def poll_until(self, count: int, timeout_ms: float = 20_000) -> None:
        """Poll until so many partitions are assigned."""
        deadline = Deadline(self.world, timeout_ms)
        while len(self.assignment) != count:
            assert not deadline.has_passed, f"{count} partitions did not come: {self.heard}"
            await self.poll(50)

    async def serve(self) -> None:
        """What one poll does, without waiting."""
        if self.group.note_poll():
            self.group.on_poll()
        while self.group.events:
            await self.carry_out(self.group.events.popleft())
        while self.commits.completions:
            self.commits.completions.popleft()()

    async def carry_out(self, event: RebalanceEvent) -> None:
        if event.kind is RebalanceKind.ASSIGNED:
            self.assignment = event.assignment
        await self.group.prepare(event)
        self.heard.append((event.kind.value, [str(partition) for partition in event.partitions]))
        self.assignment = event.assignment
        event.done.set_result(None)

    async def unsubscribe(self) -> None:
        event = self.group.begin_leave()
        if event is not None:
            await self.carry_out(event)
        await self.group.leave(5_000)

    async def close(self) -> None:
        """Leave, and end all connections."""
        event = self.group.begin_leave()
        if event is not None:
            await self.carry_out(event)
        await self.group.leave(5_000, is_closing=True)
        self.drop()

    def drop(self) -> None:
        """Go without a word."""
        self.group.close()
        self.metadata.close()
        self.network.close()

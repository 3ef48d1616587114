"""What the two ways of being a member have in common, as `ConsumerGroup` sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ottla.client.group.commits import Identity
from ottla.client.group.context import GroupContext
from ottla.client.group.interface import GroupMetadata, RebalanceEvent, RebalanceKind, Subscription
from ottla.errors import KafkaError
from ottla.types import TopicPartition


class Membership(ABC):
    """A member's life: from `subscribe` to `begin_leave`, and again. Everything runs on the loop."""

    def __init__(self, context: GroupContext) -> None:
        self.context = context
        self.subscription: Subscription | None = None
        """None: no member, and none to become."""
        self.owned: frozenset[TopicPartition] = frozenset()
        """What the consumer was told last."""

    # What ConsumerGroup calls

    @abstractmethod
    def subscribe(self, subscription: Subscription) -> None:
        """Become a member with the next poll, or tell the group of another subscription."""

    @property
    @abstractmethod
    def wants_poll(self) -> bool:
        """Whether `on_poll` has something to do."""

    @abstractmethod
    def on_poll(self) -> None:
        """The user is in poll: begin what must not begin behind the user's back."""

    @abstractmethod
    def on_poll_too_late(self) -> None:
        """The user has not polled for max.poll.interval.ms: give the place up until it does."""

    @abstractmethod
    def begin_leave(self) -> RebalanceEvent | None:
        """Stop; the event gives up what is owned."""

    @abstractmethod
    async def leave(self, timeout_ms: float | None, keep_place: bool, reason: str) -> None:
        """Tell the coordinator."""

    @abstractmethod
    def close(self) -> None:
        """End what still runs."""

    @abstractmethod
    def enforce_rebalance(self, reason: str) -> None: ...

    @abstractmethod
    def watched_topics(self) -> Iterable[str]: ...

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether the coordinator counts on this member, so that a user who does not poll holds others up."""

    # What Commits calls

    @abstractmethod
    def commit_as(self) -> Identity: ...

    @abstractmethod
    def fetch_as(self) -> Identity: ...

    @abstractmethod
    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError: ...

    @abstractmethod
    def group_metadata(self) -> GroupMetadata: ...

    # What both do

    async def hand_over(
        self, kind: RebalanceKind, partitions: Iterable[TopicPartition], assignment: Iterable[TopicPartition]
    ) -> None:
        """Have the consumer carry a change out, and wait until it has."""
        event = self.context.event(kind, partitions, assignment)
        event.done.add_done_callback(lambda _: self._on_carried_out(event))
        await self.context.hand_over(event)

    def _on_carried_out(self, event: RebalanceEvent) -> None:
        self._own(frozenset(event.assignment))

    def _own(self, partitions: frozenset[TopicPartition]) -> None:
        self.owned = partitions
        self.context.assigned_count = len(partitions)

    def give_up_all(self, *, is_lost: bool) -> RebalanceEvent | None:
        """The event that takes everything away; None when there is nothing."""
        self.context.events.clear()
        if not self.owned:
            return None
        kind = RebalanceKind.LOST if is_lost else RebalanceKind.REVOKED
        event = self.context.event(kind, self.owned, ())
        self._own(frozenset())
        return event


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as log lines have them."""
    return f"[{', '.join(map(str, sorted(partitions)))}]"

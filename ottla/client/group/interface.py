"""What a consumer and its group have to do with each other: values, events, and who calls whom.

The consumer (`ottla.client.consumer`) makes one `ConsumerGroup(network, metadata, config, consumed)` and is itself the
`Consumed` of it. The group joins, heartbeats and commits by itself on the loop; what concerns the user (a listener, the
assignment) it hands over as `RebalanceEvent`s, which the consumer carries out inside `poll`, `unsubscribe` and `close`,
one after the other:

    if group.note_poll():                  # cheap, from any thread; True: there is something to do on the loop
        group.on_poll()                    # on the loop; raises what the user must hear of, once
    while group.events:
        event = group.events.popleft()
        await carry_out(event)

and `carry_out` is:

    REVOKED, LOST                                      ASSIGNED
    1. fetch event.partitions no more                  1. the assignment becomes event.assignment
    2. await group.prepare(event)   (auto-commit)      2. await group.prepare(event)
    3. the listener, with event.partitions             3. the listener, with event.partitions
    4. the assignment becomes event.assignment         4. event.done.set_result(None)
    5. event.done.set_result(None)

A listener that raises: `event.done.set_result(None)` all the same (the assignment stands), and `poll` raises its error.
To leave (`unsubscribe`, `close`): `event = group.begin_leave()`; carry it out when it is not None; `await
group.leave(timeout_ms)`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from ottla.client.metrics import CoordinatorMetrics, Metrics
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.world import Promise

NO_GENERATION = -1
NO_MEMBER_ID = ""


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed offset: of the next record to be read, with a text of the user's and the epoch of its leader."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who a consumer is in its group: what a transactional producer commits offsets with."""

    group_id: str
    generation_id: int = NO_GENERATION
    """The generation of a classic group, the member's epoch in a consumer group; -1 outside of any."""
    member_id: str = NO_MEMBER_ID
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants: topics by name, or a pattern that the broker matches (RE2, KIP-848)."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """Of the broker's kind. A pattern that the client matches is not told: its topics are."""


class RebalanceKind(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    """Taken in order: what was consumed can still be committed."""
    LOST = "lost"
    """Gone already: somebody else may own these partitions, and a commit would be refused."""


@dataclass(slots=True)
class RebalanceEvent:
    """A change of the assignment; the group waits for `done` before it tells the coordinator."""

    kind: RebalanceKind
    partitions: tuple[TopicPartition, ...]
    """What is added or taken, sorted: the listener's argument. May be empty for ASSIGNED."""
    assignment: tuple[TopicPartition, ...]
    """All that is owned once this event is carried out, sorted."""
    done: Promise[None]


CommitCallback: TypeAlias = Callable[[Offsets, KafkaError | None], object]


@dataclass(slots=True)
class Completion:
    """An asynchronous commit that has ended, for the consumer to tell the user of in its own thread."""

    callback: CommitCallback
    offsets: Offsets
    error: KafkaError | None

    def __call__(self) -> None:
        self.callback(self.offsets, self.error)


class Consumed(Protocol):
    """The consumer, as its group sees it. Called on the loop."""

    @property
    def metrics(self) -> Metrics:
        """Where the group measures: heartbeats, rebalances, commits."""
        ...

    def positions(self) -> Offsets:
        """Where each assigned partition stands, as far as records were given to the user, for auto-commit.

        Partitions without a position are not in it.
        """
        ...

    def on_group_event(self) -> None:
        """Something waits in `events` or `completions`, or `on_poll` would raise: a waiting poll should look."""
        ...


class CommitsFace(Protocol):
    """Committing and looking up, with or without membership. All on the loop."""

    completions: deque[Completion]
    """Ended asynchronous commits, in order, for the consumer to call in poll, commit and close."""
    on_committed: list[Callable[[Offsets], object]]
    """Told every commit that succeeded, whoever asked for it: interceptors, the known committed offsets."""

    async def commit(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        """Commit these, or the positions; waits through what passes by itself. `CommitFailed` when the member is out.

        Waits for asynchronous commits that were begun before it.
        """
        ...

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        """Commit without waiting; what fails for now is not tried again (`RetriableCommitFailed`)."""
        ...

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each; None where there is nothing."""
        ...


class GroupFace(Protocol):
    """A consumer's place in its group. All on the loop but `note_poll`."""

    events: deque[RebalanceEvent]
    commits: CommitsFace
    metrics: CoordinatorMetrics
    """The consumer tells it how long listeners take (`called_back`)."""

    def subscribe(self, subscription: Subscription) -> None:
        """Join with this subscription, or tell the group of a changed one. Nothing happens before `on_poll`."""
        ...

    def watched_topics(self) -> Iterable[str]:
        """Topics whose metadata the group needs beside the consumer's own: keep them when asking for others."""
        ...

    def note_poll(self) -> bool:
        """The user polls: the clock of `max.poll.interval.ms` begins again. Whether `on_poll` has something to do."""
        ...

    def on_poll(self) -> None:
        """Auto-commit when it is due, (re)join when that is needed, raise what the user must hear of."""
        ...

    def next_poll_ms(self) -> float | None:
        """In how many ms `on_poll` wants to be called again (auto-commit); None: not before `on_group_event`."""
        ...

    async def prepare(self, event: RebalanceEvent, timeout_ms: float | None = None) -> None:
        """Before the listener hears of `event`: commits what was consumed when auto-commit is on. Never raises."""
        ...

    async def auto_commit(self, timeout_ms: float | None) -> None:
        """Commit what was consumed, now, when auto-commit is on: on close and on `assign`. Never raises."""
        ...

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group share out anew with the next poll (classic only; the other protocol has no need)."""
        ...

    def group_metadata(self) -> GroupMetadata: ...

    def begin_leave(self, timeout_ms: float | None = None) -> RebalanceEvent | None:
        """Stop being a member in this process; the event gives up all that is owned.

        `timeout_ms` is for all of it, from here to the end of `leave`.
        """
        ...

    async def leave(
        self, timeout_ms: float | None, *, is_closing: bool = False, keep_place: bool | None = None
    ) -> None:
        """Tell the coordinator, after `begin_leave`. Never raises: a coordinator that hears nothing notices by itself.

        By default a static member keeps its place, for when it comes back, and others give it up (KIP-1092).
        """
        ...

    def close(self) -> None:
        """Stop everything that still runs; no more requests."""
        ...

"""What a consumer reads: topics by name, by pattern, or partitions that it was told, and the state of each partition.

Promises: the three ways to choose exclude each other until `unsubscribe`, as in Kafka; a partition that stays assigned
keeps its position, its buffer and whether it is paused. Knows no I/O. Called by the consumer and everything under it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from ottla.client.consumer.partition_state import NO_EPOCH, PartitionState, Position, Status
from ottla.client.errors import IllegalState
from ottla.client.group import OffsetAndMetadata
from ottla.types import TopicPartition


@dataclass(frozen=True, slots=True)
class SubscriptionPattern:
    """A regular expression (RE2) that the broker matches with topic names; only with the consumer protocol."""

    pattern: str


class Choice(Enum):
    """How the partitions are chosen."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    SERVER_PATTERN = "server pattern"
    ASSIGNED = "assigned"


class SubscriptionState:
    """The subscription, and the partitions that came of it."""

    def __init__(self) -> None:
        self.choice = Choice.NONE
        self.topics: tuple[str, ...] = ()
        """Those that are subscribed to, by name or because the pattern matches them; sorted."""
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: SubscriptionPattern | None = None
        self.partitions: dict[TopicPartition, PartitionState] = {}
        """The assignment."""

    # Choosing

    def _choose(self, choice: Choice) -> None:
        if self.choice not in (Choice.NONE, choice):
            raise IllegalState(
                "Subscription to topics, partitions and pattern are mutually exclusive: unsubscribe() comes first"
            )
        self.choice = choice

    def subscribe_topics(self, topics: Iterable[str]) -> None:
        """Whatever the group assigns of these topics."""
        self._choose(Choice.TOPICS)
        self.topics = tuple(sorted(set(topics)))

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        """Whatever the group assigns of the topics whose whole name the pattern matches; `match_topics` follows."""
        self._choose(Choice.PATTERN)
        self.pattern = pattern

    def subscribe_server_pattern(self, pattern: SubscriptionPattern) -> None:
        """Whatever the group assigns of topics that the broker matches."""
        self._choose(Choice.SERVER_PATTERN)
        self.server_pattern = pattern

    def match_topics(self, topics: Iterable[str]) -> bool:
        """These topics exist: whether the pattern now chooses others than before."""
        assert self.pattern is not None, "only a pattern matches"
        matched = tuple(sorted(topic for topic in topics if self.pattern.fullmatch(topic)))
        if matched == self.topics:
            return False
        self.topics = matched
        return True

    def assign_by_user(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions and no others, without a group's help."""
        self._choose(Choice.ASSIGNED)
        self._assign(partitions)

    def assign_by_group(self, partitions: Iterable[TopicPartition]) -> None:
        """What the group has assigned."""
        assert self.is_by_group, "a group assigns what was subscribed to"
        self._assign(partitions)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        before = self.partitions
        self.partitions = {
            partition: before.get(partition) or PartitionState(partition) for partition in sorted(set(partitions))
        }

    def unsubscribe(self) -> None:
        """Nothing any more."""
        self.choice = Choice.NONE
        self.topics = ()
        self.pattern = None
        self.server_pattern = None
        self.partitions = {}

    @property
    def is_by_group(self) -> bool:
        """Whether a group decides what is assigned."""
        return self.choice in (Choice.TOPICS, Choice.PATTERN, Choice.SERVER_PATTERN)

    # Asking

    def state(self, partition: TopicPartition) -> PartitionState:
        """The state of an assigned partition; `IllegalState` of any other."""
        found = self.partitions.get(partition)
        if found is None:
            raise IllegalState(f"No current assignment for partition {partition}")
        return found

    def in_status(self, status: Status) -> list[PartitionState]:
        """Assigned partitions that something has to be done with, and that may be touched now."""
        return [state for state in self.partitions.values() if state.status is status and not state.is_held]

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each partition stands that has a position."""
        found = {}
        for partition, state in self.partitions.items():
            position = state.position
            if position is not None:
                found[partition] = committable(position)
        return found

    def watched_topics(self) -> set[str]:
        """Topics that the cluster must be asked about."""
        return {*self.topics, *(partition.topic for partition in self.partitions)}


def committable(position: Position) -> OffsetAndMetadata:
    """A position as it is committed."""
    return OffsetAndMetadata(position.offset, "", None if position.epoch == NO_EPOCH else position.epoch)


def as_position(place: int | OffsetAndMetadata) -> Position:
    """An offset, or what was committed, as a position; `ValueError` when it is below 0."""
    if isinstance(place, OffsetAndMetadata):
        offset, epoch = place.offset, place.leader_epoch
    else:
        offset, epoch = place, None
    if offset < 0:
        raise ValueError("seek offset must not be a negative number")
    return Position(offset, NO_EPOCH if epoch is None else epoch)

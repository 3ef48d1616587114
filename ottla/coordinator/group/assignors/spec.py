"""What an assignor is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.types import Uuid

Assignment = Mapping[Uuid, tuple[int, ...]]
"""Partitions by topic, both in `HashOrder`. A topic without partitions is not in it."""

NO_PARTITIONS: Assignment = {}


class MemberSpec(NamedTuple):
    """A member: what it is subscribed to, and what it should own so far. One is made for every member each time."""

    topic_ids: tuple[Uuid, ...]
    """Of topics that exist."""
    assignment: Assignment = NO_PARTITIONS
    instance_id: str | None = None
    rack_id: str | None = None
    subscription_size: int = -1
    """How many topics it named, whether they exist or not; as many as `topic_ids` where it does not say."""

    @property
    def named_count(self) -> int:
        return len(self.topic_ids) if self.subscription_size < 0 else self.subscription_size


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group. `members` is in the order in which members come first or last where they are equal otherwise."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    """All members are subscribed to the same topics."""
    partition_count: Callable[[Uuid], int]
    """Of a topic that exists."""
    taken: Mapping[Uuid, Collection[int]]
    """The partitions that members, perhaps some that are about to go, should own so far."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""What each member should own; a member that is not in it should own nothing."""


def same_partitions(one: Assignment, other: Assignment) -> bool:
    """Whether two assignments are of the same partitions, in whatever order."""
    if one is other or one == other:
        return True
    return one.keys() == other.keys() and all(set(one[topic]) == set(other[topic]) for topic in one)

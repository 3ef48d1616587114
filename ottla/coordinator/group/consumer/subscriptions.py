"""Who is subscribed to what in a consumer group: counts by topic, by regular expression, by assignor.

The functions change a count in any mapping: the group's own, in replay, or a copy in which a decision looks at what
would be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.coordinator.group.consumer.member import Member


class Subscribers(NamedTuple):
    """How many subscribe to a topic: members by its name, and regular expressions that match it."""

    by_name: int
    by_regex: int


NOBODY = Subscribers(0, 0)


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched, in which metadata and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


UNRESOLVED = ResolvedRegex(frozenset(), -1, -1)


def count(counts: MutableMapping[str, int], key: str | None, by: int) -> None:
    """Change how many share a key; one that nobody has is not kept, and None is no key."""
    if key is None:
        return
    value = counts.get(key, 0) + by
    if value > 0:
        counts[key] = value
    else:
        counts.pop(key, None)


def count_topics(
    counts: MutableMapping[str, Subscribers], topics: Iterable[str], *, by_name: int = 0, by_regex: int = 0
) -> None:
    for topic in topics:
        before = counts.get(topic, NOBODY)
        after = Subscribers(max(before.by_name + by_name, 0), max(before.by_regex + by_regex, 0))
        if after == NOBODY:
            counts.pop(topic, None)
        else:
            counts[topic] = after


def topics_after(
    counts: Mapping[str, Subscribers],
    *,
    without: Iterable[Member] = (),
    plus: Member | None = None,
    ended: Iterable[ResolvedRegex] = (),
) -> dict[str, Subscribers]:
    """The subscribed topics when these members are gone, that one is here, and these expressions are nobody's."""
    after = dict(counts)
    for member in without:
        count_topics(after, member.topic_names, by_name=-1)
    if plus is not None:
        count_topics(after, plus.topic_names, by_name=1)
    for resolved in ended:
        count_topics(after, resolved.topics, by_regex=-1)
    return after


def is_homogeneous(regex_counts: Mapping[str, int], topics: Collection[Subscribers], member_count: int) -> bool:
    """Whether all members subscribe to the same topics: to the same names, or to one expression and no names."""
    if not regex_counts:
        return all(topic.by_name == member_count for topic in topics)
    if next(iter(regex_counts.values())) != member_count:
        return False
    return all(topic == Subscribers(0, 1) for topic in topics)

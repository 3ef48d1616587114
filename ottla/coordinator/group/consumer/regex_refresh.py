"""`RegexRefresh`: when the regular expressions of a group are resolved anew, and what comes of it.

A heartbeat finds that it is time: an expression is new, topics were created, or the last time was long ago; though not
within ten seconds of the last. The topics are then looked at in slices, between other requests, and the result is one
decision, which moves the group epoch on if the topics are others than before.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import Member
from ottla.coordinator.group.consumer.records import Records
from ottla.coordinator.group.consumer.regexes import Resolution, check_regex
from ottla.coordinator.group.consumer.subscriptions import UNRESOLVED, count, count_topics
from ottla.machine import Result

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.groups import ConsumerGroups

log = logging.getLogger(__name__)

INTERVAL_MIN_MS = 10_000


class RegexChange(Enum):
    """What a member has done to its regular expression."""

    NONE = "none"
    UPDATED = "updated"
    """It has another one, which is not resolved yet."""
    RESOLVED = "resolved"
    """It has none any more, or one that others had before it."""


class RegexRefresh:
    """See the module."""

    def __init__(self, groups: ConsumerGroups) -> None:
        self._groups = groups
        self.new_topics_version = -1
        """The newest metadata that brought new topics."""

    def update(self, group: ConsumerGroup, before: Member, after: Member, made: Records) -> RegexChange:
        """See to the member's expression, which may be a new one, and begin a resolution if it is time."""
        if before.topic_regex == after.topic_regex and not group.regex_counts:
            return RegexChange.NONE
        old, new = before.regex, after.regex
        change, must_resolve = RegexChange.NONE, False
        if before.topic_regex != after.topic_regex:
            change = RegexChange.UPDATED
            if old is not None and group.regex_counts.get(old) == 1:
                made.append(records.no_regex(group.group_id, old))
            if new is None:
                change = RegexChange.UPDATED if old is None else RegexChange.RESOLVED
            elif new not in group.regex_counts:
                check_regex(new)
                must_resolve = True
            elif new in group.regexes:
                change = RegexChange.RESOLVED
        if must_resolve or group.regex_counts:
            self._begin_if_due(group, old, new, must_resolve=must_resolve)
        return change

    def _begin_if_due(self, group: ConsumerGroup, old: str | None, new: str | None, *, must_resolve: bool) -> None:
        key = ("consumer-regex", group.group_id)
        if key in self._groups.timers:
            return
        now_ms = self._groups.now_ms
        # All expressions of a group are resolved together, so any one tells when and in which metadata.
        last = next(iter(group.regexes.values()), None)
        if last is not None and now_ms <= last.timestamp_ms + INTERVAL_MIN_MS:
            return
        expressions = dict(group.regex_counts)
        count(expressions, old, -1)
        count(expressions, new, 1)
        if not expressions:
            return
        if (
            must_resolve
            or last is None
            or len(expressions) != len(group.regexes)
            or last.version < self.new_topics_version
            or now_ms > last.timestamp_ms + self._groups.config.group_consumer_regex_refresh_interval_ms
        ):
            resolution = Resolution(expressions, self._groups.image, now_ms)
            self._groups.timers.schedule(key, 0, lambda: self._advance(key, resolution))

    def _advance(self, key: tuple[str, str], resolution: Resolution) -> Result[None]:
        if not resolution.advance():
            self._groups.timers.schedule(key, 0, lambda: self._advance(key, resolution))
            return Result(None)
        return self._resolved(key[1], resolution)

    def _resolved(self, group_id: str, resolution: Resolution) -> Result[None]:
        """Write what the expressions match that somebody is still subscribed to."""
        group = self._groups.find(group_id)
        found = resolution.resolved()
        log.info("[%s] [GroupId %s] Scanned %d topics to refresh regular expressions %s in %dms", self._groups.name,
                 group_id, resolution.topic_count, list(found),
                 self._groups.now_ms - resolution.started_ms)  # fmt: skip
        if group is None:
            return Result(None)
        made: Records = []
        topics = dict(group.topics)
        bumps = False
        for expression, resolved in found.items():
            if expression not in group.regex_counts:
                continue
            before = group.regexes.get(expression, UNRESOLVED)
            if before.topics != resolved.topics:
                bumps = True
                count_topics(topics, before.topics, by_regex=-1)
                count_topics(topics, resolved.topics, by_regex=1)
            made.append(records.regex(group_id, expression, resolved.topics, resolved.version, resolved.timestamp_ms))
        metadata_hash = self._groups.hash_of(topics)
        if bumps or metadata_hash != group.metadata_hash:
            made.append(self._groups.bump(group, group.epoch + 1, metadata_hash))
            group.refresh_later(self._groups.now_ms, group.epoch + 1)
        return Result(None, made)

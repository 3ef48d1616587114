"""Subscriptions by regular expression, resolved by the coordinator with RE2's syntax (KIP-848).

`check_regex` refuses what cannot be compiled. A `Resolution` matches expressions against all topics, a slice at a time,
because a cluster may have very many. Both import the library when they are first used: most groups name their topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.coordinator.group.consumer.subscriptions import ResolvedRegex
from ottla.errors import InvalidRegularExpression
from ottla.metadata import Image

SLICE_MATCHES = 200
"""How many topics are looked at before others have their turn: about a millisecond's worth."""

_REASONS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}
"""The library's words, and those that clients know from Kafka."""


def check_regex(expression: str) -> None:
    """Refuse with `InvalidRegularExpression` what RE2 does not compile."""
    import re2

    try:
        re2.compile(expression, options=_options())
    except re2.error as error:
        told = error.args[0] if error.args else b"it cannot be compiled"
        text = told.decode("utf-8", "replace") if isinstance(told, bytes) else str(told)
        reason = next((words for begin, words in _REASONS.items() if text.startswith(begin)), text.partition(":")[0])
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}."
        ) from None


class Resolution:
    """The matching of some expressions against the topics of one image."""

    def __init__(self, expressions: Iterable[str], image: Image, now_ms: int) -> None:
        import re2

        self.version = image.offset
        self.started_ms = now_ms
        self._topics = list(image.topics.by_name)
        self._next = 0
        self._matched: dict[str, list[str]] = {}
        self._set = re2.Set.FullMatchSet(_options())
        for expression in expressions:
            self._set.Add(expression)  # it was checked when a member brought it
            self._matched[expression] = []
        self._by_index = list(self._matched.values())
        self._set.Compile()

    @property
    def topic_count(self) -> int:
        return len(self._topics)

    def advance(self) -> bool:
        """Look at some more topics; whether all have been looked at."""
        for topic in self._topics[self._next : self._next + SLICE_MATCHES]:
            for index in self._set.Match(topic) or ():
                self._by_index[index].append(topic)
        self._next += SLICE_MATCHES
        return self._next >= len(self._topics)

    def resolved(self) -> dict[str, ResolvedRegex]:
        return {
            expression: ResolvedRegex(frozenset(topics), self.version, self.started_ms)
            for expression, topics in self._matched.items()
        }


def _options() -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return options

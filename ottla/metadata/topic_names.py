"""What a topic may be called.

Promises: the rules and the sentences that explain them are Kafka's. Called by the controller when topics are created
and when their settings change; a broker asks before it creates a topic by itself.
"""

from __future__ import annotations

import re

from ottla.errors import InvalidTopicException

NAME_LENGTH_MAX = 249

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def why_invalid(name: str) -> str | None:
    """What is wrong with a topic name; None for a good one."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def check_topic_name(name: str) -> None:
    """`InvalidTopicException` for a name that no topic may have."""
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")


def metric_name(name: str) -> str | None:
    """The name under which metrics show a topic, where another topic could have the same; None where none could.

    Metrics replace `.` by `_`, so `a.b` and `a_b` could not be told apart, and only the first is allowed.
    """
    return name.replace(".", "_") if "." in name or "_" in name else None

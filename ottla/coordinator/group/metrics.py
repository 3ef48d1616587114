"""`GroupMetrics`: what the group coordinator of a node counts, over all its shards."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GroupMetrics:
    """Counts since the node's start; the exposition gives them Kafka's names."""

    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    completed_rebalances: int = 0
    """Of classic groups."""
    consumer_rebalances: int = 0
    """New epochs of consumer groups."""
    streams_rebalances: int = 0
    """New epochs of Streams groups."""

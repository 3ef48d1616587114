"""`SharePartitionKey`: a partition as one share group reads it. What the share coordinator keeps state by."""

from __future__ import annotations

from typing import NamedTuple

from ottla.types import Uuid


class SharePartitionKey(NamedTuple):
    """A group and a partition of a topic."""

    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """What is hashed to find the partition of `__share_group_state`, and asked for with FindCoordinator."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"

    def __str__(self) -> str:
        return self.coordinator_key

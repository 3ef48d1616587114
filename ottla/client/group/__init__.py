"""A consumer's place in its group: membership in both protocols, commits, assignors.

Light to import: the producer needs the values alone.
"""

from ottla.client.group.interface import (
    CommitCallback,
    CommitsFace,
    Completion,
    Consumed,
    GroupFace,
    GroupMetadata,
    OffsetAndMetadata,
    Offsets,
    RebalanceEvent,
    RebalanceKind,
    Subscription,
)

__all__ = [
    "CommitCallback",
    "CommitsFace",
    "Completion",
    "Consumed",
    "GroupFace",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Offsets",
    "RebalanceEvent",
    "RebalanceKind",
    "Subscription",
]

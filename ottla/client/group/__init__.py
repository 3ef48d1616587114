"""A consumer's place in its group: membership in both protocols, commits, assignors.

Light to import: the producer needs the values alone.
"""

from typing import TYPE_CHECKING

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
from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.group.consumer_group import ConsumerGroup

__all__ = [
    "CommitCallback",
    "CommitsFace",
    "Completion",
    "Consumed",
    "ConsumerGroup",
    "GroupFace",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Offsets",
    "RebalanceEvent",
    "RebalanceKind",
    "Subscription",
]

_HOME = {"ConsumerGroup": "consumer_group"}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

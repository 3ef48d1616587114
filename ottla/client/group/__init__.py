"""A consumer's place in its group: membership in both protocols, commits, assignors.

Light to import: the producer needs the values alone.
"""

from importlib import import_module
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


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value

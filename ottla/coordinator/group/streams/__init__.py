"""Streams groups (KIP-1071): the coordinator knows an application's topology and assigns its tasks. See README.md.

`StreamsGroups` is the family of a shard; `Answer` is what a heartbeat comes to, with a `Status` for what is amiss.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ottla.coordinator.group.streams.family import StreamsGroups

if TYPE_CHECKING:
    from ottla.coordinator.group.streams.heartbeat import Answer
    from ottla.coordinator.group.streams.protocol import check_streams_protocol
    from ottla.coordinator.group.streams.status import Status

_LAZY = {
    "Answer": "ottla.coordinator.group.streams.heartbeat",
    "Status": "ottla.coordinator.group.streams.status",
    "check_streams_protocol": "ottla.coordinator.group.streams.protocol",
}

__all__ = ["Answer", "Status", "StreamsGroups", "check_streams_protocol"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value

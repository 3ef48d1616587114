"""Streams groups (KIP-1071): the coordinator knows an application's topology and assigns its tasks. See README.md.

`StreamsGroups` is the family of a shard; `Answer` is what a heartbeat comes to, with a `Status` for what is amiss.
"""

from typing import TYPE_CHECKING

from ottla.coordinator.group.streams.family import StreamsGroups
from ottla.lazy import front_door

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

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)

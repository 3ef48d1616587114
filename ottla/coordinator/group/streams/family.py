"""`StreamsGroups`: the family as the shard has it: a door, behind which everything is imported when it is first needed.

Most brokers have no Streams group, and a start should not pay for what it does not use. It is needed with the first
record or the first heartbeat of a Streams group.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.coordinator.group.family import Replay
from ottla.coordinator.record import EndMarker, Producer
from ottla.metadata import Delta

if TYPE_CHECKING:
    from ottla.coordinator.group.group import Caller
    from ottla.coordinator.group.shard import GroupShard
    from ottla.coordinator.group.streams.heartbeat import Answer
    from ottla.coordinator.group.streams.shard import StreamsShard
    from ottla.machine import Result
    from ottla.wire.messages.streams_group_describe import DescribedGroup
    from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

RECORD_TYPES = (17, 19, 20, 21, 22, 23)


class StreamsGroups:
    """See the module."""

    __slots__ = ("_opened", "_shard", "replays")

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._opened: StreamsShard | None = None
        self.replays: Mapping[int, Replay] = {kind: partial(self._replay, kind) for kind in RECORD_TYPES}

    @property
    def opened(self) -> StreamsShard:
        """What is behind the door."""
        if self._opened is None:
            from ottla.coordinator.group.streams.shard import StreamsShard  # see the module

            self._opened = StreamsShard(self._shard)
        return self._opened

    def heartbeat(self, request: StreamsGroupHeartbeatRequest, caller: Caller) -> Result[Answer]:
        """A member joins, stays or leaves."""
        return self.opened.heartbeat(request, caller)

    def describe(self, group_id: str) -> DescribedGroup:
        """What StreamsGroupDescribe tells of one group; an error is part of the answer."""
        return self.opened.describe(group_id)

    # What the shard tells

    def _replay(self, kind: int, key: Any, value: Any, producer: Producer | None) -> None:
        self.opened.replays[kind](key, value, producer)

    def replay_marker(self, marker: EndMarker) -> None:
        """Streams groups write no transactions of their own; offsets are another family's."""

    def on_loaded(self) -> None:
        if self._opened is not None:
            self._opened.on_loaded()

    def on_unloaded(self) -> None:
        if self._opened is not None:
            self._opened.on_unloaded()

    def on_metadata(self, delta: Delta) -> None:
        if self._opened is not None:
            self._opened.on_metadata(delta)

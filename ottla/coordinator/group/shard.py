"""`GroupShard`: the groups and offsets of one partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable

from ottla.config import BrokerConfig
from ottla.coordinator.group.family import Family, Replay
from ottla.coordinator.group.group import Group
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.shard import ShardContext
from ottla.machine import UndoDict
from ottla.metadata import Delta


class GroupShard:
    """See the module. `config` gives the broker's settings as they are now."""

    def __init__(self, context: ShardContext, config: Callable[[], BrokerConfig]) -> None:
        self.context = context
        self._config = config
        self.groups: UndoDict[str, Group] = UndoDict(context.undo)
        """All groups of all families by id."""
        self.families: list[Family] = []
        self._replays: dict[int, Replay] = {}
        for family in self.families:
            self._replays.update(family.replays)

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key_type = record.key.schema.api_key
        assert key_type is not None, f"{record.key.schema.name} is no key"
        self._replays[key_type](record.key, record.value, producer)

    def replay_marker(self, marker: EndMarker) -> None:
        for family in self.families:
            family.replay_marker(marker)

    def on_loaded(self) -> None:
        for family in self.families:
            family.on_loaded()

    def on_unloaded(self) -> None:
        for family in self.families:
            family.on_unloaded()

    def on_metadata(self, delta: Delta) -> None:
        for family in self.families:
            family.on_metadata(delta)

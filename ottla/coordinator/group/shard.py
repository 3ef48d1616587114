"""`GroupShard`: the groups and offsets of one partition of `__consumer_offsets`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from ottla.config import BrokerConfig
from ottla.coordinator.group.classic import ClassicGroups
from ottla.coordinator.group.consumer import ConsumerGroups
from ottla.coordinator.group.family import Family, Replay
from ottla.coordinator.group.group import Group, GroupType
from ottla.coordinator.group.metrics import GroupMetrics
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.share import ShareGroups
from ottla.coordinator.group.streams import StreamsGroups
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.shard import ShardContext
from ottla.errors import GroupIdNotFound, KafkaError
from ottla.machine import Result, UndoDict
from ottla.metadata import Delta
from ottla.types import Uuid
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.list_groups import ListedGroup

log = logging.getLogger(__name__)

TOMBSTONES_MAX = 1000
"""How many tombstones a decision of the shard's own writes: as one batch, they must fit `message.max.bytes`."""
_EXPIRY = "expire-group-metadata"


class GroupShard:
    """See the module. `config` gives the broker's settings as they are now, `name` is what log lines begin with."""

    def __init__(
        self,
        context: ShardContext,
        config: Callable[[], BrokerConfig],
        name: str = "GroupCoordinator",
        metrics: GroupMetrics | None = None,
    ) -> None:
        self.context = context
        self._config = config
        self.name = name
        self.metrics = GroupMetrics() if metrics is None else metrics
        self.groups: UndoDict[str, Group] = UndoDict(context.undo)
        """All groups of all families by id."""
        self.offsets = Offsets(self)
        self.classic = ClassicGroups(self)
        self.consumer = ConsumerGroups(self)
        self.streams = StreamsGroups(self)
        self.share = ShareGroups(self)
        self.families: list[Family] = [self.offsets, self.classic, self.consumer, self.streams, self.share]
        self._replays: dict[int, Replay] = {}
        for family in self.families:
            self._replays.update(family.replays)

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    # Groups of all protocols

    def list_groups(self, states: frozenset[str], types: Collection[GroupType] | None) -> list[ListedGroup]:
        """The groups in one of these states (in lower case; all when there are none) and of these types."""
        return [
            ListedGroup(group.group_id, group.protocol_type, group.state_name, group.type.value)
            for group in self.groups.values()
            if (not states or group.has_state_in(states)) and (types is None or group.type in types)
        ]

    def delete_groups(self, group_ids: Iterable[str]) -> Result[list[DeletableGroupResult]]:
        """Delete the groups that have no members, with their offsets."""
        results, records, deleted = [], [], []
        offset_count = 0
        for group_id in group_ids:
            code = 0
            try:
                group = self.groups.get(group_id)
                if group is None:
                    raise GroupIdNotFound(f"Group {group_id} not found.")
                group.check_delete()
                offsets = self.offsets.tombstones(group_id)
                records += [*offsets, *group.tombstones()]
                offset_count += len(offsets)
                deleted.append(group_id)
            except KafkaError as error:
                code = error.code
            results.append(DeletableGroupResult(group_id, code))
        if deleted:
            log.info("[%s] The following groups were deleted: %s. A total of %d offsets were removed", self.name,
                     ", ".join(deleted), offset_count)  # fmt: skip
        return Result(results, records)

    def delete_offsets_of(self, deleted: Mapping[str, Uuid]) -> Result[bool]:
        """Forget the offsets of topics that are gone; the response is whether there may be more to do."""
        records = self.offsets.of_deleted_topics(deleted, count_max=TOMBSTONES_MAX)
        return Result(len(records) == TOMBSTONES_MAX, records)

    def _expire(self) -> Result[None]:
        """Forget offsets that nobody needs any more, and groups that are empty without them."""
        now_ms = self.context.world.clock.now_ms()
        records: list[CoordinatorRecord] = []
        for group in self.groups.values():
            if not group.should_expire:
                continue
            expired, are_all = self.offsets.expired(group, now_ms)
            records += expired
            if len(records) >= TOMBSTONES_MAX:
                del records[TOMBSTONES_MAX:]  # the group goes when the last of its offsets has gone
                break
            if are_all and group.is_empty:
                records += group.tombstones()
        if records:
            log.info("[%s] Writing %d tombstones of offsets and groups that nobody needs any more", self.name,
                     len(records))  # fmt: skip
        has_more = len(records) >= TOMBSTONES_MAX
        self._schedule_expiry(0 if has_more else self.config.offsets_retention_check_interval_ms)
        return Result(None, records)

    def _schedule_expiry(self, delay_ms: int) -> None:
        self.context.timers.schedule(_EXPIRY, delay_ms, self._expire)

    # What the runtime tells

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key_type = record.key.schema.api_key
        assert key_type is not None, f"{record.key.schema.name} is no key"
        self._replays[key_type](record.key, record.value, producer)

    def replay_marker(self, marker: EndMarker) -> None:
        for family in self.families:
            family.replay_marker(marker)

    def on_loaded(self) -> None:
        self._schedule_expiry(self.config.offsets_retention_check_interval_ms)
        for family in self.families:
            family.on_loaded()

    def on_unloaded(self) -> None:
        for family in self.families:
            family.on_unloaded()

    def on_metadata(self, delta: Delta) -> None:
        for family in self.families:
            family.on_metadata(delta)

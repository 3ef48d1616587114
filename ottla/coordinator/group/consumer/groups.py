"""`ConsumerGroups`: the family of consumer groups in a shard: the APIs' way in, settings, loading (KIP-848).

A member speaks in heartbeats only: it joins with epoch 0, tells what has changed on its side, is told its epoch and
what it owns when that changes, and leaves with epoch -1; a static member that means to come back leaves with -2. All
decisions about the assignment are the coordinator's. Members that still speak the classic protocol are
`classic_members`'.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.config import BrokerConfig, GroupConfig
from ottla.coordinator.group.assignors import ASSIGNORS
from ottla.coordinator.group.consumer import records, replay
from ottla.coordinator.group.consumer.classic_members import ClassicMembers
from ottla.coordinator.group.consumer.describe import described_group
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import Heartbeats
from ottla.coordinator.group.consumer.leave import Leaves
from ottla.coordinator.group.consumer.member import MemberState
from ottla.coordinator.group.consumer.migration import Migration
from ottla.coordinator.group.consumer.regex_refresh import RegexRefresh
from ottla.coordinator.group.consumer.timeouts import Timeouts
from ottla.coordinator.group.family import Replay
from ottla.coordinator.group.group import Caller, GroupType
from ottla.coordinator.group.topic_hash import TopicHashes
from ottla.coordinator.record import CoordinatorRecord, EndMarker
from ottla.errors import GroupIdNotFound, UnsupportedVersion
from ottla.machine import Result, UndoLog
from ottla.metadata import GROUP, Delta, Image, random_uuid
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)

GROUP_VERSION = "group.version"
_JAVA_ASSIGNORS = "org.apache.kafka.coordinator.group.assignor."


class Settings(NamedTuple):
    """What a group can decide for itself."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class ConsumerGroups:
    """See the module."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.timers = shard.context.timers
        self.timeouts = Timeouts(self.timers)
        self.regexes = RegexRefresh(self)
        self.migration = Migration(self)
        self.leaves = Leaves(self)
        self._heartbeats = Heartbeats(self)
        self._hashes = TopicHashes()
        self._defaults: tuple[BrokerConfig, Settings] | None = None
        self._settings: dict[str, tuple[Mapping[str, str], BrokerConfig, Settings]] = {}
        self.replays: Mapping[int, Replay] = replay.replays(self)
        shard.classic.hosts[GroupType.CONSUMER] = ClassicMembers(self)

    # Decisions

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat: see `Heartbeats` and `Leaves`."""
        if request.member_epoch < 0:
            return self.leaves.leave(request)
        return self._heartbeats.heartbeat(request, caller)

    def describe(self, group_id: str) -> DescribedGroup:
        """A group as ConsumerGroupDescribe tells it: a group of another protocol does not exist there."""
        try:
            group = self.existing(group_id)
        except GroupIdNotFound as error:
            return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
        return described_group(group, self.assignor_name(group.preferred_assignor()), self.image)

    # What the parts ask

    @property
    def name(self) -> str:
        """What log lines begin with."""
        return self.shard.name

    @property
    def config(self) -> BrokerConfig:
        return self.shard.config

    @property
    def image(self) -> Image:
        return self.shard.context.image

    @property
    def now_ms(self) -> int:
        return self.shard.context.world.clock.now_ms()

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self.shard.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def existing(self, group_id: str) -> ConsumerGroup:
        group = self.shard.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group

    def scratch(self, group_id: str) -> ConsumerGroup:
        """A group that is not in the log: what a decision builds on until its records are replayed."""
        undo = UndoLog()
        undo.is_enabled = False
        return ConsumerGroup(group_id, undo)

    def new_member_id(self) -> str:
        return str(random_uuid(self.shard.context.world))

    def hash_of(self, topics: Iterable[str]) -> int:
        return self._hashes.group_hash(topics, self.image)

    def settings(self, group_id: str) -> Settings:
        """The group's own settings, else the broker's."""
        broker = self.config
        overrides = self.image.configs.get((GROUP, group_id))
        if not overrides:
            if self._defaults is None or self._defaults[0] is not broker:
                self._defaults = broker, _settings({}, broker)
            return self._defaults[1]
        known = self._settings.get(group_id)
        if known is None or known[0] is not overrides or known[1] is not broker:
            known = self._settings[group_id] = overrides, broker, _settings(overrides, broker)
        return known[2]

    def assignor_name(self, preferred: str | None) -> str:
        """The assignor that most members ask for, if this broker has it; else the first of this broker's."""
        names = assignor_names(self.config)
        return preferred if preferred in names else names[0]

    def bump(self, group: ConsumerGroup, epoch: int, metadata_hash: int) -> CoordinatorRecord:
        """The record of a new group epoch, with which a rebalance begins."""
        log.info("[%s] [GroupId %s] Bumped group epoch to %d with metadata hash %d", self.name, group.group_id, epoch,
                 metadata_hash)  # fmt: skip
        self.shard.metrics.consumer_rebalances += 1
        return records.group_epoch(group.group_id, epoch, metadata_hash)

    # What the runtime tells

    def replay_marker(self, marker: EndMarker) -> None:
        """Groups are not written in transactions."""

    def on_loaded(self) -> None:
        self.regexes.new_topics_version = self.image.offset
        for group in self.shard.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            log.info("[%s] Loaded consumer group %s with %d members", self.name, group.group_id, len(group.members))
            for member in group.members.values():
                self.leaves.begin_session(group.group_id, member.member_id)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self.leaves.begin_rebalance(group.group_id, member)

    def on_unloaded(self) -> None:
        for group in self.shard.groups.values():
            if isinstance(group, ConsumerGroup):
                log.info("[%s] [GroupId %s] Unloaded group metadata for group epoch %d", self.name, group.group_id,
                         group.epoch)  # fmt: skip

    def on_metadata(self, delta: Delta) -> None:
        """Groups whose topics have changed look at them with the next heartbeat."""
        if any(change.old is None for change in delta.changed_topics.values()):
            self.regexes.new_topics_version = self.image.offset
        changed = {change.new.name for change in delta.changed_topics.values()}
        for topic in delta.deleted_topics.values():
            changed.add(topic.name)
            self._hashes.forget(topic.name)
        for key, change in delta.changed_configs.items():
            if key[0] == GROUP and not change.new:
                self._settings.pop(key[1], None)
        if not changed:
            return
        for group in self.shard.groups.values():
            if isinstance(group, ConsumerGroup) and not changed.isdisjoint(group.topics):
                group.refresh_soon()


def check_consumer_protocol(image: Image, config: BrokerConfig) -> None:
    """Refuse where the cluster's features or this broker's settings do not have the consumer protocol."""
    is_served = GroupType.CONSUMER.value in config.group_coordinator_rebalance_protocols
    if not is_served or image.features.get(GROUP_VERSION, 0) < 1:
        raise UnsupportedVersion


def assignor_names(config: BrokerConfig) -> list[str]:
    """The assignors of this broker, the default first. Kafka's own may also be named by their classes."""
    return [assignor_name(name) for name in config.group_consumer_assignors]


def assignor_name(setting: str) -> str:
    """`uniform` for `uniform` and for the class of that assignor."""
    name = setting.removeprefix(_JAVA_ASSIGNORS).removesuffix("Assignor").lower() if "." in setting else setting
    return name if name in ASSIGNORS else setting


def _settings(overrides: Mapping[str, str], broker: BrokerConfig) -> Settings:
    config = GroupConfig.of(overrides, broker)
    return Settings(
        config.consumer_session_timeout_ms,
        config.consumer_heartbeat_interval_ms,
        config.consumer_assignment_interval_ms,
    )

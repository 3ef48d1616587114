"""`SharePartitions`: all share partitions of this node, made when a group first reads a partition that it leads.

Promises: there is at most one share partition for a group and a partition; one whose partition is not led here any
more, or whose state another leader has taken over, is fenced and forgotten. Called by the handlers of ShareFetch and
ShareAcknowledge and by their sessions; told of new metadata after the replicas.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ottla.config import BrokerConfig, GroupConfig
from ottla.coordinator.share import Persister, SharePartitionKey
from ottla.errors import (
    FencedStateEpoch,
    GroupIdNotFound,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.metadata import GROUP, Delta, Image
from ottla.replica.manager import ReplicaManager
from ottla.replica.share.acknowledgement import Acknowledgement
from ottla.replica.share.offset_reset import start_timestamp
from ottla.replica.share.partition import SharePartition, Status
from ottla.replica.share.window import Limits
from ottla.storage import Isolation
from ottla.types import Uuid
from ottla.world import NodeWorld, Promise

log = logging.getLogger(__name__)

READ_COMMITTED = "read_committed"
_NO_OVERRIDES: Mapping[str, str] = {}

Index = tuple[Uuid, int]
"""A partition by its topic's id."""


class _Settings(NamedTuple):
    """A group's settings, and what they were made from."""

    overrides: Mapping[str, str]
    broker: BrokerConfig
    limits: Limits
    isolation: Isolation
    offset_reset: str


class SharePartitions:
    """See the module."""

    def __init__(
        self,
        world: NodeWorld,
        replicas: ReplicaManager,
        persister: Persister,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.world = world
        self.replicas = replicas
        self._persister = persister
        self._config = config
        self._groups: dict[str, dict[Index, SharePartition]] = {}
        self._settings: dict[str, _Settings] = {}

    # A group's settings

    def limits(self, group_id: str) -> Limits:
        return self._settings_of(group_id).limits

    def isolation(self, group_id: str) -> Isolation:
        """Whether the group sees records of open transactions."""
        return self._settings_of(group_id).isolation

    def _settings_of(self, group_id: str) -> _Settings:
        broker = self._config()
        image = self.replicas.image
        overrides = _NO_OVERRIDES if image is None else image.configs.get((GROUP, group_id), _NO_OVERRIDES)
        known = self._settings.get(group_id)
        if known is not None and known.overrides is overrides and known.broker is broker:
            return known
        group = GroupConfig.of(overrides, broker)
        known = _Settings(
            overrides,
            broker,
            Limits(
                group.share_delivery_count_limit,
                group.share_partition_max_record_locks,
                group.share_record_lock_duration_ms,
                group.share_renew_acknowledge_enable,
            ),
            Isolation.TXN_COMMITTED if group.share_isolation_level == READ_COMMITTED else Isolation.HIGH_WATERMARK,
            group.share_auto_offset_reset,
        )
        if group_id in self._groups:
            self._settings[group_id] = known
        return known

    # Finding

    def find(self, group_id: str, topic_id: Uuid, index: int) -> SharePartition | None:
        """The share partition, where there is one that is not fenced."""
        found = self._groups.get(group_id, {}).get((topic_id, index))
        if found is not None and not found.is_led:
            self.fence(found)
            return None
        return found

    def get(self, group_id: str, topic_id: Uuid, index: int) -> SharePartition:
        """The share partition, made now if need be; raises what a reader is told where this node does not lead."""
        found = self.find(group_id, topic_id, index)
        if found is not None:
            return found
        partition = self.replicas.partition_by_id(topic_id, index)
        if not partition.is_leader:
            raise NotLeaderOrFollower
        waiters = self.replicas.waiters
        made = SharePartition(
            SharePartitionKey(group_id, topic_id, index),
            partition,
            persister=self._persister,
            clock=self.world.clock,
            tasks=self.world.tasks,
            limits=lambda: self.limits(group_id),
            start_timestamp=lambda: start_timestamp(
                self._settings_of(group_id).offset_reset, self.world.clock.now_ms()
            ),
            on_change=lambda: waiters.touch(partition),
        )
        self._groups.setdefault(group_id, {})[topic_id, index] = made
        return made

    def fence(self, one: SharePartition) -> None:
        """Forget a share partition: the next fetch makes another one from the stored state."""
        key = one.key
        table = self._groups.get(key.group_id, {})
        if table.get((key.topic_id, key.partition)) is one:
            del table[key.topic_id, key.partition]
            if not table:
                del self._groups[key.group_id]
                self._settings.pop(key.group_id, None)
        if one.status is not Status.FENCED:
            one.fence()

    def fence_after(self, one: SharePartition, error: BaseException) -> None:
        """Fence it where `error` says that its state is another's now."""
        if isinstance(error, NotLeaderOrFollower | FencedStateEpoch | GroupIdNotFound | UnknownTopicOrPartition):
            log.info("[SharePartitionManager] The share partition %s is fenced: %s", one.key, error)
            self.fence(one)

    def forget_group(self, group_id: str) -> None:
        """No member of the group is connected any more: what is in flight is not worth its memory."""
        for one in list(self._groups.get(group_id, {}).values()):
            self.fence(one)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        """A metadata publisher: fence what is not led here any more."""
        if not (delta.changed_topics or delta.deleted_topics):
            return
        for table in list(self._groups.values()):
            for one in list(table.values()):
                if not one.is_led:
                    self.fence(one)

    def close(self) -> None:
        for group_id in list(self._groups):
            self.forget_group(group_id)

    # Acknowledging

    def acknowledge(
        self, group_id: str, member_id: str, topic_id: Uuid, index: int, said: Sequence[Acknowledgement]
    ) -> Promise[None]:
        """What a member says about a partition's records; fails with what it is told."""
        one = self.find(group_id, topic_id, index)
        if one is None:
            return self._failed(UnknownTopicOrPartition())
        return self._watched(one, one.acknowledge(member_id, said))

    def release(self, group_id: str, member_id: str, partitions: Iterable[Index]) -> list[Promise[None]]:
        """A member has gone: give back what it has acquired."""
        found = (self.find(group_id, topic_id, index) for topic_id, index in partitions)
        return [self._watched(one, one.release(member_id)) for one in found if one is not None]

    def _watched(self, one: SharePartition, promise: Promise[None]) -> Promise[None]:
        def look(done: Promise[None]) -> None:
            try:
                done.result()
            except KafkaError as error:
                self.fence_after(one, error)

        promise.add_done_callback(look)
        return promise

    def _failed(self, error: KafkaError) -> Promise[None]:
        promise: Promise[None] = self.world.tasks.promise()
        promise.set_exception(error)
        return promise

"""`ShareCoordinator`: from a share partition to its shard, and the chores of `__share_group_state`.

What the handlers of the share state APIs ask, and on a single node the `Persister` of the share partitions themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.coordinator.partition import coordinator_partition
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import ShardLog
from ottla.coordinator.share.key import SharePartitionKey
from ottla.coordinator.share.shard import ShareShard, StateSummary, StoredState
from ottla.coordinator.share.state import StateUpdate
from ottla.errors import CoordinatorNotAvailable, KafkaError
from ottla.machine import Result
from ottla.metadata import Delta, Image
from ottla.records import Codec
from ottla.wire.coordinator import SHARE
from ottla.world import NodeWorld, Promise, Timer

log = logging.getLogger(__name__)

T = TypeVar("T")


class ShareCoordinator:
    """See the module. `prune` deletes the records of a partition below an offset."""

    def __init__(
        self,
        world: NodeWorld,
        node_id: int,
        config: Callable[[], BrokerConfig],
        log_of: Callable[[int], ShardLog],
        image: Image,
        *,
        prune: Callable[[int, int], object] = lambda index, offset: None,
    ) -> None:
        self.world = world
        self._config = config
        self._prune = prune
        self._pruned: dict[int, int] = {}
        """Up to where each partition is pruned, so that it is not asked for twice."""
        self._chores: list[Timer] = []
        self.runtime: Runtime[ShareShard] = Runtime(
            f"ShareCoordinator id={node_id}",
            world,
            SHARE,
            lambda context: ShareShard(context, config, log_of(context.index)),
            log_of,
            image,
            write_timeout_ms=lambda: config().share_coordinator_write_timeout_ms,
            codec=Codec(config().share_coordinator_state_topic_compression_codec),
        )

    # Asking

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Promise[None]:
        return self._write(
            key, "Initialize", lambda one: one.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        )

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        return self._write(key, "Read", lambda shard: shard.read(key, leader_epoch=leader_epoch))

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Promise[None]:
        return self._write(key, "Write", lambda shard: shard.write(key, update))

    def read_summary(self, key: SharePartitionKey) -> Promise[StateSummary]:
        return self._write(key, "ReadSummary", lambda shard: shard.read_summary(key))

    def delete(self, key: SharePartitionKey) -> Promise[None]:
        return self._write(key, "Delete", lambda shard: shard.delete(key))

    def _write(self, key: SharePartitionKey, name: str, decide: Callable[[ShareShard], Result[T]]) -> Promise[T]:
        topic = self.runtime.image.topics.by_name.get(SHARE.topic)
        if topic is None or not topic.partitions:
            promise: Promise[T] = self.world.tasks.promise()
            promise.set_exception(CoordinatorNotAvailable())
            return promise
        return self.runtime.write(coordinator_partition(key.coordinator_key, len(topic.partitions)), name, decide)

    # What the replicas and the metadata tell

    def on_elected(self, index: int, leader_epoch: int) -> None:
        self.runtime.on_elected(index, leader_epoch)
        if not self._chores:
            self._plan_chores()

    def on_resigned(self, index: int) -> None:
        self._pruned.pop(index, None)
        self.runtime.on_resigned(index)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        self.runtime.on_metadata(delta, image)
        if delta.deleted_topics:
            deleted = set(delta.deleted_topics)
            for promise in self.runtime.write_all("on-topics-deleted", lambda shard: shard.forget_topics(deleted)):
                promise.add_done_callback(_log_failure)

    def close(self) -> None:
        for timer in self._chores:
            timer.cancel()
        self.runtime.close()

    # Chores

    def _plan_chores(self) -> None:
        """Begin when there is something to do them for."""
        later = self.world.tasks.later
        config = self._config()
        self._chores = [
            later(config.share_coordinator_state_topic_prune_interval_ms, self._prune_all),
            later(config.share_coordinator_cold_partition_snapshot_interval_ms, self._snapshot_cold),
        ]

    def _prune_all(self) -> None:
        for index in self.runtime.active_indexes:
            needed = self.runtime.read(index, "write-state-record-prune", lambda shard: shard.needed_offset)
            needed.add_done_callback(partial(self._prune_one, index))
        interval_ms = self._config().share_coordinator_state_topic_prune_interval_ms
        self._chores[0] = self.world.tasks.later(interval_ms, self._prune_all)

    def _prune_one(self, index: int, done: Promise[int | None]) -> None:
        try:
            offset = done.result()
            if offset is not None and self._pruned.get(index) != offset:
                self._prune(index, offset)
                self._pruned[index] = offset
        except KafkaError as error:
            log.info("[%s] %s-%d could not be pruned, and is tried again: %s", self.runtime.name, SHARE.topic, index,
                     error)  # fmt: skip

    def _snapshot_cold(self) -> None:
        for promise in self.runtime.write_all("snapshot-cold-partitions", lambda shard: shard.snapshot_cold()):
            promise.add_done_callback(_log_failure)
        interval_ms = self._config().share_coordinator_cold_partition_snapshot_interval_ms
        self._chores[1] = self.world.tasks.later(interval_ms, self._snapshot_cold)


def _log_failure(done: Promise[None]) -> None:
    """A chore that could not be done now is done next time, or by the next leader."""
    try:
        done.result()
    except KafkaError as error:
        log.info("[ShareCoordinator] A chore could not be written: %s", error)

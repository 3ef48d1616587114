"""`GroupCoordinator`: from a group's id to its shard. What the handlers of the group APIs ask."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.config import BrokerConfig
from ottla.coordinator.group.metrics import GroupMetrics
from ottla.coordinator.partition import coordinator_partition
from ottla.coordinator.record import EndMarker, Producer
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import ShardContext, ShardLog
from ottla.errors import KafkaError
from ottla.machine import Result
from ottla.metadata import Delta, Image
from ottla.records import Codec
from ottla.types import Uuid
from ottla.wire.coordinator import GROUP
from ottla.world import NodeWorld, Promise

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

T = TypeVar("T")


class GroupCoordinator:
    """All shards of this node. A decision calls one of the shard's families; see `Runtime` for what it may do."""

    def __init__(
        self,
        world: NodeWorld,
        node_id: int,
        config: Callable[[], BrokerConfig],
        log_of: Callable[[int], ShardLog],
        image: Image,
    ) -> None:
        self.world = world
        self._config = config
        self.metrics = GroupMetrics()
        self._name = name = f"GroupCoordinator id={node_id}"
        self.runtime: Runtime[GroupShard] = Runtime(
            name,
            world,
            GROUP,
            self._make_shard,
            log_of,
            image,
            write_timeout_ms=lambda: config().offsets_commit_timeout_ms,
            codec=Codec.of_id(config().offsets_topic_compression_codec),
        )

    def _make_shard(self, context: ShardContext) -> GroupShard:
        from ottla.coordinator.group.shard import GroupShard  # all families: not for nodes without groups

        return GroupShard(context, self._config, self._name, self.metrics)

    def index_of(self, group_id: str) -> int:
        """The partition that a group belongs to, or will belong to while the topic does not exist."""
        topic = self.runtime.image.topics.by_name.get(GROUP.topic)
        count = len(topic.partitions) if topic is not None else 0
        return coordinator_partition(group_id, count or self._config().offsets_topic_num_partitions)

    def write(
        self,
        group_id: str,
        name: str,
        decide: Callable[[GroupShard], Result[T]],
        *,
        producer: Producer | None = None,
        guard: object | None = None,
    ) -> Promise[T]:
        """See `Runtime.write`. `name` is the API's, for log lines."""
        return self.runtime.write(self.index_of(group_id), name, decide, producer=producer, guard=guard)

    def write_answered(
        self, group_id: str, name: str, decide: Callable[[GroupShard, Promise[T]], Result[None]]
    ) -> Promise[T]:
        """See `Runtime.write_answered`."""
        return self.runtime.write_answered(self.index_of(group_id), name, decide)

    def read(self, group_id: str, name: str, look: Callable[[GroupShard], T]) -> Promise[T]:
        """See `Runtime.read`."""
        return self.runtime.read(self.index_of(group_id), name, look)

    def complete_transaction(self, index: int, marker: EndMarker, *, transaction_version: int) -> Promise[None]:
        """Write the end of a transaction with offsets in that partition."""
        return self.runtime.complete_transaction(index, marker, transaction_version=transaction_version)

    # What the replicas and the metadata tell

    def on_elected(self, index: int, leader_epoch: int) -> None:
        self.runtime.on_elected(index, leader_epoch)

    def on_resigned(self, index: int) -> None:
        self.runtime.on_resigned(index)

    def on_metadata(self, delta: Delta, image: Image) -> None:
        self.runtime.on_metadata(delta, image)
        if delta.deleted_topics and not delta.is_snapshot:
            deleted = {topic.name: topic_id for topic_id, topic in delta.deleted_topics.items()}
            for index in self.runtime.active_indexes:
                self._delete_offsets_of(index, deleted)

    def _delete_offsets_of(self, index: int, deleted: dict[str, Uuid]) -> None:
        """Forget a shard's offsets of topics that are gone, a bounded number at a time."""

        def written(done: Promise[bool]) -> None:
            try:
                if done.result():
                    self._delete_offsets_of(index, deleted)
            except KafkaError as error:
                # They expire like any other offset that nobody commits.
                log.warning("[%s] The offsets of the deleted topics %s in partition %d were not removed: %s",
                            self.runtime.name, ", ".join(deleted), index, error)  # fmt: skip

        self.runtime.write(
            index, "delete-offsets-of-topics", lambda shard: shard.delete_offsets_of(deleted)
        ).add_done_callback(written)

    def close(self) -> None:
        self.runtime.close()

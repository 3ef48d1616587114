"""`GroupCoordinator`: from a group's id to its shard. What the handlers of the group APIs ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.config import BrokerConfig
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.partition import coordinator_partition
from ottla.coordinator.record import EndMarker, Producer
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import ShardLog
from ottla.errors import CoordinatorNotAvailable
from ottla.machine import Result
from ottla.metadata import Delta, Image
from ottla.wire.coordinator import GROUP
from ottla.world import NodeWorld, Promise

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
        self.runtime: Runtime[GroupShard] = Runtime(
            f"GroupCoordinator id={node_id}",
            world,
            GROUP,
            lambda context: GroupShard(context, config),
            log_of,
            image,
            write_timeout_ms=lambda: config().offsets_commit_timeout_ms,
        )

    def index_of(self, group_id: str) -> int:
        """The partition that a group belongs to; `CoordinatorNotAvailable` while the topic does not exist."""
        topic = self.runtime.image.topics.by_name.get(GROUP.topic)
        if topic is None or not topic.partitions:
            raise CoordinatorNotAvailable
        return coordinator_partition(group_id, len(topic.partitions))

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

    def close(self) -> None:
        self.runtime.close()

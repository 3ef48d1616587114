"""`RoutedPersister`: the state of each share partition where its share coordinator is, on this node or another.

The coordinator is the leader of the partition of `__share_group_state` that the key belongs to. On this node it is
called; elsewhere it is asked by request (`RemoteStates`). Where there is none, the coordinator of this node says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator import coordinator_partition
from ottla.coordinator.share import ShareCoordinator, SharePartitionKey, StateSummary, StateUpdate, StoredState
from ottla.server.broker_requests import NO_BROKER, leader_of
from ottla.server.topic_creation import SHARE_TOPIC
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices
    from ottla.server.share.remote_states import RemoteStates


class RoutedPersister:
    """A `Persister`; see the module."""

    def __init__(self, broker: BrokerServices, coordinator: ShareCoordinator) -> None:
        self._broker = broker
        self._coordinator = coordinator
        self._remote: RemoteStates | None = None

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Promise[None]:
        broker_id = self._elsewhere(key)
        if broker_id is None:
            return self._coordinator.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        return self._remotely.initialize(broker_id, key, state_epoch=state_epoch, start_offset=start_offset)

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        broker_id = self._elsewhere(key)
        if broker_id is None:
            return self._coordinator.read(key, leader_epoch=leader_epoch)
        return self._remotely.read(broker_id, key, leader_epoch=leader_epoch)

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Promise[None]:
        broker_id = self._elsewhere(key)
        if broker_id is None:
            return self._coordinator.write(key, update)
        return self._remotely.write(broker_id, key, update)

    def read_summary(self, key: SharePartitionKey) -> Promise[StateSummary]:
        broker_id = self._elsewhere(key)
        if broker_id is None:
            return self._coordinator.read_summary(key)
        return self._remotely.read_summary(broker_id, key)

    def delete(self, key: SharePartitionKey) -> Promise[None]:
        broker_id = self._elsewhere(key)
        if broker_id is None:
            return self._coordinator.delete(key)
        return self._remotely.delete(broker_id, key)

    def _elsewhere(self, key: SharePartitionKey) -> int | None:
        """The broker that coordinates the share partition; None where that is this node, or nobody."""
        node = self._broker.node
        topic = node.image.topics.by_name.get(SHARE_TOPIC)
        if topic is None or not topic.partitions or len(node.image.brokers) <= 1:
            return None
        index = coordinator_partition(key.coordinator_key, len(topic.partitions))
        leader = leader_of(node.image, SHARE_TOPIC, index)
        return None if leader in (NO_BROKER, node.node_id) else leader

    @property
    def _remotely(self) -> RemoteStates:
        if self._remote is None:
            from ottla.server.share.remote_states import RemoteStates  # a node that is alone never needs it

            self._remote = RemoteStates(self._broker)
        return self._remote

"""`ShareService`: what a node has for share groups, made when the first one is met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.share import PatientPersister, ShareCoordinator
from ottla.errors import KafkaError
from ottla.metadata import Delta, Image
from ottla.replica import PartitionLog
from ottla.replica.share import Index, SharePartitions
from ottla.server.share.end_offsets import EndOffsets
from ottla.server.share.group_states import GroupStates
from ottla.server.share.routed_persister import RoutedPersister
from ottla.server.share.sessions import ShareSessions
from ottla.server.topic_creation import SHARE_TOPIC
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices


class ShareService:
    """The share coordinator, the share partitions and the sessions of their members, put together."""

    def __init__(self, broker: BrokerServices) -> None:
        world, replicas = broker.node.world, broker.replicas
        self.coordinator = ShareCoordinator(
            world,
            broker.node.node_id,
            lambda: broker.node.config,
            lambda index: PartitionLog.of(replicas, SHARE_TOPIC, index),
            broker.node.image,
            prune=lambda index, offset: replicas.partition_by_name(SHARE_TOPIC, index).delete_records(offset),
        )
        persister = PatientPersister(
            RoutedPersister(broker, self.coordinator), world.tasks, lambda: self._create_topic(broker)
        )
        self.partitions = SharePartitions(world, replicas, persister, lambda: broker.node.config)
        self.sessions = ShareSessions(
            lambda: broker.node.config.group_share_max_share_sessions, self._on_leave, self.partitions.forget_group
        )
        self.states = GroupStates(broker.groups, persister, world.tasks)
        self.ends = EndOffsets(broker)
        replicas.watch(SHARE_TOPIC, self.coordinator)

    def _create_topic(self, broker: BrokerServices) -> bool:
        """Ask for `__share_group_state` where it is not there; whether that is so."""
        is_absent = SHARE_TOPIC not in broker.node.image.topics.by_name
        if is_absent:
            broker.topic_creation.create([SHARE_TOPIC])
        return is_absent

    def _on_leave(self, group_id: str, member_id: str, partitions: list[Index]) -> None:
        for promise in self.partitions.release(group_id, member_id, partitions):
            promise.add_done_callback(_settle)

    def close(self) -> None:
        """Nothing is to be written any more."""
        self.partitions.close()
        self.coordinator.close()

    def on_metadata(self, delta: Delta, image: Image) -> None:
        self.coordinator.on_metadata(delta, image)
        self.partitions.on_metadata(delta, image)


def _settle(done: Promise[None]) -> None:
    """Nobody waits for what a member gives back; what cannot be stored comes back when its time is up."""
    try:
        done.result()
    except KafkaError:
        return  # the share partition has said so

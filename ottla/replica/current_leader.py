"""Who leads a partition and where that broker is reached: what a client is told with NOT_LEADER_OR_FOLLOWER (KIP-951).

Called by the handlers of Produce and Fetch.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.metadata import NO_LEADER, BrokerImage, Endpoint
from ottla.replica.manager import ReplicaManager
from ottla.replica.partition import NO_EPOCH


class Leader(NamedTuple):
    """The leader's id and epoch, and the broker and its endpoint where it is alive and has that listener."""

    id: int
    epoch: int
    broker: BrokerImage | None = None
    endpoint: Endpoint | None = None


def current_leader(replicas: ReplicaManager, topic: str, index: int, listener_name: str) -> Leader:
    """The leader as this node knows it, which may be newer than what the client knows."""
    image = replicas.image
    if image is None:
        return Leader(NO_LEADER, NO_EPOCH)
    partition = replicas.by_name.get(topic, {}).get(index)
    if partition is not None and partition.is_serving:
        leader_id, epoch = partition.leader_id, partition.leader_epoch
    else:
        found = image.topics.by_name.get(topic)
        known = None if found is None else found.partitions.get(index)
        if known is None:
            return Leader(NO_LEADER, NO_EPOCH)
        leader_id, epoch = known.leader, known.leader_epoch
    broker = image.brokers.get(leader_id)
    if broker is None or broker.is_fenced:
        return Leader(leader_id, epoch)
    return Leader(leader_id, epoch, broker, broker.endpoints.get(listener_name))

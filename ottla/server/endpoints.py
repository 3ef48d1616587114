"""Where brokers are, as a client of one listener sees them, and which replicas it can reach.

Read from an image only. Called by the handlers that tell clients about brokers and partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.metadata import BrokerImage, Endpoint, Image, PartitionImage

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

NO_NODE = -1


def nodes(image: Image, listener: str, *, with_fenced: bool = False) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """The brokers that have this listener."""
    for broker in image.brokers.values():
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None and (with_fenced or not broker.is_fenced):
            yield broker, endpoint


def controller_id(context: RequestContext, image: Image) -> int:
    """Any broker that is alive: since KRaft, clients reach the controller through whichever broker they like."""
    alive = [broker.id for broker in image.brokers.values() if not broker.is_fenced]
    if len(alive) <= 1:
        return alive[0] if alive else NO_NODE
    return context.broker.world.random.choice(alive)


def reachable(image: Image, listener: str) -> set[int]:
    """The ids of brokers that are alive and have this listener."""
    return {broker.id for broker, _ in nodes(image, listener)}


def offline_replicas(image: Image, partition: PartitionImage, alive: set[int]) -> list[int]:
    """The replicas that a client cannot reach, or whose directory has failed."""
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if replica not in alive or not image.brokers[replica].has_online_dir(directory)
    ]

"""Where brokers are, as a client of one listener sees them, and which replicas it can reach.

Read from an image only. Called by the handlers that tell clients about brokers and partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.errors import InvalidRequest, MismatchedEndpointType, UnsupportedEndpointType
from ottla.metadata import LOST, MIGRATING, UNASSIGNED, BrokerImage, Endpoint, Image, PartitionImage
from ottla.types import Uuid

if TYPE_CHECKING:
    from ottla.server.context import RequestContext

NO_NODE = -1

ENDPOINT_TYPES = {1: "BROKER", 2: "CONTROLLER"}
BROKERS, CONTROLLERS = 1, 2


def check_endpoint_type(asked: int, *, expected: int, version: int) -> None:
    """Whether a client that wants nodes of one kind has come to a listener of that kind."""
    if asked not in ENDPOINT_TYPES:
        message = f"Unsupported endpoint type {asked}"
        raise UnsupportedEndpointType(message) if version else InvalidRequest(message)
    if asked != expected:
        message = (
            f"The request was sent to an endpoint of type {ENDPOINT_TYPES[expected]}, "
            f"but we wanted an endpoint of type {ENDPOINT_TYPES[asked]}"
        )
        raise MismatchedEndpointType(message) if version else InvalidRequest(message)


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
    return context.node.world.random.choice(alive)


class Reach:
    """What clients of one listener can reach. Made once a request, so that each partition costs a few look-ups."""

    __slots__ = ("_usable", "_without_dirs", "alive", "listening")

    def __init__(self, image: Image, listener: str) -> None:
        self.alive: set[int] = set()
        """Brokers that are not fenced and have this listener."""
        self.listening: set[int] = set()
        """Brokers that have this listener, fenced or not."""
        self._usable: set[tuple[int, Uuid]] = set()
        self._without_dirs: set[int] = set()
        for broker, _ in nodes(image, listener, with_fenced=True):
            self.listening.add(broker.id)
            if not broker.is_fenced:
                self.alive.add(broker.id)
                if not broker.log_dirs:
                    self._without_dirs.add(broker.id)
                self._usable.update((broker.id, directory) for directory in (*broker.log_dirs, UNASSIGNED, MIGRATING))

    def offline(self, partition: PartitionImage) -> list[int]:
        """The replicas that cannot be reached, or whose directory has failed."""
        usable = self._usable
        found = [place[0] for place in zip(partition.replicas, partition.directories) if place not in usable]  # noqa: B905
        if found and self._without_dirs:
            # A broker that has told of no directories predates them: only a lost one counts.
            lost = [
                replica
                for replica, directory in zip(partition.replicas, partition.directories, strict=True)
                if directory == LOST
            ]
            return [replica for replica in found if replica not in self._without_dirs or replica in lost]
        return found

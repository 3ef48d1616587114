"""`World`: everything a node may touch, gathered in one value and passed down from the composition root."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.world.clock import Clock
from ottla.world.disk import Disk
from ottla.world.network import Network
from ottla.world.tasks import Tasks


@dataclass(frozen=True, slots=True)
class World:
    """What the synchronous cores may touch. The random source is seeded in simulation, so a seed replays exactly."""

    clock: Clock
    disk: Disk
    random: random.Random


@dataclass(frozen=True, slots=True)
class ClientWorld:
    """What a client may touch: it keeps nothing on disk."""

    clock: Clock
    random: random.Random
    tasks: Tasks
    network: Network


@dataclass(frozen=True, slots=True)
class NodeWorld(World):
    """What a whole node may touch: drivers also wait, run things by themselves and talk to others."""

    tasks: Tasks
    network: Network

    @property
    def as_client(self) -> ClientWorld:
        """What a client that lives beside the node gets."""
        return ClientWorld(self.clock, self.random, self.tasks, self.network)

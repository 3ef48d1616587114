"""`World`: everything a node may touch, gathered in one value and passed down from the composition root."""

from __future__ import annotations

import random

from ottla.world.clock import Clock
from ottla.world.disk import Disk
from ottla.world.network import Network
from ottla.world.tasks import Tasks


class World:
    """What the synchronous cores may touch. The random source is seeded in simulation, so a seed replays exactly."""

    __slots__ = ("clock", "disk", "random")

    def __init__(self, clock: Clock, disk: Disk, random: random.Random) -> None:
        self.clock = clock
        self.disk = disk
        self.random = random


class ClientWorld:
    """What a client may touch: it keeps nothing on disk."""

    __slots__ = ("clock", "network", "random", "tasks")

    def __init__(self, clock: Clock, random: random.Random, tasks: Tasks, network: Network) -> None:
        self.clock = clock
        self.random = random
        self.tasks = tasks
        self.network = network


class NodeWorld(World):
    """What a whole node may touch: drivers also wait, run things by themselves and talk to others."""

    __slots__ = ("network", "tasks")

    def __init__(self, clock: Clock, disk: Disk, random: random.Random, tasks: Tasks, network: Network) -> None:
        super().__init__(clock, disk, random)
        self.tasks = tasks
        self.network = network

    @property
    def as_client(self) -> ClientWorld:
        """What a client that lives beside the node gets."""
        return ClientWorld(self.clock, self.random, self.tasks, self.network)

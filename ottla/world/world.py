"""`World`: everything a node may touch, gathered in one value and passed down from the composition root."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.world.clock import Clock
from ottla.world.disk import Disk


@dataclass(frozen=True, slots=True)
class World:
    """Clock, disk and randomness of one node. The random source is seeded in simulation, so a seed replays exactly."""

    clock: Clock
    disk: Disk
    random: random.Random

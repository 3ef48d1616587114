"""A whole virtual `World`, with the types of its parts kept, so that a test can move time and cut the power."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ottla.sim.clock import VirtualClock
from ottla.sim.content import Chance
from ottla.sim.disk import VirtualDisk
from ottla.world import World


@dataclass(frozen=True, slots=True)
class VirtualWorld(World):
    """A `World` on virtual time, over a disk that can lose power."""

    clock: VirtualClock
    disk: VirtualDisk


def virtual_world(random: Chance) -> VirtualWorld:
    """One node's world, everything in it driven by this seeded `random.Random`."""
    clock = VirtualClock()
    # `World` asks for a `random.Random`, a name that only the world's own layer imports.
    return VirtualWorld(clock=clock, disk=VirtualDisk(random, clock), random=cast(Any, random))

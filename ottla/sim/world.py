"""A whole virtual `World`, with the types of its parts kept, so that a test can move time and cut the power."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ottla.sim.clock import VirtualClock
from ottla.sim.disk import VirtualDisk
from ottla.world import World


@dataclass(frozen=True, slots=True)
class VirtualWorld(World):
    """A `World` on virtual time, over a disk that can lose power."""

    clock: VirtualClock
    disk: VirtualDisk


def virtual_world(random: Random) -> VirtualWorld:
    """One node's world, everything in it driven by this seeded `random.Random`."""
    clock = VirtualClock()
    return VirtualWorld(clock=clock, disk=VirtualDisk(random, clock), random=random)

"""The virtual world: time that stands still until it is moved, and a disk that can lose power. See README.md.

Deterministic: the same seed and the same operations give the same outcome, in every process.
"""

from ottla.sim.clock import VirtualClock
from ottla.sim.disk import VirtualDisk, VirtualFile
from ottla.sim.faults import CHANGES, Kind, Moment, SimulatedCrash
from ottla.sim.world import VirtualWorld, virtual_world

__all__ = [
    "virtual_world",
    "VirtualWorld",
    "VirtualClock",
    "VirtualDisk",
    "VirtualFile",
    "SimulatedCrash",
    "CHANGES",
    "Kind",
    "Moment",
]

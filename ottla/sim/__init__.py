"""The virtual world: time that is moved, a disk that can lose power, a network that can be broken. See README.md.

Deterministic: the same seed and the same operations give the same outcome, in every process.
"""

from ottla.sim.clock import VirtualClock
from ottla.sim.cpu import Cpu
from ottla.sim.disk import VirtualDisk, VirtualFile
from ottla.sim.faults import CHANGES, Kind, Moment, SimulatedCrash
from ottla.sim.life import Life
from ottla.sim.links import ANY, Links
from ottla.sim.loop import Deadlock, NotVirtual, Runaway, VirtualLoop
from ottla.sim.network import Host, HostNetwork, VirtualListener, VirtualNetwork
from ottla.sim.stream import Pace, VirtualStream
from ottla.sim.tasks import VirtualTasks
from ottla.sim.world import (
    VirtualNodeWorld,
    VirtualWorld,
    client_world,
    node_world,
    run_virtual,
    virtual_node_world,
    virtual_world,
)

__all__ = [
    # worlds
    "virtual_world",
    "VirtualWorld",
    "virtual_node_world",
    "node_world",
    "client_world",
    "VirtualNodeWorld",
    "run_virtual",
    # time and tasks
    "VirtualClock",
    "VirtualLoop",
    "VirtualTasks",
    "Life",
    "Cpu",
    "Deadlock",
    "Runaway",
    "NotVirtual",
    # the disk
    "VirtualDisk",
    "VirtualFile",
    "SimulatedCrash",
    "CHANGES",
    "Kind",
    "Moment",
    # the network
    "VirtualNetwork",
    "Host",
    "HostNetwork",
    "VirtualListener",
    "VirtualStream",
    "Pace",
    "Links",
    "ANY",
]

"""A whole virtual `World`, with the types of its parts kept, so that a test can move time and cut the power."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from ottla.sim.clock import VirtualClock
from ottla.sim.disk import VirtualDisk
from ottla.sim.life import Life
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import Host, HostNetwork, VirtualNetwork
from ottla.sim.tasks import VirtualTasks
from ottla.world import NodeWorld, World

T = TypeVar("T")


class VirtualWorld(World):
    """A `World` on virtual time, over a disk that can lose power."""

    __slots__ = ()
    clock: VirtualClock
    disk: VirtualDisk

    def __init__(self, clock: VirtualClock, disk: VirtualDisk, random: Random) -> None:
        super().__init__(clock, disk, random)


def virtual_world(random: Random) -> VirtualWorld:
    """One node's world, everything in it driven by this seeded `random.Random`."""
    clock = VirtualClock()
    return VirtualWorld(clock=clock, disk=VirtualDisk(random, clock), random=random)


class VirtualNodeWorld(NodeWorld):
    """One life of a node: its tasks and its network end with `life`; clock and disk may serve the next one."""

    __slots__ = ("life", "loop")
    clock: VirtualClock
    disk: VirtualDisk
    tasks: VirtualTasks
    network: HostNetwork

    def __init__(
        self,
        clock: VirtualClock,
        disk: VirtualDisk,
        random: Random,
        tasks: VirtualTasks,
        network: HostNetwork,
        life: Life,
        loop: VirtualLoop,
    ) -> None:
        super().__init__(clock, disk, random, tasks, network)
        self.life = life
        self.loop = loop


def node_world(
    network: VirtualNetwork, host: Host, clock: VirtualClock, disk: VirtualDisk, life: Life, seed: str
) -> VirtualNodeWorld:
    """What a node gets for a life on that host. `seed` is for what the node draws itself and for its threads."""
    world = VirtualNodeWorld(
        clock=clock,
        disk=disk,
        random=Random(f"{seed} node"),
        tasks=VirtualTasks(network.loop, life, Random(f"{seed} threads"), clock),
        network=HostNetwork(network, host, life),
        life=life,
        loop=network.loop,
    )
    life.world = world.as_client
    return world


def client_world(network: VirtualNetwork, name: str, seed: str) -> VirtualNodeWorld:
    """A new host with a clock and a life of its own, for one client. What it has of a disk is nobody's concern."""
    clock = VirtualClock()
    network.loop.attach(clock)
    disk = VirtualDisk(Random(0), clock)
    return node_world(network, network.add_host(name), clock, disk, Life(name), f"{seed} {name}")


def virtual_node_world(seed: int, name: str = "node") -> VirtualNodeWorld:
    """A single host on a network of its own, ready to run a node. More hosts join through `network.network`."""
    loop = VirtualLoop()
    network = VirtualNetwork(loop, Random(f"{seed} network"))
    clock = VirtualClock()
    loop.attach(clock)
    disk = VirtualDisk(Random(f"{seed} disk"), clock)
    return node_world(network, network.add_host(name), clock, disk, Life(name, disk), str(seed))


def run_virtual(world: VirtualNodeWorld, main: Callable[[NodeWorld], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in this world until it returns, as `run_node` does in the real one."""
    task = world.loop.create_task(main(world), context=world.life.context.copy())
    try:
        return world.loop.run_until_complete(task)
    finally:
        world.life.end()
        world.loop.close()

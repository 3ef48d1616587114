"""`ottla/sim/world.py`."""

from __future__ import annotations

from random import Random

from ottla.sim import virtual_world
from ottla.world import Clock, Disk, World


def test_a_virtual_world_is_a_world_whose_parts_belong_together() -> None:
    random = Random(1)
    world: World = virtual_world(random)
    disk: Disk = world.disk
    clock: Clock = world.clock
    disk.open("/a", create=True).close()
    assert disk.modified_ms("/a") == clock.now_ms()
    assert world.random is random


def test_moving_the_worlds_clock_moves_its_disks_times() -> None:
    world = virtual_world(Random(1))
    world.clock.advance(1_000)
    world.disk.open("/a", create=True).close()
    assert world.disk.modified_ms("/a") == world.clock.now_ms()

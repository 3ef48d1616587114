"""The node under test: one host that lives, dies in several ways, and is started again on what its disk still has.

A host has a clock and a disk of its own, which outlive the node's lives, and a processor that may be slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from ottla.config import BrokerConfig
from ottla.node import Node, build
from ottla.sim.clock import VirtualClock
from ottla.sim.cpu import Cpu
from ottla.sim.disk import VirtualDisk
from ottla.sim.faults import Kind
from ottla.sim.life import Life
from ottla.sim.logs import LogCapture
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.world import VirtualNodeWorld, node_world


class NodeDied(Exception):
    """The node died before what was asked of it was done."""


class SimulatedNode:
    """A host with a clock and a disk, and the lives of the node on it."""

    def __init__(
        self,
        network: VirtualNetwork,
        name: str,
        settings: Mapping[str, str],
        logs: LogCapture,
        trace: Callable[[str], None],
        seed: str,
        *,
        cluster_id: str | None = None,
    ) -> None:
        self._network = network
        self._loop: VirtualLoop = network.loop
        self.settings = dict(settings)
        self._cluster_id = cluster_id
        self._logs = logs
        self._trace = trace
        self._seed = seed
        self.name = name
        self.host = network.add_host(name)
        self.clock = VirtualClock()
        self._loop.attach(self.clock)
        self.disk = VirtualDisk(Random(f"{seed} disk"), self.clock)
        for directory in settings["log.dirs"].split(","):
            # Mounts, which are there for good; what is in them is the node's business.
            self.disk.make_dirs(directory)
            self.disk.sync_dir(directory.rpartition("/")[0])
        self.disk.sync_dir("/")
        self.life_count = 0
        self.world: VirtualNodeWorld | None = None
        self.node: Node | None = None
        self.dies_of_power_loss = False
        """How a crash that the disk was told to make ends the node."""
        self.has_lost_power = False
        """Whether the power went since the last time that the node was surveyed."""
        self.turn_us_max = 0
        """How long the node's tasks may take that let others have their turn, such as the loading of a group."""
        self.cpu: Cpu | None = None
        """What its calls cost; nothing without it."""
        self.is_serving = False
        self.on_serving: Callable[[Node], None] | None = None
        """Called in each life when the node serves."""
        self.on_ended: Callable[[], None] | None = None
        self._has_slow_disk = False
        self._died: Any = self._loop.create_future()

    @property
    def is_running(self) -> bool:
        return self.world is not None

    async def start(self) -> None:
        """Start a new life; returns when it serves. `NodeDied` when it dies first."""
        assert self.world is None, "a node lives once at a time"
        self.life_count += 1
        name = f"{self.name} life {self.life_count}"
        self._trace(f"{name} begins")
        self._network.gain_power(self.host)
        self._died = self._loop.create_future()
        life = Life(name, self.disk, self._on_crash)
        self.world = node_world(self._network, self.host, self.clock, self.disk, life, f"{self._seed} {name}")
        self.world.tasks.turn_us_max = self.turn_us_max
        self._set_cost()
        await self._in_life(self._start(self.world))
        self.is_serving = True
        self._trace(f"{name} serves")

    async def _start(self, world: VirtualNodeWorld) -> None:
        node = build(BrokerConfig(self.settings), world)
        node.format_if_new(self._cluster_id)
        self.node = node
        await node.start()
        if self.on_serving is not None:
            self.on_serving(node)

    async def stop(self) -> None:
        """Stop in an orderly way."""
        assert self.node is not None, "a node that runs can be stopped"
        self._trace(f"{self.name} is asked to stop")
        await self._in_life(self.node.stop())
        self._end()
        self._network.end_life(self.host)
        self.disk.process_crash()
        self._trace(f"{self.name} has stopped")

    def kill(self, *, is_power_loss: bool) -> None:
        """End it here and now: by kill -9, or by taking the power away."""
        if self.world is None:
            return
        self._end()
        if is_power_loss:
            self._trace(f"{self.name} loses power")
            self._network.lose_power(self.host)
            self.disk.crash()
            self.has_lost_power = True
        else:
            self._trace(f"{self.name} is killed")
            self._network.end_life(self.host)
            self.disk.process_crash()

    @property
    def is_paused(self) -> bool:
        return self.world is not None and self.world.life.is_paused

    def pause(self) -> None:
        """Stop the process as SIGSTOP does: nothing of it runs, what is sent to it waits, and its time goes on."""
        if self.world is not None and not self.is_paused:
            self._trace(f"{self.name} is paused")
            self._loop.pause(self.world.life)

    def resume(self) -> None:
        """Let it go on, as SIGCONT does: with everything that is late by now."""
        if self.world is not None and self.is_paused:
            self._trace(f"{self.name} goes on")
            self._loop.resume(self.world.life)

    def slow_disk(self, times_us: Mapping[Kind, tuple[int, int]]) -> None:
        """Let the disk take its time. What threads ask of it delays only them; what the loop asks keeps it busy."""
        self._trace(f"{self.name} has a slow disk: {dict(times_us)}")
        self.disk.slow_down(times_us, Random(f"{self._seed} slow disk {self._loop.now_us}"))
        self._has_slow_disk = True
        self._set_cost()

    def mend_disk(self) -> None:
        """Take all trouble of the disk away. A node that has seen it fail may have stopped all the same."""
        self.disk.mend()
        self._has_slow_disk = False
        self._set_cost()

    def _set_cost(self) -> None:
        if self.world is not None:
            self.world.life.cost_us = self._cost_us if self.cpu is not None or self._has_slow_disk else None

    def _cost_us(self) -> int:
        cpu_us = 0 if self.cpu is None else self.cpu.cost_us()
        return cpu_us + self.disk.take_time_us(self._loop.now_us)

    def _on_crash(self) -> None:
        self._trace(f"{self.name} dies of a crash at its disk")
        self.kill(is_power_loss=self.dies_of_power_loss)

    def _end(self) -> None:
        assert self.world is not None, "it lives"
        world, self.world, self.node = self.world, None, None
        self.is_serving = False
        if self.on_ended is not None:
            self.on_ended()
        self._logs.is_muted = True
        world.life.end()
        self._logs.is_muted = False
        if not self._died.done():
            self._died.set_result(None)

    async def _in_life(self, work: Any) -> None:
        """Run a coroutine in the node's life and wait for it, or for its death."""
        assert self.world is not None, "it lives"
        done = self._loop.create_future()

        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - told to who waits
                if not done.done():
                    done.set_exception(error)
            else:
                if not done.done():
                    done.set_result(None)

        self.world.tasks.spawn(run(), f"{self.name} work")
        died = self._died
        died.add_done_callback(lambda _: None if done.done() else done.set_exception(NodeDied(self.name)))
        await done

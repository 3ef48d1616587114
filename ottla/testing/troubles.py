"""What strikes a simulated cluster, and the processes of a program on it, while the program runs.

Every trouble passes: what was killed is started again, what was cut is healed. A correct program loses nothing by those
in `FAULTS`. The loss of power (`POWER`) may take what a lone node has acknowledged and not synced, as in Kafka, so it
strikes only where it is asked for by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.sim.node import NodeDied
from ottla.sim.waiting import sleep_ms
from ottla.testing.errors import ClusterError

if TYPE_CHECKING:
    from ottla.testing.simulation import SimulatedKafka

FAULTS = ("kill", "stop", "pause", "cut", "slow", "reset", "process")
"""Nodes are killed, stopped in order, paused; links are cut or slow, connections are reset; processes are killed."""
POWER = "power"
INTERVAL_S = (0.05, 4.0)
"""How long there is peace between two strikes."""
LASTS_S = (0.05, 6.0)
"""How long a trouble lasts."""


class Troubles:
    """The faults of one run, one after another."""

    def __init__(self, kafka: SimulatedKafka, faults: Sequence[str], duration_s: float) -> None:
        unknown = set(faults) - {*FAULTS, POWER}
        if unknown:
            raise ClusterError(f"there is no fault {sorted(unknown)[0]!r}: choose from {', '.join([*FAULTS, POWER])}")
        self._kafka = kafka
        self._faults = faults
        self._duration_s = duration_s
        self._chance = Random(f"{kafka.seed} troubles")
        self._loop = kafka.network.loop

    def start(self) -> None:
        if self._faults:
            task = self._loop.create_task(self._strike_on(), context=Context())
            task.add_done_callback(self._on_done, context=Context())

    def _on_done(self, task: Any) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._kafka.fail(task.exception())

    async def _strike_on(self) -> None:
        end_us = self._loop.now_us + round(self._duration_s * 1_000_000)
        while self._loop.now_us < end_us:
            await self._sleep(*INTERVAL_S)
            fault = self._chance.choice(self._faults)
            self._kafka.trace(f"fault: {fault}")
            await self._strike(fault)
        self._kafka.trace("no more faults")

    async def _strike(self, fault: str) -> None:
        kafka, chance = self._kafka, self._chance
        cluster = kafka.cluster
        node = chance.choice(kafka.nodes)
        match fault:
            case "kill" | "power":
                cluster.kill(node, is_power_loss=fault == POWER)
                await self._sleep(*LASTS_S)
                await self._start_again()
            case "stop":
                await cluster.stop(node)
                await self._sleep(*LASTS_S)
                await self._start_again()
            case "pause":
                cluster.pause(node)
                await self._sleep(*LASTS_S)
                cluster.resume(node)
            case "cut":
                links = kafka.network.links
                name = chance.choice((links.isolate, links.mute, links.deafen))(node)
                await self._sleep(*LASTS_S)
                links.heal(name)
            case "slow":
                host = chance.choice(sorted(set(kafka.network.hosts) - {node}))
                name = kafka.network.links.slow(node, host, delay_us=(0, chance.randrange(2_000_000)))
                await self._sleep(*LASTS_S)
                kafka.network.links.heal(name)
            case "reset":
                connections = kafka.network.open_connections()
                if connections:
                    kafka.network.reset(chance.choice(connections))
            case "process":
                running = [process for process in kafka.processes if process.is_running]
                if running:
                    chance.choice(running).kill()

    async def _start_again(self) -> None:
        for name in self._kafka.nodes:
            while not self._kafka.cluster[name].is_running:
                try:
                    await self._kafka.cluster.start(name)
                except NodeDied:
                    continue

    async def _sleep(self, low_s: float, high_s: float) -> None:
        await sleep_ms(self._loop, self._chance.uniform(low_s, high_s) * 1000)

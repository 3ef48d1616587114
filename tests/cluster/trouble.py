"""Trouble for a cluster of processes: leaders, controllers and followers are killed, stood still, ended, restarted.

`Trouble` does it for so many seconds, one node at a time and, where there are five, now and then two: a majority is
always left. What it does next comes from a seed; when, from the machine. Called by tests.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from tests.durability.killing import TOPIC
from tests.support.processes import SESSION_MS, ClusterProcesses, NodeProcess

ROLES = ("leader", "controller", "follower")
DEEDS = ("kill", "pause", "stop")
TWO_MIN = 5
"""With so many nodes, two may be down at once."""


class Trouble:
    """`Trouble(cluster, seed).run(seconds, between=wait_for_progress)`; `done` says what was done."""

    def __init__(self, cluster: ClusterProcesses, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self.done: list[str] = []

    def run(self, seconds: float, between: Callable[[], None]) -> None:
        """Make trouble, and call `between` while nodes are down and after they have come back."""
        deadline = time.monotonic() + seconds
        for role, deed in self._plan():
            if time.monotonic() >= deadline:
                return
            victims = [self._choose(role)]
            if len(self._cluster.brokers) >= TWO_MIN and self._chance.random() < 0.5:
                others = [node for node in self._cluster.brokers if node not in victims]
                victims.append(self._chance.choice(others))
            self.done.append(f"{deed} {role} {'+'.join(str(node.node_id) for node in victims)}")
            self._harm(victims, deed, between)
            between()

    def _plan(self) -> Iterator[tuple[str, str]]:
        """Every deed to every role, in a new order each time."""
        while True:
            pairs = [(role, deed) for role in ROLES for deed in DEEDS]
            self._chance.shuffle(pairs)
            yield from pairs

    def _choose(self, role: str) -> NodeProcess:
        cluster = self._cluster
        if role == "controller":
            return cluster[cluster.active_controller()]
        leader = cluster.leaders(TOPIC).get(0, -1)
        if role == "leader" and leader >= 0:
            return cluster[leader]
        return self._chance.choice([node for node in cluster.brokers if node.node_id != leader])

    def _harm(self, victims: list[NodeProcess], deed: str, between: Callable[[], None]) -> None:
        for node in victims:
            {"kill": node.kill, "pause": node.pause, "stop": node.stop}[deed]()
        if deed == "pause":
            time.sleep(SESSION_MS / 1000 + self._chance.uniform(0.5, 1.5))
            between()
            for node in victims:
                node.resume()
            return
        if self._chance.random() < 0.5:
            between()  # the others go on without it
        time.sleep(self._chance.uniform(0, 1))
        self._cluster.start(*(node.node_id for node in victims))

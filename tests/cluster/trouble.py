"""Trouble for a cluster of processes: leaders, controllers and followers are killed, stood still, ended, cut off.

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
CUTS = ("cut", "cut from controllers", "mute", "deafen")
"""Where nodes are in namespaces: off from everybody, off from the quorum only, unheard by other nodes, and hearing none
of them. Clients reach a node in the last three."""
TWO_MIN = 5
"""With so many nodes, two may be down at once."""


class Trouble:
    """`Trouble(cluster, seed).run(seconds, between=wait_for_progress)`; `done` says what was done, and to whom."""

    def __init__(self, cluster: ClusterProcesses, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(seed)
        self.deeds = (*DEEDS, *(CUTS if cluster.network is not None else ()))
        """What can be done to the nodes of this cluster."""
        self.done: list[tuple[str, str]] = []
        """To the end: the victims are back, and `between` has returned."""
        self._under_way = ""

    def __str__(self) -> str:
        return ", ".join([*(f"{deed} {victims}" for deed, victims in self.done), self._under_way or "at an end"])

    def run(self, seconds: float, between: Callable[[], None], *, count_min: int = 1) -> None:
        """Make trouble for so many seconds, and at least so often; call `between` while nodes are down and after they
        have come back. The first trouble is one of each deed."""
        deadline = time.monotonic() + seconds
        for role, deed in self._plan():
            if time.monotonic() >= deadline and len(self.done) >= count_min:
                return
            victims = [self._choose(role)]
            if len(self._cluster.brokers) >= TWO_MIN and self._chance.random() < 0.5:
                others = [node for node in self._cluster.brokers if node not in victims]
                victims.append(self._chance.choice(others))
            told = f"{role} {'+'.join(str(node.node_id) for node in victims)}"
            self._under_way = f"and under way: {deed} {told}"
            self._harm(victims, deed, between)
            between()
            self.done.append((deed, told))
            self._under_way = ""

    def _plan(self) -> Iterator[tuple[str, str]]:
        """Every deed to every role, in a new order each time, beginning with one of each deed."""
        while True:
            pairs = [(role, deed) for role in ROLES for deed in self.deeds]
            self._chance.shuffle(pairs)
            first = [next(pair for pair in pairs if pair[1] == deed) for deed in self.deeds]
            self._chance.shuffle(first)
            yield from first
            yield from (pair for pair in pairs if pair not in first)

    def _choose(self, role: str) -> NodeProcess:
        cluster = self._cluster
        if role == "controller":
            return cluster[cluster.active_controller()]
        leader = cluster.leaders(TOPIC).get(0, -1)
        if role == "leader" and leader >= 0:
            return cluster[leader]
        return self._chance.choice([node for node in cluster.brokers if node.node_id != leader])

    def _harm(self, victims: list[NodeProcess], deed: str, between: Callable[[], None]) -> None:
        if deed in CUTS:
            self._cut([node.node_id for node in victims], deed)
            try:
                self._outlast_session(between if deed == "cut" else None)
            finally:
                self._cluster.heal()
            return
        for node in victims:
            {"kill": node.kill, "pause": node.pause, "stop": node.stop}[deed]()
        if deed == "pause":
            try:
                self._outlast_session(between)
            finally:
                for node in victims:
                    node.resume()
            return
        if self._chance.random() < 0.5:
            between()  # the others go on without it
        time.sleep(self._chance.uniform(0, 1))
        self._cluster.start(*(node.node_id for node in victims))

    def _outlast_session(self, between: Callable[[], None] | None) -> None:
        """With `between`, where the others must be able to go on. A client may not, as long as it reaches nobody but
        nodes that have not heard of their successors: librdkafka asks only those it is connected to."""
        time.sleep(SESSION_MS / 1000 + self._chance.uniform(0.5, 1.5))
        if between is not None:
            between()

    def _cut(self, victims: list[int], deed: str) -> None:
        cluster = self._cluster
        if deed == "cut":
            cluster.isolate(*victims)
            return
        nodes = cluster.controllers if deed == "cut from controllers" else list(cluster)
        pairs = [(one, node.node_id) for one in victims for node in nodes if node.node_id != one]
        if deed != "deafen":
            cluster.cut(*pairs)
        if deed != "mute":
            cluster.cut(*((other, one) for one, other in pairs))

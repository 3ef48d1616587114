"""Everything that can go wrong between a client and its brokers, drawn from a seed, on the virtual network.

For a while: brokers end and come back, lose power and come back, are cut off; connections break, or fall silent while
both ends believe in them; leaders move; requests are lost, answers are lost after the work was done, answers come late
or say that the moment is bad. Then everything heals, and what was promised must be true.
"""

from __future__ import annotations

from random import Random

from ottla.errors import KafkaStorageError, NotEnoughReplicas, RequestTimedOut
from ottla.wire.frames import Request
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.world import ClientWorld
from tests.support.broker_cluster import Broker, BrokerCluster
from tests.support.wire import FINE, Meddling

PASSING = (NotEnoughReplicas.code, RequestTimedOut.code, KafkaStorageError.code)
"""What a broker answers to a Produce that is to be sent again."""


class Trouble:
    """Faults at random times for `duration_ms`, then none."""

    def __init__(
        self, cluster: BrokerCluster, world: ClientWorld, seed: int, duration_ms: int, topic: str, partition_count: int
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition_count = partition_count
        self._world = world
        self._chance = Random(f"{seed} trouble")
        self._until_ms = world.clock.monotonic_ms() + duration_ms
        self.counts: dict[str, int] = {}
        self._rates = {
            "lost": self._chance.choice((0.0, 0.01, 0.05)),
            "answer lost": self._chance.choice((0.0, 0.02, 0.1)),
            "late": self._chance.choice((0.0, 0.05, 0.2)),
            "refused": self._chance.choice((0.0, 0.02, 0.1)),
        }
        cluster.meddle = self._meddle

    @property
    def is_over(self) -> bool:
        return self._world.clock.monotonic_ms() >= self._until_ms

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _meddle(self, broker: int, request: Request) -> Meddling:
        if self.is_over:
            return FINE
        for what, rate in self._rates.items():
            if self._chance.random() >= rate:
                continue
            if what == "lost":
                self._count(what)
                return Meddling(is_lost=True)
            if what == "answer lost":
                self._count(what)
                return Meddling(loses_answer=True)
            if what == "late":
                self._count(what)
                return Meddling(delay_ms=self._chance.choice((5, 200, 3000, 40_000)))
            if isinstance(request.body, ProduceRequest) and request.body.acks:
                self._count(what)
                return Meddling(answer=_refusal(request.body, self._chance.choice(PASSING)))
        return FINE

    async def run(self) -> None:
        """Make trouble until time is up, then heal."""
        cluster, chance, world = self._cluster, self._chance, self._world
        while not self.is_over:
            await world.tasks.sleep_ms(chance.randrange(50, 1500))
            broker = cluster.brokers[chance.choice(list(cluster.brokers))]
            match chance.randrange(7):
                case 0 if self._has_another(broker):
                    self._count("stopped")
                    broker.kill()
                case 1 if self._has_another(broker):
                    self._count("power lost")
                    broker.crash()
                case 2:
                    self._count("parted")
                    cluster.network.part(cluster.client_host, broker.host)
                case 3:
                    cluster.network.heal()
                case 4:
                    for one in cluster.brokers.values():
                        if not one.is_running and chance.random() < 0.7:
                            one.start()
                case 5:
                    running = [number for number, one in cluster.brokers.items() if one.is_running]
                    for index in range(self._partition_count):
                        if chance.random() < 0.5:
                            self._count("leader moved")
                            cluster.move_leader_soon(self._topic, index, chance.choice(running))
                case _:
                    opened = cluster.network.open_connections()
                    if opened:
                        ends = chance.choice(opened)
                        if chance.random() < 0.5:
                            self._count("reset")
                            cluster.network.reset(ends)
                        else:
                            self._count("silenced")
                            chance.choice(ends).is_silent = True
        cluster.network.heal()
        for one in cluster.brokers.values():
            await one.start()

    def _has_another(self, broker: Broker) -> bool:
        return broker.is_running and sum(one.is_running for one in self._cluster.brokers.values()) > 1


def _refusal(request: ProduceRequest, code: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=one.index, error_code=code, base_offset=-1)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )

"""Everything at once, from a seed: brokers vanish, leaders move, answers are lost, batches are too large.

Whatever the producer said was written is there, once, in order, at the offset it told; nothing else is there twice; and
its memory is free again. Over a thousand more seeds were run when this was written.
"""

from __future__ import annotations

from contextvars import Context
from random import Random
from typing import Any

import pytest

from ottla.client.producer import AsyncProducer, Delivery
from ottla.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.records import batches
from ottla.wire.frames import Request
from ottla.wire.messages.produce import ProduceRequest
from tests.support.broker_cluster import BrokerCluster
from tests.support.high_sequences import begin_at
from tests.support.wire import FINE, Meddling
from tests.unit.client.producer.test_faults import refusal, run

PARTITIONS = 3
AWAY_S_MAX = 60
PASSING = [
    one.code
    for one in (
        KafkaStorageError,
        NotEnoughReplicas,
        NotEnoughReplicasAfterAppend,
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        FencedLeaderEpoch,
    )
]


class Chaos:
    """How bad it is, drawn from the seed; `is_over` ends it."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        self.chance: Random = cluster.chance
        self.loses_answers = self.chance.uniform(0, 0.3)
        self.loses_requests = self.chance.uniform(0, 0.1)
        self.moves_leaders = self.chance.uniform(0, 0.15)
        self.refuses = self.chance.uniform(0, 0.2)
        self.finds_too_large = self.chance.uniform(0, 0.05)
        self.is_slow = self.chance.uniform(0, 0.05)
        self.is_over = False
        self.seen: set[tuple[int, int, int]] = set()
        cluster.meddle = self.meddle

    def is_so(self, probability: float) -> bool:
        return self.chance.random() < probability

    def meddle(self, broker: int, request: Request) -> Meddling:
        if self.is_over:
            return FINE
        body = request.body
        if not isinstance(body, ProduceRequest):
            return Meddling(is_lost=self.is_so(0.02))
        is_new = self.is_new(body)
        if self.is_so(self.loses_answers):
            return Meddling(loses_answer=True)
        if self.is_so(self.loses_requests):
            return Meddling(is_lost=True)
        if self.is_so(self.moves_leaders):
            self.cluster.move_leader_soon("a", self.chance.randrange(PARTITIONS), self.chance.randint(1, 3))
        if self.is_so(self.refuses):
            return Meddling(answer=refusal(body, self.chance.choice(PASSING)))
        if self.is_so(self.finds_too_large) and is_new:
            return Meddling(answer=refusal(body, MessageTooLarge.code))
        return Meddling(delay_ms=self.chance.uniform(0, 400) if self.is_so(self.is_slow) else 0)

    def is_new(self, request: ProduceRequest) -> bool:
        """Whether none of it was sent before: what a broker has taken once, it does not find too large later."""
        sent = {
            (one.index, batch.producer_epoch, batch.base_sequence)
            for topic in request.topic_data
            for one in topic.partition_data
            for batch in batches(memoryview(one.records or b""))
        }
        is_new = not sent & self.seen
        self.seen |= sent
        return is_new

    def toggle_a_broker(self) -> None:
        """End one, so that others hear of it or not, or start one that is away. Another leads meanwhile, or none if the
        last one in sync has gone: each comes back by itself, because a producer whose memory is full waits for that."""
        broker = self.cluster.brokers[self.chance.randint(1, 3)]
        if not broker.is_running:
            broker.start()
        elif any(one.is_running and one is not broker for one in self.cluster.brokers.values()):
            broker.kill() if self.is_so(0.5) else broker.crash()
            self.cluster.loop.call_later(AWAY_S_MAX, broker.start, context=Context())

    async def end(self) -> None:
        self.is_over = True
        for broker in self.cluster.brokers.values():
            await broker.start()


@pytest.mark.parametrize("first_sequence", [0, 2**31 - 15], ids=["from-zero", "over-the-wrap"])
@pytest.mark.parametrize("seed", range(12))
def test_what_was_acknowledged_is_there_once_and_in_order_whatever_happens(
    seed: int, first_sequence: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_at(monkeypatch, first_sequence)
    cluster = BrokerCluster(seed)
    cluster.create_topic("a", PARTITIONS)
    chaos = Chaos(cluster)
    chance = cluster.chance

    async def main(producer: AsyncProducer) -> None:
        sent: list[list[tuple[bytes, Delivery]]] = [[] for _ in range(PARTITIONS)]
        for number in range(chance.choice([100, 300])):
            partition = chance.randrange(PARTITIONS)
            value = b"%d" % number
            sent[partition].append((value, await producer.send("a", value, partition=partition)))
            if chaos.is_so(0.1):
                await producer._core.world.tasks.sleep_ms(chance.uniform(0, 50))
            if chaos.is_so(0.01):
                chaos.toggle_a_broker()
        await chaos.end()
        await producer.flush(3600)
        for partition, deliveries in enumerate(sent):
            check(deliveries, cluster.values("a")[partition])
        metrics = producer.metrics()
        assert metrics.value("buffer-available-bytes") == metrics.value("buffer-total-bytes")

    settings: dict[str, Any] = {
        "batch.size": chance.choice([0, 60, 200, 1600]),
        "request.timeout.ms": chance.choice([300, 1000]),
        "linger.ms": chance.choice([0, 5, 20]),
        "max.in.flight.requests.per.connection": chance.choice([1, 2, 5]),
        "compression.type": chance.choice(["none", "lz4"]),
        "buffer.memory": chance.choice([4000, 20_000, 1 << 25]),
        "delivery.timeout.ms": 36_000_000,
        "max.block.ms": 36_000_000,
    }
    run(cluster, main, config=settings)


def check(deliveries: list[tuple[bytes, Delivery]], written: list[bytes | None]) -> None:
    assert len(written) == len(set(written)), "a record is there twice"
    acknowledged = []
    for value, delivery in deliveries:
        error = delivery.exception()
        if error is None:
            acknowledged.append(value)
            offset = delivery.result().offset
            assert offset == -1 or written[offset] == value
        else:
            assert isinstance(error, MessageTooLarge), error  # the only one that no retry mends
    known = set(acknowledged)
    assert [value for value in written if value in known] == acknowledged, "a record is lost, or out of order"

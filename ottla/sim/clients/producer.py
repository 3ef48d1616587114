"""A producer: batches to random partitions, several in flight, each sent again until its fate is known.

Three kinds, as in Kafka: acks=0 sends and forgets; a plain one tries again after every doubt, so its records may be
there twice; an idempotent one numbers its batches per partition and sends them again in order with the same numbers, so
they may not.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ottla.errors import (
    DuplicateSequenceNumber,
    KafkaError,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
    error_class,
)
from ottla.net import Link
from ottla.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Codec, build_batch
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST, at_version
from ottla.sim.history import PartitionHistory, Value, Violation
from ottla.types import Uuid
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

IN_FLIGHT_MAX = 5
REQUEST_TIMEOUT_MS = 5_000
ZSTD_VERSION = 7
RETRY_MS = 100
_LOST_STATE = (OutOfOrderSequenceNumber.code, UnknownProducerId.code, DuplicateSequenceNumber.code)


@dataclass(eq=False, slots=True)
class Outgoing:
    """A batch whose fate is not known."""

    values: list[Value]
    data: bytes
    is_in_flight: bool = False
    attempts: int = 0


@dataclass(eq=False, slots=True)
class Lane:
    """One partition, and what is on its way there, in order."""

    topic: Topic
    history: PartitionHistory
    outgoing: deque[Outgoing]
    truncations: int
    """How often the partition had lost records when this producer began there."""
    next_sequence: int = 0
    retry_ms: int = 0
    must_resend: bool = False
    """After a failure nothing new is sent until everything in doubt has come back and was sent again in order."""


class Producer(Client):
    """See the module. Runs until told to stop, then until nothing is in doubt."""

    acks = -1
    is_idempotent = True
    codec = Codec.NONE
    topic_names: list[str]
    interval_ms = 20.0
    is_steady = False
    """Whether it keeps to its interval; otherwise an answer brings the next batch at once."""
    batches_max = 1_000_000

    async def work(self) -> None:
        self._lanes: dict[tuple[Uuid, int], Lane] = {}
        self._producer: tuple[int, int] | None = None
        self._next_number = 0
        self._in_flight = 0
        self._next_ms = 0.0
        self._has_changed = self.world.tasks.promise()
        while True:
            await self._find_lanes()
            while not self._needs_lanes():
                link = await self.link()
                if self.is_idempotent and self._producer is None:
                    await self._init_producer_id()
                    continue
                self._resend(link)
                if self.is_stopping and not any(lane.outgoing for lane in self._lanes.values()):
                    return
                lane = self.chance.choice(list(self._lanes.values()))
                may_send = not lane.must_resend and len(lane.outgoing) < IN_FLIGHT_MAX
                may_send = may_send and self._in_flight < IN_FLIGHT_MAX and self.batches_max > 0
                if may_send and not self.is_stopping and self._is_due():
                    self.batches_max -= 1
                    self._send_new(link, lane)
                await self._wait()
            await self.pause()

    def _is_due(self) -> bool:
        now_ms = self.world.clock.monotonic_ms()
        if self.is_steady and now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self.interval_ms
        return True

    def _needs_lanes(self) -> bool:
        return not self._lanes

    async def _wait(self) -> None:
        """Wait for an answer or for the time of the next batch."""
        self._has_changed = self.world.tasks.promise()
        timer = self.world.tasks.later(self.interval_ms * self.chance.uniform(0.2, 1.8), self._change)
        await self._has_changed
        timer.cancel()

    def _change(self) -> None:
        if not self._has_changed.done():
            self._has_changed.set_result(None)

    async def _find_lanes(self) -> None:
        for topic in (await self.topics(self.topic_names)).values():
            for index in range(topic.partition_count):
                if (topic.id, index) not in self._lanes:
                    history = self.history.partition(topic.name, topic.id, index)
                    self._lanes[topic.id, index] = Lane(topic, history, deque(), history.truncations)

    async def _init_producer_id(self) -> None:
        try:
            response: InitProducerIdResponse = await self.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            )
        except LOST:
            await self.pause()
            return
        if response.error_code:
            if not error_class(response.error_code).retriable:
                raise Violation(f"{self.name}: InitProducerId is answered with error {response.error_code}")
            await self.pause()
            return
        self._producer = (response.producer_id, response.producer_epoch)
        if response.producer_id in self.history.producer_ids:
            raise Violation(f"{self.name}: producer id {response.producer_id} was given before")
        self.history.producer_ids.add(response.producer_id)
        self.trace(f"{self.name} is producer {response.producer_id}")

    # Out

    def _send_new(self, link: Link, lane: Lane) -> None:
        now_ms = self.world.clock.now_ms()
        values = []
        for _ in range(self.chance.choice((1, 1, 2, 10))):
            timestamp = now_ms - self.chance.randrange(1_000)
            values.append(Value(self.name, self._next_number, timestamp, self.is_idempotent))
            self._next_number += 1
        size = self.chance.choice((30, 100, 100, 1_000, 5_000))
        producer_id, epoch = self._producer if self._producer is not None else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        rows = [
            (offset, value.timestamp, self.name.encode(), value.encode(size), ()) for offset, value in enumerate(values)
        ]
        data = build_batch(
            rows,
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=lane.next_sequence if self.is_idempotent else NO_SEQUENCE,
        )
        lane.next_sequence += len(values)
        batch = Outgoing(values, data)
        if self.acks:
            lane.outgoing.append(batch)
        self._send(link, lane, batch)

    def _send(self, link: Link, lane: Lane, batch: Outgoing) -> None:
        version = self.version_of(0, first=ZSTD_VERSION if self.codec is Codec.ZSTD else 0)
        topic = TopicProduceData(lane.topic.name, lane.topic.id, [PartitionProduceData(lane.history.index, batch.data)])
        request = ProduceRequest(acks=self.acks, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=[topic])
        self.history.on_sent(lane.history, batch.values)
        self.history.count("batches sent")
        batch.attempts += 1
        build = at_version(request, version)
        if not self.acks:
            error = link.send_only(build)
            assert error is None, f"the link is ready: {error}"
            return
        batch.is_in_flight = True
        self._in_flight += 1
        answer = link.send(build, timeout_ms=self.request_timeout_ms)
        answer.add_done_callback(lambda answer: self._on_answer(lane, batch, answer))

    def _resend(self, link: Link) -> None:
        """Send again what is in doubt, in order, once nothing of its partition is in flight."""
        for lane in self._lanes.values():
            is_due = lane.retry_ms <= self.world.clock.monotonic_ms()
            if lane.must_resend and is_due and not any(batch.is_in_flight for batch in lane.outgoing):
                lane.must_resend = False
                for batch in lane.outgoing:
                    self.history.count("batches sent again")
                    self._send(link, lane, batch)

    # In

    def _on_answer(self, lane: Lane, batch: Outgoing, answer: Any) -> None:
        batch.is_in_flight = False
        self._in_flight -= 1
        self._change()
        try:
            response: ProduceResponse = answer.result()
        except LOST as error:
            self.trace(f"{self.name}: {error}")
            self._try_again(lane)
            return
        try:
            self._on_response(lane, batch, response)
        except Violation as violation:
            self.history.complain(violation)
            lane.outgoing.clear()

    def _on_response(self, lane: Lane, batch: Outgoing, response: ProduceResponse) -> None:
        (topic,) = response.responses
        (partition,) = topic.partition_responses
        if partition.index != lane.history.index:
            raise Violation(f"{self.name} wrote to {lane.history} and is told of partition {partition.index}")
        if not partition.error_code:
            self._on_success(lane, batch, partition.base_offset)
            return
        self._on_error(lane, batch, error_class(partition.error_code))

    def _on_success(self, lane: Lane, batch: Outgoing, base_offset: int) -> None:
        if batch not in lane.outgoing:
            return  # given up meanwhile
        lane.outgoing.remove(batch)
        if base_offset < 0:
            raise Violation(f"{self.name}: {lane.history} acknowledges a batch at offset {base_offset}")
        self.history.on_acknowledged(lane.history, base_offset, batch.values)

    def _on_error(self, lane: Lane, batch: Outgoing, error: type[KafkaError]) -> None:
        if batch not in lane.outgoing:
            return  # given up meanwhile
        self.trace(f"{self.name}: {lane.history} answers {error.name}")
        self.history.count(f"produce: {error.name}")
        if lane.topic.id in self.history.doomed:
            # The topic is being deleted: nothing more comes of this.
            lane.outgoing.clear()
            del self._lanes[lane.topic.id, lane.history.index]
            return
        if error.code in _LOST_STATE:
            if batch is not lane.outgoing[0]:
                self._try_again(lane)  # one before it failed, so this one came out of order
                return
            # What was sent before may be stored, with its answer lost. A broker that has restarted since knows only the
            # last batch of a producer, as Kafka's snapshots do, and cannot tell an older one for a duplicate.
            if lane.history.truncations == lane.truncations and batch.attempts == 1:
                raise Violation(f"{self.name}: {lane.history} answers {error.name} to batch {batch.values[0]}")
            # What is in doubt is given up, and a new producer begins.
            self.trace(f"{self.name} begins anew at {lane.history}")
            for one in self._lanes.values():
                one.outgoing.clear()
                one.next_sequence = 0
                one.truncations = one.history.truncations
                one.must_resend = False
            self._producer = None
            return
        if not error.retriable and error.name not in ("KAFKA_STORAGE_ERROR",):
            raise Violation(f"{self.name}: {lane.history} answers {error.name}")
        self._try_again(lane)

    def _try_again(self, lane: Lane) -> None:
        lane.must_resend = True
        lane.retry_ms = self.world.clock.monotonic_ms() + RETRY_MS

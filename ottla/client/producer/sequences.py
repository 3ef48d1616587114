"""The numbers by which a broker tells a batch that is sent again from a new one.

A producer id and an epoch name the producer; within these every partition counts its records. Promises: batches of one
partition are numbered without a gap in the order they are first sent, and after 2^31 - 1 comes 0, so no two numbers are
compared by size; those under way are known in that order; after a change of the epoch a partition begins at 0 once
nothing of the old epoch is under way, or by renumbering what is.
Called by `TransactionManager` alone.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.producer.batch import ProducerBatch
from ottla.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    decrement_sequence,
    increment_sequence,
    is_sequence_before,
)
from ottla.types import TopicPartition

NO_OFFSET = -1
EPOCH_MAX = 0x7FFF
REMEMBERED_BATCHES = 5
"""A broker knows the last so many batches of a producer and a partition again when they are sent again."""


class ProducerIdAndEpoch(NamedTuple):
    """Who sends."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"(producerId={self.producer_id}, epoch={self.epoch})"


NO_PRODUCER = ProducerIdAndEpoch()


class PartitionSequences:
    """The numbers of one partition."""

    __slots__ = ("_numbered", "in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence", "producer")

    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        """As whom its batches are sent; changes later than the producer's own when batches are under way."""
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight: list[ProducerBatch] = []
        """What was sent or is to be sent again, in the order it was numbered."""
        self._numbered = 0

    @property
    def has_room(self) -> bool:
        """Whether another batch may be sent and the oldest under way would still be known if it had to be sent again.

        On one connection the requests in flight see to that. But when the leader moves while an answer is still awaited
        of the old one, the new one could acknowledge any number of batches meanwhile.
        """
        return not self.in_flight or self._numbered - self.in_flight[0].place < REMEMBERED_BATCHES

    def number(self, batch: ProducerBatch, *, is_transactional: bool) -> None:
        """Give a batch the next place."""
        producer_id, epoch = self.producer
        batch.set_producer(producer_id, epoch, self.next_sequence, is_transactional=is_transactional)
        batch.place = self._numbered
        self._numbered += 1
        self.next_sequence = increment_sequence(self.next_sequence, batch.count)
        self.in_flight.append(batch)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """The batch was split: its parts, which are numbered, stand where it stood."""
        assert all(part.has_sequence for part in parts), "what is tracked has a number"
        # What the broker has forgotten (UNKNOWN_PRODUCER_ID) is not tracked any more; its parts are, from here on.
        place = self.in_flight.index(batch) if batch in self.in_flight else len(self.in_flight)
        self.in_flight[place : place + 1] = parts

    def remove(self, batch: ProducerBatch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def begin_again(self, producer: ProducerIdAndEpoch) -> None:
        """From 0, with what is under way renumbered in its order."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer(producer.producer_id, producer.epoch, sequence)
            sequence = increment_sequence(sequence, batch.count)
        self.producer = producer
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE

    def close_gap(self, failed: ProducerBatch) -> None:
        """A batch was refused for good: those behind it move up, so that the broker sees no gap."""
        self.next_sequence = decrement_sequence(self.next_sequence, failed.count)
        for batch in self.in_flight:
            if is_sequence_before(failed.base_sequence, batch.base_sequence):
                moved = decrement_sequence(batch.base_sequence, failed.count)
                batch.reset_producer(batch.producer_id, batch.producer_epoch, moved)

    def acknowledge(self, batch: ProducerBatch, base_offset: int) -> None:
        """The broker has it."""
        last = self.last_acked_sequence
        if last == NO_SEQUENCE or is_sequence_before(last, batch.last_sequence):
            self.last_acked_sequence = batch.last_sequence
        if base_offset >= 0:
            self.last_acked_offset = max(self.last_acked_offset, base_offset + batch.count - 1)

    def is_next(self, sequence: int) -> bool:
        """Whether it follows the last that the broker has acknowledged."""
        return sequence == increment_sequence(self.last_acked_sequence, 1)


class Sequences(dict[TopicPartition, PartitionSequences]):
    """Those of all partitions, made when they are first asked for."""

    def __missing__(self, partition: TopicPartition) -> PartitionSequences:
        made = self[partition] = PartitionSequences()
        return made

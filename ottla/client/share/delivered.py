"""Records that were acquired: what a fetch brought of a partition, and what the user has of it and says of it.

`Acquired` turns a response into records, batch by batch; `Delivered` is what the user has at the moment and has to
acknowledge. Promises: a record is delivered only if it was acquired, with its delivery count; acquired offsets without
a record are acknowledged as gaps; a batch that is damaged is rejected as a whole, and the user is told. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ottla.client.errors import CorruptRecord, IllegalState
from ottla.client.share.acknowledgements import GAP, Acknowledgements, AcknowledgeType
from ottla.client.share.session import IdPartition
from ottla.errors import KafkaError
from ottla.records import HEADER_SIZE, Batch, RawRecord, batches, decode_records
from ottla.types import Buffer, TopicPartition
from ottla.wire.messages.share_fetch import AcquiredRecords

NOT_THERE = "The record cannot be acknowledged."


class Delivered:
    """What the user has of one partition."""

    __slots__ = ("acks", "key", "node_id", "records", "renewed", "renewing", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, key: IdPartition, node_id: int) -> None:
        self.topic_partition = topic_partition
        self.key = key
        self.node_id = node_id
        """The broker that gave them, and takes the acknowledgements."""
        self.records: dict[int, RawRecord] = {}
        self.acks: dict[int, int] = {}
        self.renewing: dict[int, RawRecord] = {}
        """Renewals that are with the broker."""
        self.renewed: dict[int, RawRecord] = {}
        """Renewals that the broker has granted: delivered again with the next poll."""

    def acknowledge(self, offset: int, kind: AcknowledgeType) -> None:
        if offset not in self.records and offset not in self.acks:
            raise IllegalState(NOT_THERE)
        self.acks[offset] = kind

    def acknowledge_all(self, kind: AcknowledgeType) -> None:
        for offset in self.records:
            self.acks.setdefault(offset, kind)

    @property
    def is_acknowledged(self) -> bool:
        return all(offset in self.acks for offset in self.records)

    @property
    def has_renewals(self) -> bool:
        return bool(self.renewing or self.renewed)

    @property
    def is_empty(self) -> bool:
        return not (self.records or self.acks or self.renewing or self.renewed)

    def take_acks(self) -> Acknowledgements:
        """What is to be told to the broker; the user does not have these records any more."""
        acks, self.acks = self.acks, {}
        for offset, kind in acks.items():
            record = self.records.pop(offset, None)
            if kind == AcknowledgeType.RENEW and record is not None:
                self.renewing[offset] = record
        return Acknowledgements(acks)

    def on_told(self, acks: Acknowledgements, error: KafkaError | None) -> None:
        """The broker has answered these: what it has renewed is the user's again."""
        for offset, kind in acks.types.items():
            record = self.renewing.pop(offset, None)
            if record is not None and kind == AcknowledgeType.RENEW and error is None:
                self.renewed[offset] = record

    def take_renewed(self) -> list[RawRecord]:
        renewed, self.renewed = self.renewed, {}
        self.records.update(renewed)
        return list(renewed.values())


class Acquired:
    """What one fetch brought of one partition, given out batch by batch."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        key: IdPartition,
        node_id: int,
        data: Buffer | None,
        acquired: Sequence[AcquiredRecords],
        *,
        check_crcs: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.key = key
        self.node_id = node_id
        self._ranges = sorted(acquired, key=lambda one: one.first_offset)
        self._check_crcs = check_crcs
        self._batches = batches(data) if data else iter(())
        self._done_to = self._ranges[0].first_offset if self._ranges else 0
        """Acquired offsets before this one are delivered, or acknowledged as gaps."""
        self.is_drained = not self._ranges
        self.error: CorruptRecord | None = None
        """What the user has to be told after the records before it."""

    def take(self, limit: int, into: Delivered) -> list[RawRecord]:
        """At least `limit` records, whole batches, or all that are left; and the acknowledgements that they need."""
        taken: list[RawRecord] = []
        while len(taken) < limit and not self.is_drained:
            batch = self._next_batch(into)
            if batch is None:
                self._gaps(into, self._ranges[-1].last_offset + 1)
                self.is_drained = True
                break
            if batch.is_control:
                self._gaps(into, batch.next_offset)
                continue
            try:
                records = self._decode(batch)
            except KafkaError as error:
                self._reject(into, batch)
                self.error = self._corrupt(batch.base_offset, str(error))
                break
            for record in records:
                self._gaps(into, record.offset)
                self._done_to = record.offset + 1
                into.records[record.offset] = record
            taken += records
        return taken

    def _next_batch(self, into: Delivered) -> Batch | None:
        """The next batch with anything acquired in it."""
        last_offset = self._ranges[-1].last_offset
        while True:
            try:
                batch = next(self._batches, None)
            except KafkaError as error:
                # What lies behind cannot be told apart: it is all rejected, as Kafka does with a batch it cannot read.
                self._acknowledge(into, last_offset + 1, AcknowledgeType.REJECT)
                self.is_drained = True
                self.error = self._corrupt(self._done_to, str(error))
                return None
            if batch is None or batch.base_offset > last_offset:
                return None
            if batch.next_offset > self._done_to and any(self._overlaps(batch)):
                return batch

    def _overlaps(self, batch: Batch) -> Iterator[AcquiredRecords]:
        for one in self._ranges:
            if one.first_offset <= batch.last_offset and one.last_offset >= batch.base_offset:
                yield one

    def _decode(self, batch: Batch) -> list[RawRecord]:
        if self._check_crcs:
            batch.ensure_valid()
        payload = batch.payload() if batch.is_compressed else batch.data[HEADER_SIZE:]
        append_time = batch.max_timestamp if batch.timestamp_type else None
        epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        topic, partition = self.topic_partition
        found: list[RawRecord] = []
        for one in self._overlaps(batch):
            # A batch of which parts were delivered before has ranges of different counts: it is decoded for each.
            records = decode_records(
                payload, batch.record_count, batch.base_offset, batch.base_timestamp, append_time, topic, partition,
                epoch, max(one.first_offset, self._done_to), one.delivery_count,
            )  # fmt: skip
            found += records if one.last_offset >= batch.last_offset else _up_to(records, one.last_offset)
        return found

    def _gaps(self, into: Delivered, end_offset: int) -> None:
        self._acknowledge(into, end_offset, GAP)

    def _reject(self, into: Delivered, batch: Batch) -> None:
        self._gaps(into, batch.base_offset)
        self._acknowledge(into, batch.next_offset, AcknowledgeType.REJECT)

    def _acknowledge(self, into: Delivered, end_offset: int, kind: int) -> None:
        """Everything acquired from where this stands to `end_offset` is of this kind."""
        if end_offset <= self._done_to:
            return
        for one in self._ranges:
            for offset in range(max(one.first_offset, self._done_to), min(one.last_offset + 1, end_offset)):
                into.acks[offset] = kind
        self._done_to = end_offset

    def _corrupt(self, offset: int, why: str) -> CorruptRecord:
        return CorruptRecord(
            self.topic_partition,
            offset,
            f"Record batch for partition {self.topic_partition} at offset {offset} is invalid and was rejected: {why}",
        )


def _up_to(records: list[RawRecord], last_offset: int) -> list[RawRecord]:
    return [record for record in records if record.offset <= last_offset]

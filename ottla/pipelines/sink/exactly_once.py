"""Exactly once: every task of a micro-batch writes to partitions of its own in one transaction, and one commit ends it.

`plan` (once a micro-batch) opens the transaction, `write` (each attempt of each task) fills it, `commit` (once) checks
and ends it, `abort` drops it. README.md beside this file says why the result is exact. Knows nothing of Spark: what a
task is, `Task` tells.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from ottla.errors import KafkaError, UnsupportedVersion
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink import memory
from ottla.pipelines.sink.earlier import Earlier, find_earlier
from ottla.pipelines.sink.link import Link, link_to
from ottla.pipelines.sink.options import ForgottenBatch, SinkOptions
from ottla.pipelines.sink.reading import Line
from ottla.pipelines.sink.rows import RowShape
from ottla.pipelines.sink.sending import Conflict, Outgoing, Sender
from ottla.pipelines.sink.transaction import (
    OFFSETS_KEPT_MS_MIN,
    Transaction,
    begin,
    last_committed,
    offsets_kept_ms,
    reason,
)
from ottla.records import HEADER_SIZE, Codec, TimestampType, assemble_batch, compress, encode_attributes
from ottla.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.columnar import EncodedSection

log = logging.getLogger(__name__)

SECTION_BYTES_MAX = 512 * 1024
"""Large, because a partition has one batch under way; well under what a topic allows for one (`max.message.bytes`)."""
REQUEST_OVERHEAD = 1024
SEQUENCE_MAX = 0x7FFF_FFFF
_LEVELS = {"gzip": "compression_gzip_level", "lz4": "compression_lz4_level", "zstd": "compression_zstd_level"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What the planner of a micro-batch hands to all of its tasks."""

    transaction: Transaction
    committed: tuple[memory.Committed, ...]
    begun_ms: int
    """The time of rows that should say theirs and do not: one for all attempts, whose rows are the same."""

    def is_written(self, task: Task) -> bool:
        """Whether the batch was committed before, by a driver that could not tell any more."""
        return task.batch_id is not None and memory.is_written(
            self.committed,
            task.batch_id,
            task.query_id,
            group=self.transaction.transactional_id,
            address_name=task.address_name,
        )

    def remembers(self, task: Task) -> bool:
        """Whether any batch of the query is remembered. If so, every later one that was committed is as well."""
        names = (*memory.query_names(task.query_id), task.address_name)
        return any(one.query_id in names for one in self.committed)


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt of one task."""

    index: int
    attempt: int
    """0, and one more with each time that Spark tries the task again, or a second time beside the first."""
    batch_id: int | None = None
    """The micro-batch; None in a batch job."""
    query_id: str = ""
    address_name: str = ""
    """The query's name before it was called by its id, where that was made of its checkpoint's address."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a task has to say to the committer."""

    transaction: Transaction
    counts: dict[TopicPartition, int] = field(default_factory=dict)
    """The records that each partition has got, all attempts together."""
    query_id: str = ""
    is_skipped: bool = False
    """The batch was written before, and so nothing was now."""


# Planning


def plan(options: SinkOptions) -> Plan:
    """Open the transaction of a micro-batch; an earlier try of it, if there was one, is over from here on."""
    assert options.transactional_id is not None, "exactly-once has a name for its transactions"
    link = link_to(options)
    try:
        return link.run(_plan(link, options.transactional_id, options.transaction_timeout_ms))
    except KafkaError as error:
        raise PipelineError(f"no transaction could be begun as {options.transactional_id}: {reason(error)}") from error


async def _plan(link: Link, transactional_id: str, timeout_ms: int) -> Plan:
    transaction = await begin(link, transactional_id, timeout_ms)
    # In this order: the end of an earlier transaction is part of beginning one, and with it its offset is final.
    committed = tuple(await last_committed(link, transactional_id))
    return Plan(transaction, committed, link.world.clock.now_ms())


# Writing


def write(
    options: SinkOptions, shape: RowShape, planned: Plan, task: Task, handed: Iterator[pa.RecordBatch]
) -> Written:
    """Write one task's rows; they are in the log, in the open transaction, when this returns."""
    rows = iter(handed)
    first = next((batch for batch in rows if batch.num_rows), None)
    if first is None:
        return Written(planned.transaction, query_id=task.query_id)
    try:
        if planned.is_written(task) or _is_to_be_skipped(options, planned, task, shape.planned_ms(first)):
            for _ in rows:
                pass
            return Written(planned.transaction, query_id=task.query_id, is_skipped=True)
        return _TaskWriter(link_to(options), shape, planned, task).write(chain([first], rows))
    except KafkaError as error:
        raise PipelineError(f"the rows of task {task.index} were not written: {reason(error)}") from error


def _is_to_be_skipped(options: SinkOptions, planned: Plan, task: Task, planned_ms: int | None) -> bool:
    """Whether the option says so, of a batch that may have been committed and forgotten.

    A commit comes after Spark's planning, and brokers keep its offset for some time. So a batch that was planned more
    recently was not committed if nothing is remembered of it. Of an older one nobody can tell.
    """
    if task.batch_id is None or planned_ms is None or planned.remembers(task):
        return False
    age_ms = planned.begun_ms - planned_ms
    if age_ms <= OFFSETS_KEPT_MS_MIN:
        return False
    link = link_to(options)
    group = planned.transaction.transactional_id
    if age_ms <= link.run(offsets_kept_ms(link, group)):
        return False
    if options.forgotten_batch is ForgottenBatch.FAIL:
        raise PipelineError(
            f"micro-batch {task.batch_id} was planned {_span(age_ms)} ago, and whether it is written already cannot be "
            f"told any more: the group {group}, which held the number of the last batch that is, has expired "
            "(offsets.retention.minutes). Look whether the topic has its rows, and start the query once with the "
            "option forgottenBatch=skip if it has, or forgottenBatch=write if it has not"
        )
    return options.forgotten_batch is ForgottenBatch.SKIP


def _span(duration_ms: int) -> str:
    hours = duration_ms // (60 * 60 * 1000)
    return (
        f"{hours // 24} days" if hours >= 48 else f"{hours} hours" if hours >= 2 else f"{duration_ms // 60_000} minutes"
    )


class _TaskWriter:
    """One attempt: rows to batches with sequence numbers."""

    def __init__(self, link: Link, shape: RowShape, planned: Plan, task: Task) -> None:
        self._link = link
        self._shape = shape
        self._transaction = planned.transaction
        self._task = task
        self._sender = Sender(link, self._transaction, has_timestamps=shape.has_timestamps)
        self._now_ms = planned.begun_ms if shape.has_timestamps else link.world.clock.now_ms()
        self._next: dict[TopicPartition, int] = {}
        """The next sequence number of each partition, which is the count of its records too."""
        self._earlier: dict[TopicPartition, Earlier] = {}
        config = link.config
        self._codec = Codec.of_name(config.compression_type)
        level = _LEVELS.get(config.compression_type)
        self._level: int | None = None if level is None else getattr(config, level)
        self._section_max = min(SECTION_BYTES_MAX, config.max_request_size - REQUEST_OVERHEAD) - HEADER_SIZE

    def write(self, handed: Iterator[pa.RecordBatch]) -> Written:
        try:
            for topic, batch in self._shape.batches(handed):
                self._put(topic, batch)
            for earlier in self._earlier.values():
                earlier.finish()
            self._link.run(self._sender.drain())
        except BaseException:
            self._link.run(self._sender.settle())
            raise
        return Written(self._transaction, dict(self._next), self._task.query_id)

    def _put(self, topic: str, batch: pa.RecordBatch) -> None:
        from ottla.client.columnar import ArrowRows

        partition_count = self._link.run(self._link.topic(topic)).partition_count
        # Rows that say nothing of their partition all go to one that no other task's such rows go to; another one
        # with each micro-batch.
        keyless = [(self._task.index + (self._task.batch_id or 0)) % partition_count]
        try:
            if self._task.attempt > 0:
                batch = self._without_written(topic, batch, partition_count, keyless)
            rows = ArrowRows(batch, now_ms=self._now_ms)
            sections = list(rows.sections(partition_count, size_max=self._section_max, keyless=keyless))
        except ValueError as error:
            raise PipelineError(f"rows for {topic} cannot be written: {error}") from None
        self._link.run(self._sender.put([self._outgoing(topic, section) for section in sections]))

    def _outgoing(self, topic: str, section: EncodedSection) -> Outgoing:
        partition = TopicPartition(topic, section.partition)
        sequence = self._next.get(partition, 0)
        count = section.record_count
        self._check_place(partition)
        if sequence + count > SEQUENCE_MAX:
            raise PipelineError(
                f"{partition} gets more than {SEQUENCE_MAX} records in one micro-batch: make it smaller"
            )
        self._next[partition] = sequence + count
        payload = section.section
        if self._codec is not Codec.NONE:
            payload = compress(self._codec, payload, self._level)
        data = assemble_batch(
            payload,
            base_offset=0,
            last_offset_delta=count - 1,
            leader_epoch=-1,
            attributes=encode_attributes(
                self._codec,
                TimestampType.CREATE_TIME,
                is_transactional=True,
                is_control=False,
                has_delete_horizon=False,
            ),
            base_timestamp=section.base_timestamp,
            max_timestamp=section.max_timestamp,
            producer_id=self._transaction.producer_id,
            producer_epoch=self._transaction.epoch,
            base_sequence=sequence,
            record_count=count,
        )
        return Outgoing(partition, data, sequence, count)

    def _check_place(self, partition: TopicPartition) -> None:
        tasks = self._shape.tasks
        if tasks is not None and partition.partition % tasks != self._task.index:
            raise PipelineError(
                f"{partition} has rows in task {self._task.index}, where to_partitions did not put them: a later step "
                "divided the frame again. Call to_partitions as the last step"
            )

    def _without_written(
        self, topic: str, batch: pa.RecordBatch, partition_count: int, keyless: list[int]
    ) -> pa.RecordBatch:
        """The rows that no earlier attempt has written, with their partitions settled."""
        import pyarrow as pa

        from ottla.client.columnar import ArrowRows

        buffer = memoryview(ArrowRows(batch, now_ms=0).partitions(partition_count, keyless)).cast("B").cast("i")
        chosen = [TopicPartition(topic, index) for index in buffer]
        new = [partition for partition in dict.fromkeys(chosen) if partition not in self._next]
        if new:
            found = self._link.run(
                find_earlier(self._link, self._transaction, new, has_timestamps=self._shape.has_timestamps)
            )
            self._earlier.update(found)
            for partition in new:
                self._next[partition] = found[partition].next_sequence if partition in found else 0
        if not any(partition in self._earlier for partition in dict.fromkeys(chosen)):
            return batch
        keeps = [
            partition not in self._earlier or not self._earlier[partition].has(line)
            for partition, line in zip(chosen, _lines(batch, self._now_ms), strict=True)
        ]
        index = batch.schema.get_field_index("partition")
        settled = batch if index < 0 else batch.remove_column(index)
        settled = settled.append_column("partition", pa.array(buffer.tolist(), pa.int32()))
        return settled.filter(pa.array(keeps, pa.bool_()))


def _lines(batch: pa.RecordBatch, now_ms: int) -> Iterator[Line]:
    """The rows as they would be read back."""
    import pyarrow as pa

    from ottla.client.columnar.writer import times_ms

    def column(name: str) -> list[bytes | None]:
        index = batch.schema.get_field_index(name)
        return [None] * batch.num_rows if index < 0 else batch.column(index).cast(pa.binary()).to_pylist()

    index = batch.schema.get_field_index("headers")
    headers = [None] * batch.num_rows if index < 0 else batch.column(index).to_pylist()
    times = times_ms(batch, now_ms)
    for key, value, pairs, time_ms in zip(column("key"), column("value"), headers, times, strict=True):
        yield key, value, tuple(tuple(pair.values()) for pair in pairs or ()), time_ms


# Ending


def commit(options: SinkOptions, written: Sequence[Written], batch_id: int | None) -> None:
    """End the transaction with everything that the tasks wrote, and the batch's id with it.

    Raises, with the transaction aborted, when the tasks were in each other's way.
    """
    kept = [one for one in written if not one.is_skipped]
    if not any(one.counts for one in kept):
        return
    link = link_to(options)
    transaction = kept[0].transaction
    try:
        link.run(_commit(link, kept, batch_id))
    except PipelineError:
        abort(options, written)
        raise
    except KafkaError as error:
        raise PipelineError(
            f"the transaction {transaction.transactional_id} could not be committed: {reason(error)}"
        ) from error


async def _commit(link: Link, written: Sequence[Written], batch_id: int | None) -> None:
    transaction = written[0].transaction
    counts: dict[TopicPartition, int] = {}
    for one in written:
        assert one.transaction == transaction, "the tasks of a micro-batch have one plan"
        for partition, count in one.counts.items():
            if partition in counts:
                raise Conflict(partition, "two tasks have rows for it")
            counts[partition] = count
    if batch_id is None:
        await _check(link, transaction, counts)
    else:
        place = TopicPartition(min(partition.topic for partition in counts), 0)
        await asyncio.gather(
            _check(link, transaction, counts),
            transaction.commit_batch_id(link, batch_id, written[0].query_id, place),
        )
    await transaction.commit(link)


async def _check(link: Link, transaction: Transaction, counts: dict[TopicPartition, int]) -> None:
    """Each partition has as many records of this transaction as its task has counted."""
    try:
        told = await link.producers(counts)
    except UnsupportedVersion:
        return  # Kafka before 2.8 cannot be asked; what the tasks were told has to do
    for partition, count in counts.items():
        found = [
            state.last_sequence + 1
            for state in told[partition]
            if state.producer_id == transaction.producer_id and state.producer_epoch == transaction.epoch
        ]
        if found != [count]:
            raise Conflict(partition, f"it has {found[0] if found else 0} records of this micro-batch and not {count}")


def abort(options: SinkOptions, written: Sequence[Written]) -> None:
    """Drop what was written. Where that cannot be done now, the next plan does it, or the transaction's time-out."""
    opened = next((one.transaction for one in written if not one.is_skipped), None)
    if opened is None:
        return
    link = link_to(options)
    try:
        link.run(opened.abort(link, options.transaction_timeout_ms))
    except KafkaError as error:
        log.warning("[Sink %s] The transaction was not aborted: %s", opened.transactional_id, reason(error))

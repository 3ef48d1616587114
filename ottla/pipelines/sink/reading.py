"""What a transaction has written so far, read back while it is open: whole batches of one partition.

For the two cases in which a task has to know: an earlier attempt has written a part of its rows, and a batch that was
sent may not be the one that is there. Reads `read_uncommitted`, since the transaction is open.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from ottla.client.network import Build
from ottla.errors import KafkaError, RequestTimedOut, error_class
from ottla.pipelines.sink.link import Link
from ottla.pipelines.sink.transaction import Transaction
from ottla.records import Batch, TimestampType, batches
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

FETCH_KEY = 1
TOPIC_ID_VERSION = 13
FETCH_BYTES = 4 * 1024 * 1024
WAIT_MS = 100

Line = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int | None]
"""What makes two records the same: key, value and headers, and the time where the rows say it."""


async def own_batches(
    link: Link, transaction: Transaction, partition: TopicPartition, *, offset: int, last_sequence: int
) -> AsyncGenerator[Batch, None]:
    """The transaction's batches of the partition from `offset` on, up to the one that ends with `last_sequence`.

    Batches above the high watermark are waited for; `RequestTimedOut` when they do not come.
    """
    deadline = link.deadline()
    while True:
        data = await _fetch(link, partition, offset)
        for batch in batches(data):
            offset = batch.next_offset
            if batch.producer_id != transaction.producer_id or batch.producer_epoch != transaction.epoch:
                continue
            if batch.is_control:
                continue
            batch.ensure_valid()
            yield batch
            if batch.last_sequence >= last_sequence:
                return
        if deadline.has_passed:
            raise RequestTimedOut(f"{partition} has not shown the records up to sequence {last_sequence}")


def lines(batch: Batch, *, has_timestamps: bool) -> list[Line]:
    """The records of a batch, with their times if these are the rows' own."""
    return [
        (
            _bytes(key),
            _bytes(value),
            tuple((name, _bytes(content)) for name, content in headers),
            time_ms if has_timestamps else None,
        )
        for _, time_ms, key, value, headers in batch.rows()
    ]


def keeps_timestamps(batch: Batch) -> bool:
    """Whether the records have the times that they were sent with, and not the log's."""
    return batch.timestamp_type is TimestampType.CREATE_TIME


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


async def _fetch(link: Link, partition: TopicPartition, offset: int) -> bytes:
    async def once() -> bytes:
        try:
            ((node_id, _),) = link.by_leader([partition]).items()
            return await _fetch_once(link, node_id, partition, offset)
        except KafkaError as error:
            if error.retriable:
                await link.refresh()
            raise

    await link.topic(partition.topic)
    return await link.persist(once)


async def _fetch_once(link: Link, node_id: int, partition: TopicPartition, offset: int) -> bytes:
    topic_id = link.metadata.cluster.topics[partition.topic].topic_id
    wanted = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)

    def make(version: int) -> FetchRequest:
        topic = FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=[wanted])
        return FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=[topic])

    version_max = TOPIC_ID_VERSION - 1 if topic_id == ZERO_UUID else 0x7FFF
    response = await link.network.send(node_id, Build(FETCH_KEY, make, version_min=4, version_max=version_max))
    if response.error_code:
        raise error_class(response.error_code)(str(partition))
    (told,) = response.responses[0].partitions
    if told.error_code:
        raise error_class(told.error_code)(str(partition))
    return bytes(told.records or b"")

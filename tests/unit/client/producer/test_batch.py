"""`ottla/client/producer/batch.py`: a batch that came encoded, with room for its header in front."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.producer.batch import ProducerBatch
from ottla.records import HEADER_SIZE, Batch, Codec, append_record, batches
from ottla.types import TopicPartition
from ottla.world.locks import Mutex, new_mutex

VALUES = [b"value %d" % number * 10 for number in range(20)]


class Owner:
    def __init__(self) -> None:
        self.mutex: Mutex = new_mutex()

    def promise(self) -> Any:
        pytest.fail("nobody waits")

    def check_may_block(self) -> None:
        pytest.fail("nobody waits")


def came_whole() -> tuple[ProducerBatch, bytearray]:
    section = bytearray()
    for index, value in enumerate(VALUES):
        append_record(section, index, 0, None, value, ())
    whole = bytearray(HEADER_SIZE) + section
    batch = ProducerBatch(
        Owner(), TopicPartition("t", 0), size_max=0, charged_bytes=len(whole), base_timestamp=5, created_ms=0
    )
    batch.set_whole(whole, len(VALUES), 9)
    return batch, whole


def read(batch: ProducerBatch) -> Batch:
    [found] = batches(batch.records())
    found.ensure_valid()
    return found


def values(found: Batch) -> list[bytes | None]:
    return [record.value for record in found.records()]


def test_the_header_is_written_where_the_records_are() -> None:
    batch, whole = came_whole()
    assert batch.size == len(whole)
    batch.seal(Codec.NONE, None)
    batch.set_producer(77, 1, 100, is_transactional=False)
    assert batch.size == len(whole)
    assert batch.records() is whole
    found = read(batch)
    assert (found.producer_id, found.base_sequence, found.record_count) == (77, 100, len(VALUES))
    assert (found.base_timestamp, found.max_timestamp) == (5, 9)
    assert values(found) == VALUES


def test_bytes_that_may_still_be_on_their_way_do_not_change_with_the_producer() -> None:
    """The first attempt may lie half sent in a connection when the sequence is assigned anew."""
    batch, _ = came_whole()
    batch.seal(Codec.NONE, None)
    batch.set_producer(77, 1, 100, is_transactional=False)
    sent = batch.records()
    before = bytes(sent)
    batch.reset_producer(77, 2, 0)
    found = read(batch)
    assert bytes(sent) == before
    assert (found.producer_epoch, found.base_sequence) == (2, 0)
    assert values(found) == VALUES


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD], ids=lambda codec: codec.label)
def test_it_is_compressed_like_any_other(codec: Codec) -> None:
    batch, whole = came_whole()
    batch.seal(codec, None)
    found = read(batch)
    assert found.codec is codec
    assert found.size == batch.size < len(whole)
    assert batch.ratio == (batch.size - HEADER_SIZE) / (len(whole) - HEADER_SIZE)
    assert values(found) == VALUES


def test_it_is_split_like_any_other() -> None:
    batch, whole = came_whole()
    batch.seal(Codec.NONE, None)
    batch.set_producer(77, 1, 100, is_transactional=False)
    parts = batch.split(len(whole) // 3)
    for part in parts:
        part.seal(Codec.NONE, None)
    found = [read(part) for part in parts]
    assert [one.base_sequence for one in found] == [100 + sum(p.count for p in parts[:i]) for i in range(len(parts))]
    assert [value for one in found for value in values(one)] == VALUES


def test_once_it_is_done_it_holds_no_records() -> None:
    batch, whole = came_whole()
    batch.seal(Codec.NONE, None)
    batch.records()
    batch.complete(0, -1)
    whole.append(0)  # a buffer that somebody still views could not grow
    assert batch.size == HEADER_SIZE

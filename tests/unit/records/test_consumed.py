"""`ConsumerRecord`, and `decode_records` that makes them, compiled and plain."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
from hypothesis import given, settings

from ottla.errors import InvalidRecord
from ottla.records import Batch, Codec, Row, TimestampType, build_batch, stamp_append_time
from ottla.records.consumed import ConsumerRecord
from ottla.types import TopicPartition
from tests.unit.records import twins
from tests.unit.records.samples import ROWS, mutations, only, row_lists, sample


@pytest.fixture(scope="module", params=["native", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    return twins.named(request.param)


def decode(build: Any, batch: Batch, start_offset: int = 0, **changes: int) -> Any:
    append_time = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    return build.decode_records(
        batch.payload(),
        changes.get("count", batch.record_count),
        changes.get("base_offset", batch.base_offset),
        batch.base_timestamp,
        append_time,
        "orders",
        3,
        batch.leader_epoch,
        start_offset,
    )


def record_of(row: Row, timestamp_type: TimestampType = TimestampType.CREATE_TIME) -> Any:
    offset, timestamp, key, value, headers = row
    return ConsumerRecord(
        topic="orders",
        partition=3,
        offset=offset,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=3,
        serialized_key_size=-1 if key is None else len(key),
        serialized_value_size=-1 if value is None else len(value),
    )


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_the_records_are_those_that_were_written(build: Any, codec: Codec) -> None:
    records = decode(build, only(sample(codec)))
    assert records == [record_of(row) for row in ROWS]
    assert all(type(record) is ConsumerRecord for record in records)


@settings(deadline=None)
@given(row_lists())
def test_any_records_come_back(build: Any, rows: list[Row]) -> None:
    records = decode(build, only(build_batch(rows, leader_epoch=3)))
    assert records == [record_of(row) for row in rows]


def test_append_time_stands_for_every_records_own(build: Any) -> None:
    data = bytearray(sample())
    stamp_append_time(data, 0, len(data), 1_800_000_000_000)
    records = decode(build, only(data))
    assert {(record.timestamp, record.timestamp_type) for record in records} == {
        (1_800_000_000_000, TimestampType.LOG_APPEND_TIME)
    }


def test_records_before_the_start_are_left_out(build: Any) -> None:
    batch = only(sample())
    assert [record.offset for record in decode(build, batch, start_offset=4)] == [4, 5, 6]
    assert decode(build, batch, start_offset=7) == []
    assert len(decode(build, batch, start_offset=-1)) == len(ROWS)


def test_offsets_wrap_as_javas_do(build: Any) -> None:
    records = decode(build, only(sample()), start_offset=-(2**63), base_offset=2**63 - 3)
    assert [record.offset for record in records][:5] == [2**63 - 3, 2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1]


def test_share_groups_records_have_a_delivery_count(build: Any) -> None:
    section = only(sample()).payload()
    records = build.decode_records(section, len(ROWS), 0, 0, None, "orders", 0, None, 0, 2)
    assert {(record.delivery_count, record.leader_epoch) for record in records} == {(2, None)}
    assert decode(build, only(sample()))[0].delivery_count is None


def test_any_buffer_is_a_section(build: Any) -> None:
    section = only(sample()).payload()
    arguments = (len(ROWS), 0, 0, None, "orders", 0, None, 0)
    expected = build.decode_records(section, *arguments)
    assert build.decode_records(bytearray(section), *arguments) == expected
    assert build.decode_records(memoryview(b"x" + section)[1:], *arguments) == expected


def test_no_records_are_an_empty_list(build: Any) -> None:
    assert build.decode_records(b"", 0, 0, 0, None, "orders", 0, None, 0) == []


@pytest.mark.parametrize("count", [-1, 0x7FFFFFFF, len(ROWS) - 1, len(ROWS) + 1])
def test_a_count_that_lies_is_refused(build: Any, count: int) -> None:
    with pytest.raises(InvalidRecord):
        decode(build, only(sample()), count=count)


def test_every_truncation_of_a_section_is_refused(build: Any) -> None:
    section = only(sample()).payload()
    for cut in range(len(section)):
        with pytest.raises(InvalidRecord):
            build.decode_records(section[:cut], len(ROWS), 0, 0, None, "orders", 0, None, 0)


def test_both_builds_say_the_same_of_damaged_sections() -> None:
    native = twins.native()
    refused = 0
    for data in mutations(sample(), count=3000, seed=4):
        batch = only(data)
        header = (batch.record_count, batch.base_offset, batch.base_timestamp)
        arguments = (data[61:], *header, None, "orders", 0, None, -(2**63))
        try:
            expected = twins.PLAIN.decode_records(*arguments)
        except InvalidRecord:
            refused += 1
            with pytest.raises(InvalidRecord):
                native.decode_records(*arguments)
        else:
            assert native.decode_records(*arguments) == expected
    assert 100 < refused < 2900


@pytest.mark.parametrize("arguments", [(), (b"", 1), (None, 0, 0, 0, None, "t", 0, None, 0), ("", 0, *[0] * 7)])
def test_what_is_no_section_is_refused(build: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        build.decode_records(*arguments)


def test_the_content_of_a_record_can_be_replaced(build: Any) -> None:
    record = decode(build, only(sample()))[0]
    changed = build.with_content(record, "key", {"a": [1]})
    assert type(changed) is ConsumerRecord
    assert (changed.key, changed.value) == ("key", {"a": [1]})
    assert (record.key, record.value) == (b"key", b"value")
    assert changed == record._replace(key="key", value={"a": [1]})
    assert (changed.serialized_key_size, changed.serialized_value_size) == (3, 5)


def test_a_replaced_content_that_leads_back_to_its_record_is_collected(build: Any) -> None:
    class Content(dict[str, Any]):
        pass

    gone: list[str] = []

    class Witness:
        def __del__(self) -> None:
            gone.append("gone")

    content = Content(witness=Witness())
    content["record"] = build.with_content(decode(build, only(sample()))[0], None, content)
    del content
    gc.collect()
    assert gone == ["gone"]


def test_a_record_behaves_as_a_value(build: Any) -> None:
    first, second = decode(build, only(sample())), decode(build, only(sample()))
    assert first == second
    assert {*first} == {*second}
    assert [hash(record) for record in first] == [hash(record_of(row)) for row in ROWS]
    assert first[0] != first[1]
    assert pickle.loads(pickle.dumps(first)) == first
    assert copy.deepcopy(first[0]) == first[0]
    assert first[0].topic_partition == TopicPartition("orders", 3)
    with pytest.raises(AttributeError):
        first[0].offset = 17
    assert repr(first[0]).startswith("ConsumerRecord(topic='orders', partition=3, offset=0, timestamp=1700000000000")
    match first[0]:
        case ConsumerRecord(topic="orders", value=value):
            assert value == b"value"
        case _:
            pytest.fail("a record matches by its fields")
    match first[0]:
        case ConsumerRecord(topic, partition, offset):
            assert (topic, partition, offset) == ("orders", 3, 0)


def test_the_last_header_of_a_name_is_the_one_that_counts(build: Any) -> None:
    record = decode(build, only(sample()))[5]
    assert record.header("větev") == b"\x00\xff"
    assert record.header("name") is None
    assert record.header("no such") is None


def test_a_headers_name_that_is_not_utf8_shows_replacement_characters(build: Any) -> None:
    section = bytearray()
    twins.PLAIN.append_record(section, 0, 0, None, None, (("name", b"x"),))
    broken = bytes(section).replace(b"name", b"n\xff\xc3e")
    (record,) = build.decode_records(broken, 1, 0, 0, None, "orders", 0, None, 0)
    assert record.headers == (("n��e", b"x"),)

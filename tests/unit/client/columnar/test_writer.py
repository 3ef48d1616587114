"""`ottla/client/columnar/writer.py`: Arrow record batches become sections of records, each row where it belongs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.columnar import ArrowRows, by_topic, to_record_batch
from ottla.records import Row, partition_of
from ottla.records.decode import decode_rows
from ottla.types import TopicPartition
from tests.unit.records.samples import ROWS, only, sample

NOW = 1_800_000_000_000


def written(rows: ArrowRows, partition_count: int = 1, **options: Any) -> dict[int, list[Row]]:
    """The records of each partition, with offsets as if each began at 0."""
    found: dict[int, list[Row]] = {}
    for section in rows.sections(partition_count, **{"size_max": 1_000_000, **options}):
        records = found.setdefault(section.partition, [])
        decoded = decode_rows(bytes(section.section), section.record_count, len(records), section.base_timestamp, None)
        assert section.max_timestamp == max(row[1] for row in decoded)
        assert section.base_timestamp == decoded[0][1]
        records += decoded
    return found


def test_what_was_read_is_written_again() -> None:
    batch = to_record_batch([(TopicPartition("t", 0), [(only(sample()), 0)])])
    rows = [tuple(row._replace(timestamp=NOW if row.timestamp == -1 else row.timestamp)) for row in ROWS]
    assert written(ArrowRows(batch, now_ms=NOW)) == {0: rows}


def test_a_slice_is_written_as_what_it_is() -> None:
    batch = to_record_batch([(TopicPartition("t", 0), [(only(sample()), 0), (only(sample()), 0)])])
    whole = written(ArrowRows(batch, now_ms=NOW))[0]
    for start, length in ((3, 5), (5, 1), (9, 5), (0, 14)):
        found = written(ArrowRows(batch.slice(start, length), now_ms=NOW))[0]
        assert [row[1:] for row in found] == [row[1:] for row in whole[start : start + length]]


def test_text_and_wide_and_fixed_and_repeated_bytes_are_bytes() -> None:
    types = [
        pa.string(),
        pa.binary(),
        pa.large_string(),
        pa.large_binary(),
        pa.binary(1),
        pa.dictionary(pa.int8(), pa.string()),
        pa.string_view(),
        pa.binary_view(),
    ]
    for kind in types:
        column = pa.array(["a", None, "b"], pa.string()).cast(pa.binary() if kind == pa.binary(1) else kind).cast(kind)
        batch = pa.record_batch({"key": column, "value": column})
        keyed = written(ArrowRows(batch, now_ms=NOW), keyless=[0])
        assert [(row[2], row[3]) for row in keyed[0]] == [(b"a", b"a"), (None, None), (b"b", b"b")], kind


def test_timestamps_of_any_unit_are_milliseconds_and_null_is_now() -> None:
    moment = datetime(2026, 11, 16, 4, 5, 6, 789_999, tzinfo=UTC)
    milliseconds = int(moment.timestamp() * 1000)
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Prague"), pa.timestamp("ms", "UTC")):
        column = pa.array([moment, None], pa.timestamp("us", "UTC")).cast(kind, safe=False)
        batch = pa.record_batch({"timestamp": column, "value": [b"a", b"b"]})
        assert [row[1] for row in written(ArrowRows(batch, now_ms=NOW))[0]] == [milliseconds, NOW]
    batch = pa.record_batch({"timestamp": pa.array([5, None, 0], pa.int32())})
    assert [row[1] for row in written(ArrowRows(batch, now_ms=NOW))[0]] == [5, NOW, 0]
    batch = pa.record_batch({"value": [b"a"], "timestamp": pa.nulls(1)})
    assert [row[1] for row in written(ArrowRows(batch, now_ms=NOW))[0]] == [NOW]


def test_headers_are_lists_or_maps() -> None:
    rows = [[("a", b"1"), ("a", None)], None, []]
    pairs = [None if row is None else [{"key": name, "value": value} for name, value in row] for row in rows]
    struct = pa.struct([("key", pa.string()), ("value", pa.binary())])
    for column in (
        pa.array(rows, pa.map_(pa.string(), pa.binary())),
        pa.array(pairs, pa.list_(struct)),
        pa.array(pairs, pa.large_list(struct)),
    ):
        batch = pa.record_batch({"headers": column})
        for part, expected in ((batch, rows), (batch.slice(1), rows[1:])):
            found = [row[4] for row in written(ArrowRows(part, now_ms=NOW))[0]]
            assert found == [tuple(row or ()) for row in expected]


def test_rows_go_to_the_partition_they_name_else_by_key_else_in_turns() -> None:
    keys = [b"key %d" % number if number % 3 else None for number in range(60)]
    partitions = [7 if number % 10 == 0 else None for number in range(60)]
    batch = pa.record_batch(
        {"key": keys, "partition": pa.array(partitions, pa.int64()), "value": [b"%d" % number for number in range(60)]}
    )
    found = written(ArrowRows(batch, now_ms=NOW), 11, keyless=[2, 5])
    expected: dict[int, list[bytes]] = {}
    keyless = [number for number in range(60) if keys[number] is None and partitions[number] is None]
    for number in range(60):
        key = keys[number]
        if partitions[number] is not None:
            partition = 7
        elif key is not None:
            partition = partition_of(key, 11)
        else:
            partition = 2 if keyless.index(number) < len(keyless) / 2 else 5
        expected.setdefault(partition, []).append(b"%d" % number)
    assert {partition: [row[3] for row in rows] for partition, rows in found.items()} == expected


def test_rows_without_keys_are_dealt_to_all_partitions_in_runs() -> None:
    batch = pa.record_batch({"value": [b"%d" % number for number in range(10)]})
    found = written(ArrowRows(batch, now_ms=NOW), 3)
    assert [[row[3] for row in found[partition]] for partition in range(3)] == [
        [b"0", b"1", b"2", b"3"],
        [b"4", b"5", b"6"],
        [b"7", b"8", b"9"],
    ]


def test_sections_are_as_large_as_they_may_be() -> None:
    batch = pa.record_batch({"value": [bytes(100)] * 10 + [bytes(1000)] + [bytes(100)] * 3})
    sections = list(ArrowRows(batch, now_ms=NOW).sections(1, size_max=350))
    assert [section.record_count for section in sections] == [3, 3, 3, 1, 1, 3]
    assert [len(section.section) > 350 for section in sections] == [False, False, False, False, True, False]


def test_no_rows_are_no_sections() -> None:
    batch = pa.record_batch({"key": pa.array([], pa.binary()), "timestamp": pa.array([], pa.timestamp("ms"))})
    rows = ArrowRows(batch, now_ms=NOW)
    assert len(rows) == 0
    assert written(rows) == {}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"valeu": [b"x"]}, "records have no column 'valeu': there are topic"),
        ({"value": [1]}, "column 'value' is of type int64, and should be bytes or text"),
        ({"key": [[b"x"]]}, "column 'key' is of type list"),
        ({"headers": ["x"]}, "column 'headers' is of type string, and should be lists of structs"),
        ({"headers": [["x"]]}, "should be lists of structs"),
        ({"headers": [[{"key": 1, "value": b""}]]}, "column 'headers' is of type int64"),
        ({"timestamp": ["now"]}, "column 'timestamp' is of type string"),
        ({"timestamp": [4, -1]}, "row 1 has a timestamp before 1970, -1"),
        ({"partition": ["0"]}, "column 'partition' is of type string, and should be an integer"),
        ({"partition": [0, None, 4]}, "row 2 is for partition 4, and there are 4"),
        ({"partition": [0, -1]}, "row 1 is for partition -1, and there are 4"),
        ({"headers": [[{"key": None, "value": b""}]]}, "row 0 has a header whose name is null"),
        ({"headers": [[None]]}, "should be lists of structs"),
    ],
)
def test_what_cannot_be_records_is_refused(columns: dict[str, Any], message: str) -> None:
    if columns.get("headers") == [[{"key": None, "value": b""}]]:
        struct = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns = {"headers": pa.array(columns["headers"], pa.list_(struct))}
    with pytest.raises(ValueError, match=message):
        written(ArrowRows(pa.record_batch(columns), now_ms=NOW), 4)


def test_a_null_header_is_refused() -> None:
    struct = pa.struct([("key", pa.string()), ("value", pa.binary())])
    batch = pa.record_batch({"headers": pa.array([[None]], pa.list_(struct))})
    with pytest.raises(ValueError, match="a header is null"):
        ArrowRows(batch, now_ms=NOW)


def test_rows_are_told_apart_by_topic() -> None:
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        batch = pa.record_batch(
            {"topic": pa.array(["a", "b", "a"], pa.string()).cast(kind), "value": [b"0", b"1", b"2"]}
        )
        parts = by_topic(batch)
        assert [(topic, part.to_pydict()) for topic, part in parts] == [
            ("a", {"value": [b"0", b"2"]}),
            ("b", {"value": [b"1"]}),
        ]
        assert [topic for topic, _ in by_topic(batch.slice(1, 1))] == ["b"]
    with pytest.raises(ValueError, match="which topic"):
        by_topic(pa.record_batch({"value": [b"x"]}))
    with pytest.raises(ValueError, match="row 1 has no topic"):
        by_topic(pa.record_batch({"topic": ["a", None]}))

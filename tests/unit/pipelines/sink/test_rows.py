"""Which frames are records, and what is made of what Spark hands over."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sink import rows
from ottla.pipelines.sink.rows import PLACED_AT, TASKS, row_shape
from ottla.pipelines.sink.writers import stream_writer, writer

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def schema(**fields: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])  # type: ignore[arg-type]


def test_the_columns_of_a_record_are_taken_and_others_left_out() -> None:
    frame = schema(id=LongType(), Key=BinaryType(), value=StringType(), headers=HEADERS, partition=IntegerType())
    shape = row_shape(frame, "t")
    assert shape.columns == ("Key", "value", "headers", "partition")
    assert shape.names == ("key", "value", "headers", "partition")
    assert row_shape(schema(value=VarcharType(9)), "t").names == ("value",)


def test_a_column_timestamp_is_taken_only_where_it_is_asked_for() -> None:
    """A frame that was read from a topic has one, and Spark's connector passes over it."""
    frame = schema(value=StringType(), timestamp=TimestampType())
    assert not row_shape(frame, "t").has_timestamps
    assert row_shape(frame, "t", includes_timestamp=True).names == ("value", "timestamp")
    milliseconds = schema(value=StringType(), Timestamp=LongType())
    assert row_shape(milliseconds, "t", includes_timestamp=True).columns == ("value", "Timestamp")
    with pytest.raises(PipelineError, match="the column timestamp is missing, and the option includeTimestamp is true"):
        row_shape(schema(value=StringType()), "t", includes_timestamp=True)
    text = schema(value=StringType(), timestamp=StringType())
    with pytest.raises(PipelineError, match="timestamp is of type string, and must be timestamp or bigint"):
        row_shape(text, "t", includes_timestamp=True)


def test_the_option_topic_wins_over_the_column() -> None:
    frame = schema(value=StringType(), topic=StringType())
    assert row_shape(frame, "t") == rows.RowShape(("value",), ("value",), "t")
    assert row_shape(frame, None).names == ("value", "topic")


@pytest.mark.parametrize(
    ("frame", "topic", "says"),
    [
        (schema(key=StringType()), "t", "the column value is missing"),
        (schema(value=StringType()), None, "set the option topic, or give the frame a column topic"),
        (schema(value=LongType()), "t", "the column value is of type bigint, and must be string or binary"),
        (schema(value=StringType(), key=LongType()), "t", "the column key is of type bigint"),
        (schema(value=StringType(), partition=LongType()), "t", "partition is of type bigint, and must be int"),
        (schema(value=StringType(), topic=BinaryType()), None, "topic is of type binary, and must be string"),
        (schema(value=StringType(), headers=StringType()), "t", "headers is of type string, and must be array"),
        (schema(value=StringType(), Value=StringType()), "t", "the column value is there twice"),
    ],
)  # fmt: skip
def test_a_frame_that_cannot_be_written_is_refused_with_the_column(
    frame: StructType, topic: str | None, says: str
) -> None:
    with pytest.raises(PipelineError, match=says):
        row_shape(frame, topic)


def test_small_batches_are_gathered_and_large_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "GATHERED_BYTES", 100)
    handed = [pa.record_batch({"value": ["x" * 30] * count}) for count in (1, 0, 1, 1, 9, 1)]
    got = list(rows.gathered(iter(handed)))
    assert [batch.num_rows for batch in got] == [3, 9, 1]


def test_rows_are_given_by_topic_and_one_without_is_refused() -> None:
    shape = row_shape(schema(topic=StringType(), value=StringType()), None)
    batch = pa.record_batch({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})
    got = {topic: part.column("value").to_pylist() for topic, part in shape.batches(iter([batch]))}
    assert got == {"a": ["1", "3"], "b": ["2"]}
    missing = pa.record_batch({"topic": pa.array([None], pa.string()), "value": ["1"]})
    with pytest.raises(PipelineError, match="the column topic is null"):
        list(shape.batches(iter([missing])))


STREAM = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t", "transactionalId": "x"}


def test_an_exactly_once_writer_takes_no_frame_that_does_not_say_that_its_rows_are_placed() -> None:
    """By its columns alone: no row has been seen when it is refused."""
    frame = schema(key=StringType(), value=StringType())
    for refused in (lambda: stream_writer(STREAM, frame), lambda: writer(STREAM | {"delivery": "exactly-once"}, frame)):
        with pytest.raises(PipelineError, match=r"write_stream\(frame, topic, \.\.\.\).*to_partitions\(.*") as told:
            refused()
        assert "\n" not in str(told.value)
    assert stream_writer(STREAM | {"delivery": "at-least-once"}, frame).shape.placed_at is None
    assert writer(STREAM, frame).shape.placed_at is None


def test_the_column_of_a_placed_frame_is_no_part_of_its_records() -> None:
    frame = schema(value=StringType()).add(PLACED_AT, TimestampType(), metadata={TASKS: 3})
    shape = stream_writer(STREAM, frame).shape
    assert (shape.names, shape.placed_at, shape.tasks) == (("value",), PLACED_AT, 3)
    times = pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    assert shape.planned_ms(pa.record_batch([["v"], times], names=["value", PLACED_AT])) == 1_700_000_000_123
    vouched = schema(value=StringType(), ottla_placed_at=TimestampType())
    assert stream_writer(STREAM, vouched).shape.tasks is None
    with pytest.raises(PipelineError, match="ottla_placed_at is there twice"):
        row_shape(vouched.add(PLACED_AT, TimestampType()), "t")
    with pytest.raises(PipelineError, match="ottla_placed_at must be a timestamp"):
        row_shape(schema(value=StringType(), ottla_placed_at=LongType()), "t")

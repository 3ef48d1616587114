"""Processors on a real Spark: the same records and changes as in memory, across restarts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from ottla.pipelines.streams import StreamsBuilder, TopologyTestDriver
from ottla.pipelines.streams.processor import Change, Context, Processor, ProcessorOperator, Record, TimeMode
from ottla.pipelines.streams.stores import StoreKind, StoreSpec, serde
from ottla.pipelines.streams.stores.memory import MemoryProcessor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LONG = serde("long")
T0_MS = 1_700_000_000_000


class Visits(Processor):
    """Counts a user's visits and pages, forgets pages after 10 s, and says goodbye 5 s after the first visit."""

    stores = (
        StoreSpec(name="visits.total", value=LONG),
        StoreSpec(name="pages", kind=StoreKind.MAP, value=LONG, ttl_ms=10_000),
    )

    def process(self, record: Record, context: Context) -> None:
        total, pages = context.value("visits.total"), context.map("pages")
        seen = total.get()
        if seen is None:
            context.schedule(record.timestamp_ms + 5_000)
        total.put((seen or 0) + 1)
        pages.put(record.value, (pages.get(record.value) or 0) + 1)
        context.forward(record.key, f"{total.get()} visits, pages {dict(pages.items())}")

    def on_timer(self, key: Any, at_ms: int, context: Context) -> None:
        context.forward(key, f"goodbye after {context.value('visits.total').get()}")
        context.value("visits.total").delete()


OPERATOR = ProcessorOperator(processor=Visits(), key_type="STRING", value_type="STRING", time=TimeMode.EVENT)
RUNS = [
    [[("anna", "/", 0), ("ben", "/", 100), ("anna", "/shop", 200), ("anna", "/", 300)], [("cleo", "/", 6_000)]],
    [[("anna", "/", 7_000), ("ben", "/help", 7_100)], [("cleo", "/", 30_000)]],
]
"""Batches of each run; the second run starts from the first one's checkpoint."""
SCHEMA = "key STRING, value STRING, timestamp_ms BIGINT, offset BIGINT"


@dataclass
class Seen:
    """What a run gave."""

    forwarded: list[Record] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def add(self, made: tuple[list[Record], list[Change]]) -> None:
        self.forwarded += made[0]
        self.changes += made[1]


def on_spark(spark: SparkSession, directory: Path) -> Iterator[Seen]:
    source = directory / "input"
    source.mkdir()
    for run, batches in enumerate(RUNS):
        for number, batch in enumerate(batches):
            lines = [
                json.dumps({"key": key, "value": value, "timestamp_ms": T0_MS + at_ms, "offset": offset})
                for offset, (key, value, at_ms) in enumerate(batch)
            ]
            path = source / f"{run}-{number}.json"
            # Backwards: it is the offset that orders a key's records.
            path.write_text("\n".join(reversed(lines)))
            os.utime(path, (run * 10 + number, run * 10 + number))
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(source))
        records = files.selectExpr(
            "key", "value", "timestamp_millis(timestamp_ms) AS timestamp", "0 AS partition", "offset"
        )
        seen = Seen()

        def collect(frame: DataFrame, _: int, seen: Seen = seen) -> None:
            for row in frame.selectExpr("*", "unix_millis(timestamp) AS timestamp_ms").collect():
                if row.store is None:
                    seen.forwarded.append(Record(row.key, row.value, row.timestamp_ms))
                else:
                    value = None if row.store_value is None else bytes(row.store_value)
                    seen.changes.append(Change(row.store, bytes(row.store_key), value, row.timestamp_ms))

        query = (
            OPERATOR.transform(records)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .foreachBatch(collect)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        yield seen


def in_memory() -> Iterator[Seen]:
    """The same turns: a batch goes by the watermark of those before it; at a run's end time comes to the newest."""
    processor = MemoryProcessor(OPERATOR)
    now_ms = 0
    for batches in RUNS:
        seen = Seen()
        for batch in batches:
            for key in dict.fromkeys(key for key, _, _ in batch):
                records = [Record(key, value, T0_MS + at_ms) for one, value, at_ms in batch if one == key]
                seen.add(processor.process(key, records, now_ms=now_ms))
            seen.add(processor.advance(now_ms))
            now_ms = max(now_ms, *(T0_MS + at_ms for _, _, at_ms in batch))
        seen.add(processor.advance(now_ms))
        yield seen


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_a_processor_on_spark_does_what_it_does_in_memory_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    expected = list(in_memory())
    assert [record.value for record in expected[0].forwarded][-3:] == [
        "1 visits, pages {'/': 1}",
        "goodbye after 3",
        "goodbye after 1",
    ]
    assert Change("pages", b"\0\0\0\4anna/shop", None, T0_MS + 10_625) in expected[1].changes, "pages are forgotten"
    for found, wanted in zip(on_spark(spark, tmp_path), expected, strict=True):
        # Keys have no order among each other; a key's own records do.
        for key in {record.key for record in (*found.forwarded, *wanted.forwarded)}:
            assert [one for one in found.forwarded if one.key == key] == [
                one for one in wanted.forwarded if one.key == key
            ]
        assert last_by_key(found.changes) == last_by_key(wanted.changes)


class Echo(Processor):
    """Forwards each record, and has a timer fire at the time of the record of key `alarm`."""

    def process(self, record: Record, context: Context) -> None:
        context.forward(record.key, record.value)
        if record.key == "alarm":
            context.schedule(record.timestamp_ms)

    def on_timer(self, key: Any, at_ms: int, context: Context) -> None:
        context.forward(key, f"timer of {at_ms - T0_MS}")


def skewed_batches() -> list[list[tuple[str, str, int]]]:
    """41 records of a quiet topic, a few in each micro-batch, by producers whose clocks differ by up to 3 s.

    Among them are timestamp 0, records of the newest millisecond of the batch before, and one that is a day old.
    """
    skews_ms = (0, -3_000, -1_500, 0, -2_999)
    records = [(f"p{n % 5}", str(n), T0_MS + n * 100 + skews_ms[n % 5]) for n in range(36)]
    batches = [records[start : start + 9] for start in range(0, 36, 9)]
    newest = max(at for _, _, at in records)
    batches += [[("zero", "36", 0), ("p0", "37", newest)], [("p1", "38", newest)]]
    return [*batches, [("alarm", "39", newest - 86_400_000)], [("p2", "40", newest)]]


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_an_event_time_processor_drops_no_record_whatever_its_timestamp(spark: SparkSession) -> None:
    operator = ProcessorOperator(processor=Echo(), key_type="STRING", value_type="STRING", time=TimeMode.EVENT)
    builder = StreamsBuilder()
    builder.stream("skewed").process(operator).to("seen")
    batches = skewed_batches()
    with TopologyTestDriver(builder.build("skewed-clocks"), spark) as driver:
        topic, found = driver.input_topic("skewed"), driver.output_topic("seen")
        seen: list[Any] = []
        for batch in batches:
            for key, value, timestamp_ms in batch:
                topic.pipe_input(key, value, timestamp_ms)
            seen += [(one.key, one.value, one.timestamp_ms) for one in found.read_full_records()]
        [query] = driver._queries
        dropped = sum(
            operator["numRowsDroppedByWatermark"]
            for progress in query.recentProgress
            for operator in json.loads(progress.json)["stateOperators"]
        )
    sent = [record for batch in batches for record in batch]
    day_old = sent[39][2]
    assert dropped == 0
    assert seen.pop(40) == ("alarm", f"timer of {day_old - T0_MS}", day_old), "its time had passed: it fires at once"
    assert sorted(seen) == sorted(sent)
    assert len(sent) == 41


class Sorting(Processor):
    """Sends words to counting, numbers to adding and the rest to all, with where it found them among the headers."""

    def process(self, record: Record, context: Context) -> None:
        assert context.record_metadata is not None
        marked = record.with_headers(*record.headers, ("from", context.record_metadata.topic.encode()))
        if record.value == "lost":
            context.forward(marked, child="nowhere")
        elif record.value.isalpha():
            context.forward(marked.with_value(record.value.upper()), child="words")
        elif record.value.isdigit():
            context.forward(marked, child="numbers")
        else:
            context.forward(record.key, record.value, record.timestamp_ms + 1, headers=(("rest", None),))


@pytest.mark.timeout(600)  # Spark on a busy machine
def test_records_are_forwarded_with_headers_to_the_child_that_is_named(spark: SparkSession) -> None:
    """A child is a step of the processor's own query, a sink, or a step behind a topic between queries."""
    builder = StreamsBuilder()
    operator = ProcessorOperator(processor=Sorting(), key_type="STRING", value_type="STRING")
    sorted_out = builder.stream("mixed").process(operator)
    sorted_out.map_values("concat('<', value, '>')", name="words").to("words")
    sorted_out.to("all", name="all")
    sorted_out.group_by("value", name="numbers").count(name="many").to_stream().to("many")
    with TopologyTestDriver(builder.build("sorting"), spark) as driver:
        mixed = driver.input_topic("mixed")
        words, everything = driver.output_topic("words"), driver.output_topic("all")
        for at, value in enumerate(("one", "1", "1", "?")):
            mixed.pipe_input("k", value, at, headers=(("n", b"7"),) if at == 0 else ())
        found = [(one.value, one.headers, one.timestamp_ms) for one in words.read_full_records()]
        headers = (("n", b"7"), ("from", b"mixed"))
        assert found == [("<ONE>", headers, 0), ("<?>", (("rest", None),), 4)]
        assert [(one.value, one.headers) for one in everything.read_full_records()] == [("?", (("rest", None),))]
        assert driver.output_topic("many", value="long").read_to_map() == {"1": 2, "?": 1}
        mixed.pipe_input("k", "lost", 9)
        with pytest.raises(StreamingQueryException, match=r"Unknown child node nowhere: .* all, numbers, words"):
            driver.process()


def last_by_key(changes: list[Change]) -> dict[tuple[str, bytes], bytes | None]:
    """What a compacted changelog has in the end."""
    return {(change.store, change.key): change.value for change in changes}

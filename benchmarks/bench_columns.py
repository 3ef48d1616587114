"""The loops that touch every record, each compiled beside its twin in plain Python, and Arrow in and out around them.

CPU time a record, in batches of 150 records of a 10-byte key and 100 bytes of value, uncompressed. The copy of the 110
bytes is part of it. Where csrc is not compiled, the plain figure stands alone.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benchmarks import AtMost, Bench, Result, Unit, benchmark
from benchmarks.bench_records import RECORDS_PER_BATCH, fetched
from benchmarks.harness import Rival
from ottla.records import Batch, Codec, append, batches, columns, consumed, murmur
from ottla.types import TopicPartition

BATCHES = 70
PLAIN: Any = SimpleNamespace(
    append_record=append.append_record,
    murmur2=murmur.murmur2,
    decode_records=consumed.decode_records,
    with_content=consumed.with_content,
    ColumnBuilder=columns.ColumnBuilder,
    RowEncoder=columns.RowEncoder,
    group_rows=columns.group_rows,
)

Section = tuple[bytes, int, int, int, None]


def compiled() -> Any:
    """The compiled module, or None."""
    name = "ottla.records.native"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def beside_plain(bench: Bench, work: Callable[[Any], object], count: int, *, note: str = "") -> Result:
    """CPU seconds a record of one call of `work`, which handles `count` records, in each build."""

    def seconds(build: Any, times: int) -> float:
        def many() -> None:
            for _ in range(times):
                work(build)

        return bench.measure(many).best_cpu_s / (times * count)

    native = compiled()
    plain = seconds(PLAIN, 1)
    if native is None:
        return Result(plain, Unit.SECONDS, no_rival="csrc is not compiled here", note=note)
    return Result(seconds(native, bench.pick(50, 1)), Unit.SECONDS, Rival("plain Python", plain), note=note)


def sections(bench: Bench) -> tuple[list[Section], int]:
    """The records sections of a fetch, as `append` takes them, and how many records these are."""
    found: list[Section] = [
        (batch.payload(), batch.record_count, batch.base_offset, batch.base_timestamp, None)
        for batch in batches(fetched(Codec.NONE, bench.pick(BATCHES, 2)))
    ]
    return found, len(found) * RECORDS_PER_BATCH


def decoded(found: list[Section]) -> columns.Columns:
    builder = columns.ColumnBuilder()
    for section in found:
        builder.append(*section)
    return builder.finish()


def encoder(build: Any, found: columns.Columns) -> Any:
    assert found.key is not None
    assert found.value is not None
    return build.RowEncoder(
        found.row_count,
        found.timestamp,
        (found.key.validity, 0, found.key.offsets, found.key.data),
        (found.value.validity, 0, found.value.offsets, found.value.data),
        None,
    )


@benchmark("columns", "append a record", bar=AtMost(150e-9, Unit.SECONDS))
def append_record(bench: Bench) -> Result:
    """Appending a record to a batch in the making, one call each, as a producer does."""
    rows = [row for batch in batches(fetched(Codec.NONE, 1)) for row in batch.rows()]

    def work(build: Any) -> None:
        append_one = build.append_record
        for _ in range(20):
            section = bytearray()
            for index, (_, timestamp, key, value, headers) in enumerate(rows):
                append_one(section, index, timestamp - 1_700_000_000_000, key, value, headers, 1 << 20)

    return beside_plain(bench, work, 20 * len(rows), note="the loop around it included")


@benchmark("columns", "decode to consumer records", bar=AtMost(300e-9, Unit.SECONDS))
def decode_records(bench: Bench) -> Result:
    """A batch's records as a list of ConsumerRecord."""
    found, count = sections(bench)

    def work(build: Any) -> None:
        decode = build.decode_records
        for section in found:
            decode(*section, "topic", 3, 7, 0)

    return beside_plain(bench, work, count)


@benchmark("columns", "decode to columns", bar=AtMost(35e-9, Unit.SECONDS))
def decode_columns(bench: Bench) -> Result:
    """All of a fetch into Arrow's buffers: offsets, timestamps, keys, values, headers."""
    found, count = sections(bench)

    def work(build: Any) -> object:
        builder = build.ColumnBuilder()
        for section in found:
            builder.append(*section)
        return builder.finish()

    return beside_plain(bench, work, count)


@benchmark("columns", "decode one column")
def decode_one_column(bench: Bench) -> Result:
    """The same, offsets only: what is not asked for is stepped over."""
    found, count = sections(bench)

    def work(build: Any) -> object:
        builder = build.ColumnBuilder(timestamp=False, key=False, value=False, headers=False)
        for section in found:
            builder.append(*section)
        return builder.finish()

    return beside_plain(bench, work, count)


@benchmark("columns", "encode columns", bar=AtMost(40e-9, Unit.SECONDS))
def encode_columns(bench: Bench) -> Result:
    """Arrow's buffers to sections of 16 KiB, in the order of the rows."""
    rows = decoded(sections(bench)[0])

    def work(build: Any) -> None:
        encode = encoder(build, rows).encode
        start = 0
        while start < rows.row_count:
            _, start, _, _ = encode(None, start, rows.row_count, 16 * 1024)

    return beside_plain(bench, work, rows.row_count)


@benchmark("columns", "partition and group rows")
def partition_rows(bench: Bench) -> Result:
    """murmur2 of every key, and the rows sorted by partition."""
    rows = decoded(sections(bench)[0])

    def work(build: Any) -> None:
        build.group_rows(encoder(build, rows).partitions(12), 12)

    return beside_plain(bench, work, rows.row_count)


@benchmark("columns", "fetch to pyarrow.RecordBatch")
def fetch_to_arrow(bench: Bench) -> Result:
    """A fetch to a RecordBatch with its seven columns, checksums compared, beside a list of ConsumerRecords."""
    from ottla.client.columnar import to_record_batch
    from ottla.records import decode_records as decode

    data = fetched(Codec.NONE, bench.pick(10 * BATCHES, 2))
    partition = TopicPartition("topic", 3)
    chosen: list[tuple[Batch, int]] = [(batch, 0) for batch in batches(data)]
    count = len(chosen) * RECORDS_PER_BATCH

    def as_arrow() -> None:
        assert to_record_batch([(partition, chosen)]).num_rows == count

    def as_records() -> None:
        for batch, start in chosen:
            batch.ensure_valid()
            header = (batch.record_count, batch.base_offset, batch.base_timestamp)
            decode(batch.data[61:], *header, None, "topic", 3, 7, start)

    return bench.compare(as_arrow, as_records).each(count, rival="decode_records", cpu=True)


@benchmark("columns", "pyarrow.RecordBatch to batches")
def arrow_to_sections(bench: Bench) -> Result:
    """A RecordBatch to sections of 16 KiB by key over 12 partitions."""
    from ottla.client.columnar import ArrowRows, to_record_batch

    data = fetched(Codec.NONE, bench.pick(10 * BATCHES, 2))
    partition = TopicPartition("topic", 3)
    rows = to_record_batch([(partition, [(batch, 0) for batch in batches(data)])], ["timestamp", "key", "value"])

    def work() -> None:
        assert sum(section.record_count for section in ArrowRows(rows, now_ms=0).sections(12, size_max=16_384))

    return Result(bench.measure(work).best_cpu_s / rows.num_rows, Unit.SECONDS)


@benchmark("columns", "JSON values to typed columns")
def json_values(bench: Bench) -> Result:
    """JSON objects of three fields to a struct column, beside `json.loads` of each."""
    import json

    import pyarrow as pa

    from ottla.client.columnar import JsonValues

    texts = [
        b'{"id":%d,"name":"customer %d","total":%d.5}' % (number, number, number)
        for number in range(bench.pick(100_000, 50))
    ]
    values = pa.array(texts, pa.binary())
    decoder = JsonValues(pa.schema([("id", pa.int64()), ("name", pa.string()), ("total", pa.float64())]))
    comparison = bench.compare(lambda: decoder.decode(values), lambda: [json.loads(text) for text in texts], rounds=3)
    return comparison.each(len(texts), rival="json.loads", cpu=True)

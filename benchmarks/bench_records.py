"""Record batches: decoding at each depth and building, beside the two Python clients that have readers of their own.

The sample is what a producer with `linger.ms` sends: batches of 150 records of a 10-byte key and 100 bytes of value.
Every side checks each batch's checksum and has every record's offset, timestamp, key, value and headers in hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks import AtLeast, Bench, Result, Unit, benchmark
from ottla.records import Codec, RecordBatchBuilder, Row, batches, build_batch, decode

RECORDS_PER_BATCH = 150
TIMESTAMP = 1_700_000_000_000
WORDS = [b"josef", b"milena", b"felice", b"ottla", b"gregor", b"franz", b"max", b"karl", b"frieda", b"amalia"]


def rows(count: int, offset: int = 0) -> list[Row]:
    """Records with text that compresses about as well as logs and events do."""
    random = Random(count)
    return [
        (
            offset + index,
            TIMESTAMP + index // 8,
            b"key-%06d" % random.randrange(10**6),
            b" ".join(random.choices(WORDS, k=25))[:80] + random.randbytes(20),
            (),
        )
        for index in range(count)
    ]


def fetched(codec: Codec, count: int) -> bytes:
    """What a fetch brings: `count` batches, one after another."""
    return b"".join(
        build_batch(rows(RECORDS_PER_BATCH, number * RECORDS_PER_BATCH), codec=codec) for number in range(count)
    )


def which_build() -> str:
    return "plain Python" if decode.__file__.endswith(".py") else "compiled decode.py"


def read_ours(data: bytes) -> int:
    seen = 0
    for batch in batches(data):
        batch.ensure_valid()
        for _offset, _timestamp, _key, _value, _headers in batch.rows():
            seen += 1
    return seen


def read_theirs(memory_records: Callable[[bytes], Any], data: bytes) -> int:
    """kafka-python and aiokafka have the same face here."""
    seen = 0
    walk = memory_records(data)
    while (batch := walk.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            _fields = (record.offset, record.timestamp, record.key, record.value, record.headers)
            seen += 1
    return seen


def aiokafka_reader() -> Callable[[bytes], Any]:
    from aiokafka.record.memory_records import MemoryRecords

    assert "_crecords" in MemoryRecords.__module__, "the rival is aiokafka's compiled reader"
    return MemoryRecords  # type: ignore[no-any-return]


def kafka_python_reader() -> Callable[[bytes], Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its own, on import
        from kafka.record.memory_records import MemoryRecords
    return MemoryRecords  # type: ignore[no-any-return]


def decode_against(
    bench: Bench, codec: Codec, reader: Callable[[bytes], Any], name: str, *, batch_count: int
) -> Result:
    data = fetched(codec, bench.pick(batch_count, 2))
    count = read_ours(data)
    assert count == read_theirs(reader, data), "both sides read the same records"
    comparison = bench.compare(lambda: read_ours(data), lambda: read_theirs(reader, data))
    return comparison.rate(count, Unit.PER_SECOND, rival=name, note=which_build())


@benchmark("records", "decode, beside aiokafka", bar=AtLeast(1))
def decode_aiokafka(bench: Bench) -> Result:
    """Records decoded a second, uncompressed, checksums checked, every field in hand; aiokafka's reader is Cython."""
    return decode_against(bench, Codec.NONE, aiokafka_reader(), "aiokafka", batch_count=300)


@benchmark("records", "decode lz4, beside aiokafka", bar=AtLeast(1))
def decode_lz4_aiokafka(bench: Bench) -> Result:
    """The same, compressed with lz4."""
    return decode_against(bench, Codec.LZ4, aiokafka_reader(), "aiokafka", batch_count=300)


@benchmark("records", "decode, beside kafka-python", bar=AtLeast(1))
def decode_kafka_python(bench: Bench) -> Result:
    """The same uncompressed batches; kafka-python's reader and its checksum are Python."""
    return decode_against(bench, Codec.NONE, kafka_python_reader(), "kafka-python", batch_count=20)


@benchmark("records", "decode lz4, beside kafka-python", bar=AtLeast(1))
def decode_lz4_kafka_python(bench: Bench) -> Result:
    """The same, compressed with lz4."""
    return decode_against(bench, Codec.LZ4, kafka_python_reader(), "kafka-python", batch_count=20)


@benchmark("records", "decode to named records")
def decode_named(bench: Bench) -> Result:
    """Records a second with names for their fields, beside aiokafka's objects."""
    data = fetched(Codec.NONE, bench.pick(200, 2))
    reader = aiokafka_reader()

    def ours() -> int:
        seen = 0
        for batch in batches(data):
            batch.ensure_valid()
            for record in batch.records():
                _fields = (record.offset, record.timestamp, record.key, record.value, record.headers)
                seen += 1
        return seen

    comparison = bench.compare(ours, lambda: read_theirs(reader, data))
    return comparison.rate(ours(), Unit.PER_SECOND, rival="aiokafka", note=which_build())


@benchmark("records", "scan")
def scan(bench: Bench) -> Result:
    """Records scanned a second: offsets, timestamps, keys and extents, as the cleaner wants them."""
    data = fetched(Codec.NONE, bench.pick(200, 2))

    def work() -> int:
        return sum(len(batch.scan()) for batch in batches(data))

    return Result(work() / bench.measure(work).best_s, Unit.PER_SECOND, note=which_build())


@benchmark("records", "headers only")
def headers(bench: Bench) -> Result:
    """Batches a second at header depth, which is the broker's path, beside aiokafka's walk of the same bytes."""
    count = bench.pick(20_000, 20)
    data = build_batch(rows(1)) * count
    reader = aiokafka_reader()

    def ours() -> int:
        last = 0
        for batch in batches(data):
            last = batch.last_offset + batch.producer_id
        return last

    def theirs() -> int:
        last = 0
        walk = reader(data)
        while (batch := walk.next_batch()) is not None:
            last = batch.next_offset - 1 + batch.producer_id
        return last

    assert ours() == theirs()
    return bench.compare(ours, theirs).rate(count, Unit.PER_SECOND, rival="aiokafka")


@benchmark("records", "build")
def build(bench: Bench) -> Result:
    """Records appended to batches a second, uncompressed, beside aiokafka's builder, which is Cython."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    sample = rows(RECORDS_PER_BATCH)
    count = bench.pick(100, 1)

    def ours() -> bytes:
        data = b""
        for _ in range(count):
            builder = RecordBatchBuilder()
            for _offset, timestamp, key, value, headers in sample:
                builder.append(timestamp, key, value, headers)
            data = builder.build()
        return data

    def theirs() -> bytes:
        data = b""
        for _ in range(count):
            builder = DefaultRecordBatchBuilder(
                magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
                batch_size=1 << 20,
            )  # fmt: skip
            for offset, timestamp, key, value, headers in sample:
                builder.append(offset, timestamp, key, value, list(headers))
            data = bytes(builder.build())
        return data

    assert ours()[21:] == theirs()[21:], "both sides build the same batch"
    comparison = bench.compare(ours, theirs)
    return comparison.rate(count * RECORDS_PER_BATCH, Unit.PER_SECOND, rival="aiokafka")

"""Kafka's own classes read what we write, write what we write, and refuse what we refuse.

`KafkaRecords.java` puts the questions to them; one process answers all questions of a test.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import cramjam
import lz4.frame
import pytest

from ottla.errors import CorruptMessage, InvalidRecord, KafkaError, MessageTooLarge, UnsupportedCompressionType
from ottla.records import (
    LEVELS,
    Codec,
    ControlType,
    EndTransactionMarker,
    Record,
    Row,
    TimestampType,
    batches,
    build_batch,
    compress,
    control_batch,
    decompress,
    empty_batch,
    end_transaction_batch,
    filter_batch,
    recompress,
    stamp_append_time,
)
from tests.support.kafka import run_java
from tests.unit.records.samples import ROWS, mutations, only, sample, sealed

pytestmark = pytest.mark.java

QUESTIONER = Path(__file__).with_name("KafkaRecords.java")


def ask(questions: list[str], directory: Path) -> list[str]:
    """Kafka's answers, in the order of the questions."""
    file = directory / "questions"
    file.write_text("\n".join(questions) + "\n")
    run = run_java(str(QUESTIONER), [str(file)])
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == len(questions), run.stderr
    return answers


def hexed(value: bytes | None) -> str:
    return "null" if value is None else value.hex()


def written(rows: list[Record] | list[Row]) -> list[str]:
    """Records as the questions and the answers spell them."""
    return [
        f"{offset},{timestamp},{hexed(key)},{hexed(value)}"
        + "".join(f",{name.encode().hex()}={hexed(content)}" for name, content in headers)
        for offset, timestamp, key, value, headers in rows
    ]


def our_answer(data: bytes) -> str:
    """What `read` is answered with, from our side."""
    answer = ["ok"]
    for batch in batches(data):
        batch.ensure_valid()
        fields = (
            batch.base_offset, batch.last_offset, batch.leader_epoch, batch.max_timestamp, batch.producer_id,
            batch.producer_epoch, batch.base_sequence, batch.last_sequence, batch.codec.label,
            int(batch.timestamp_type), int(batch.is_transactional), int(batch.is_control),
            "none" if batch.delete_horizon_ms is None else batch.delete_horizon_ms,
        )  # fmt: skip
        answer.append("batch:" + ",".join(str(field) for field in fields))
        answer += (f"record:{record}" for record in written(batch.rows()))
    return " ".join(answer)


def append_time(data: bytes) -> bytes:
    stamped = bytearray(data)
    stamp_append_time(stamped, 0, len(stamped), 1800000000000)
    return bytes(stamped)


def our_batches() -> dict[str, bytes]:
    """Batches of every kind, as this package writes them."""
    made = {f"{codec.label} {level}": build_batch(ROWS, codec=codec, level=level, leader_epoch=3)
            for codec, (lowest, highest, default) in LEVELS.items()
            for level in sorted({lowest, highest, default, 4})}  # fmt: skip
    for codec in Codec:
        batch = only(sample(codec))
        made[codec.label] = sample(codec)
        made[f"{codec.label} append time"] = append_time(sample(codec))
        made[f"{codec.label} filtered"] = filter_batch(batch, batch.scan(), [1, 2, 5])
        made[f"{codec.label} horizon"] = filter_batch(batch, batch.scan(), [0, 2, 6], delete_horizon_ms=1234567)
        made[f"{codec.label} recompressed"] = recompress(
            batch, batch.scan(), Codec.ZSTD, base_offset=99, leader_epoch=1
        )
        many = [Record(n, 1700000000000 + n * 7, b"%d" % (n % 50), b"value %d" % n * 9) for n in range(3000)]
        made[f"{codec.label} many"] = build_batch(many, codec=codec)
    made["wide time"] = build_batch(
        [Record(n, timestamp, None, b"") for n, timestamp in enumerate((0, 2**63 - 1, -1, 2**40, 2**31))]
    )
    made["gaps"] = build_batch([Record(offset, 0, b"k", b"v") for offset in (7, 1000, 2**31 - 1)], base_offset=3)
    made["idempotent"] = build_batch(ROWS, producer_id=5, producer_epoch=2, base_sequence=2**31 - 3)
    made["transactional"] = build_batch(
        ROWS, producer_id=5, producer_epoch=2, base_sequence=0, is_transactional=True, codec=Codec.LZ4
    )
    made["empty"] = empty_batch(only(made["transactional"]))
    for kind in (ControlType.COMMIT, ControlType.ABORT):
        marker = EndTransactionMarker(kind, coordinator_epoch=4)
        made[kind.name] = end_transaction_batch(
            marker, producer_id=5, producer_epoch=2, timestamp=1700000000000, base_offset=12, leader_epoch=1
        )
    made["leader change"] = control_batch(ControlType.LEADER_CHANGE, b"any", timestamp=9, leader_epoch=1)
    made["several"] = made["zstd"] + made["empty"] + made["COMMIT"] + made["none"]
    made["cut off"] = made["lz4"] + made["gzip"][:-1]
    return made


def test_kafka_reads_every_kind_of_batch_that_we_write(tmp_path: Path) -> None:
    made = our_batches()
    answers = ask([f"read {data.hex()}" for data in made.values()], tmp_path)
    for (name, data), answer in zip(made.items(), answers, strict=True):
        assert answer == our_answer(data), name
        assert name == "empty" or "record:" in answer


def test_kafka_builds_the_same_bytes(tmp_path: Path) -> None:
    random = Random(21)
    questions, ours = [], []
    for _ in range(200):
        offset = random.randrange(2**40)
        rows: list[Row] = []
        for _ in range(random.randrange(1, 12)):
            timestamp = random.choice((random.randrange(-1, 2**63), 1700000000000 + random.randrange(10000)))
            key, value = (
                random.choice((None, b"", random.randbytes(random.randrange(100)), bytes(9000))) for _ in range(2)
            )
            names = random.sample(["", "a", "ž" * 40, "header"], random.randrange(3))
            rows.append((offset, timestamp, key, value, tuple((name, random.choice((None, b"v"))) for name in names)))
            offset += random.choice((1, 1, 1, 70, 100_000))
        producer_id = random.choice((-1, 77))
        is_transactional = producer_id > 0 and random.random() < 0.5
        epoch, sequence = (3, random.randrange(2**31)) if producer_id > 0 else (-1, -1)
        kind = random.choice(list(TimestampType))
        horizon = random.choice((None, 1650000000000))
        base_offset = rows[0][0] - random.choice((0, 5))
        fields = (
            base_offset, "none", kind.label, 1800000000000, producer_id, epoch, sequence, int(is_transactional), 0, 8,
            -1 if horizon is None else horizon,
        )  # fmt: skip
        questions.append(" ".join(["build", ",".join(map(str, fields)), *written(rows)]))
        ours.append(
            build_batch(
                rows,
                base_offset=base_offset,
                timestamp_type=kind,
                append_time_ms=1800000000000,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
                leader_epoch=8,
                delete_horizon_ms=horizon,
            )
        )
    answers = ask(questions, tmp_path)
    assert answers == [f"ok {data.hex()}" for data in ours]


def test_kafkas_cleaner_leaves_the_same_bytes(tmp_path: Path) -> None:
    """`MemoryRecords.filterTo` with random records retained: thinned, untouched, emptied, with a horizon or without."""
    random = Random(22)
    now, retention = 1750000000000, 86400000
    questions: list[str] = []
    ours: list[bytes] = []
    for _ in range(300):
        rows = random.sample(ROWS, random.randrange(1, len(ROWS)))
        rows = [row._replace(offset=10 + 3 * place) for place, row in enumerate(rows)]
        data = build_batch(
            rows,
            base_offset=random.choice((10, 4)),
            last_offset=random.choice((rows[-1].offset, 60)),
            producer_id=6,
            producer_epoch=0,
            base_sequence=3,
            is_transactional=random.random() < 0.3,
            leader_epoch=2,
            delete_horizon_ms=random.choice((None, None, 1600000000000)),
        )
        if random.random() < 0.3:
            data = append_time(data)
        batch = only(data)
        retained = [place for place in range(len(rows)) if random.random() < 0.7]
        questions.append(
            f"filter {data.hex()} {now} {retention} " + ",".join(str(rows[place].offset) for place in retained)
        )
        if not retained:
            ours.append(empty_batch(batch))
            continue
        has_tombstone = any(rows[place].value is None for place in retained)
        horizon = now + retention if has_tombstone else None
        ours.append(filter_batch(batch, batch.scan(), retained, delete_horizon_ms=horizon))
    answers = ask(questions, tmp_path)
    assert answers == [f"ok {data.hex()}" for data in ours]


def test_kafka_converts_a_batch_to_the_same_bytes(tmp_path: Path) -> None:
    """Into no codec, where the bytes are fixed, as `LogValidator` would for a topic with another `compression.type`."""
    questions, ours = [], []
    sources = [sample(codec) for codec in Codec]
    sources.append(build_batch([row._replace(offset=row.offset * 3) for row in ROWS], codec=Codec.GZIP))
    sources.append(sealed(build_batch(ROWS, delete_horizon_ms=5)))
    for data in sources:
        for kind in TimestampType:
            questions.append(f"convert {data.hex()} 5000,none,{kind.label},1800000000000,7")
            batch = only(data)
            made = recompress(
                batch, batch.scan(), Codec.NONE, base_offset=5000, leader_epoch=7, timestamp_type=kind,
                append_time_ms=1800000000000,
            )  # fmt: skip
            ours.append(made)
    answers = ask(questions, tmp_path)
    assert answers == [f"ok {data.hex()}" for data in ours]


REFUSALS = (CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedCompressionType)


def reading(data: bytes) -> str | KafkaError:
    try:
        return our_answer(data)
    except REFUSALS as error:
        return error


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_kafka_reads_and_refuses_the_same_damaged_batches(tmp_path: Path, codec: Codec) -> None:
    """Nothing that Kafka refuses is accepted; what both read is the same. Without a codec, they agree on every one."""
    damaged = [data for data in mutations(sample(codec), count=1200, seed=31) if only(data).last_offset_delta >= 0]
    answers = ask([f"read {data.hex()}" for data in damaged], tmp_path)
    stricter = 0
    for data, answer in zip(damaged, answers, strict=True):
        ours = reading(data)
        if answer.startswith("error"):
            assert isinstance(ours, KafkaError), (answer, data.hex())
        elif isinstance(ours, KafkaError):
            stricter += 1
        else:
            assert ours == answer, data.hex()
    assert stricter == 0 if codec is Codec.NONE else stricter <= 3
    assert sum(answer.startswith("error") for answer in answers) > 100
    assert sum(answer.startswith("ok") for answer in answers) > 20


def test_kafka_reads_and_refuses_the_same_streams(tmp_path: Path) -> None:
    text = b"the quick brown fox, " * 3000
    frame = compress(Codec.LZ4, text)
    snappy = compress(Codec.SNAPPY, text)
    streams: list[tuple[Codec, bytes]] = []
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        stream = compress(codec, text)
        streams += ((codec, data) for data in (
            stream, stream * 2, stream[:-1], stream[:-5], stream[: len(stream) // 2], stream + b"!", stream + bytes(20),
            compress(codec, b""), b"not a stream at all", b"",
        ))  # fmt: skip
    streams += [
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(text))),
        (Codec.SNAPPY, snappy[:8] + bytes(8) + snappy[16:]),
        (Codec.SNAPPY, snappy + snappy[:8] + bytes(8) + snappy[16:]),
        (Codec.LZ4, lz4.frame.compress(text, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB)),
        (Codec.LZ4, lz4.frame.compress(text, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX1MB)),
        (Codec.LZ4, lz4.frame.compress(text, block_linked=False, block_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(text, block_linked=False, content_checksum=True)),
        (Codec.LZ4, lz4.frame.compress(text, block_linked=False, store_size=True)),
        (Codec.LZ4, frame[:6] + b"\0" + frame[7:]),
        (Codec.ZSTD, b"\x50\x2a\x4d\x18\x04\0\0\0skip" + compress(Codec.ZSTD, text)),
    ]
    answers = ask([f"decompress {codec.label} {data.hex()}" for codec, data in streams], tmp_path)
    for (codec, data), answer in zip(streams, answers, strict=True):
        if answer.startswith("ok"):
            assert decompress(codec, data).hex() == answer.split(" ")[1], codec
        else:
            with pytest.raises(CorruptMessage):
                decompress(codec, data)


def test_kafkas_dump_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    """`DumpLogSegments` on a segment of ours: every record of every codec, deep, with its content."""
    segment = tmp_path / "00000000000000000000.log"
    records: list[Record] = []
    content = b""
    for codec in Codec:
        rows = [Record(len(records) + n, 1700000000000 + n, b"key%d" % n, b"%s %d" % (codec.label.encode(), n),
                       (("h", b"1"),)) for n in range(20)]  # fmt: skip
        content += build_batch(
            rows, codec=codec, producer_id=1, producer_epoch=0, base_sequence=len(records), is_transactional=True
        )
        records += rows
    end = EndTransactionMarker(ControlType.COMMIT, coordinator_epoch=3)
    content += end_transaction_batch(
        end, producer_id=1, producer_epoch=0, timestamp=1700000000099, base_offset=len(records)
    )
    segment.write_bytes(content)
    run = run_java(
        "org.apache.kafka.tools.DumpLogSegments",
        ["--files", str(segment), "--deep-iteration", "--print-data-log"],
    )
    assert run.returncode == 0, run.stderr
    assert "isvalid: false" not in run.stdout
    found = re.findall(r"offset: (\d+) CreateTime: (\d+) .* headerKeys: \[h\] key: (.*) payload: (.*)", run.stdout)
    assert found == [
        (str(r.offset), str(r.timestamp), (r.key or b"").decode(), (r.value or b"").decode()) for r in records
    ]
    assert len(re.findall("isvalid: true", run.stdout)) == len(list(batches(content)))
    assert re.search(r"endTxnMarker: COMMIT coordinatorEpoch: 3", run.stdout)

"""Batches that break one rule each, for a broker to refuse: every check that Kafka makes of a produced batch.

`cases` gives each a name and a function that makes it, given the time. `answer` sends one to a broker and tells what it
said, in a form that is the same for two brokers that agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.errors import error_class
from ottla.records import Codec, Record, build_batch, compress
from ottla.records.encode import encode_record
from ottla.records.varint import encode_varint
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.raw import RawClient
from tests.unit.records.samples import sealed

HOUR_MS = 3_600_000
PRODUCE_VERSION = 12

Batch = Callable[[int], bytes]
"""Makes the bytes, given the time."""


def rows(now_ms: int, *, key: bytes | None = b"k") -> list[Record]:
    return [Record(index, now_ms + index, key, b"value %d" % index) for index in range(3)]


def good(now_ms: int, codec: Codec = Codec.NONE) -> bytes:
    return build_batch(rows(now_ms), codec=codec)


def with_section(now_ms: int, section: bytes, codec: Codec, count: int) -> bytes:
    """A batch around these bytes, whatever they are: compressed, with a header that fits `count` records."""
    payload = section if codec is Codec.NONE else compress(codec, section)
    return sealed(
        good(now_ms)[:61] + payload,
        attributes=codec.value,
        last_offset_delta=count - 1,
        record_count=count,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
    )


def record(delta: int, *, key: bytes | None = b"k", timestamp_delta: int = 0) -> bytes:
    return encode_record(delta, timestamp_delta, key, b"value", ())


def framed(body: bytes, size: int | None = None) -> bytes:
    return encode_varint(len(body) if size is None else size) + body


THREE = record(0) + record(1) + record(2)
BODY = b"\0" + encode_varint(0) + encode_varint(0)
"""Attributes and deltas of a record: its key, value and headers follow."""


def section_cases() -> dict[str, tuple[bytes, int]]:
    """Records sections, and the count that the header claims."""
    text = encode_varint(1) + b"k" + encode_varint(1) + b"v"
    return {
        "as it should be": (THREE, 3),
        "one record less than the header says": (record(0) + record(1), 3),
        "one record more than the header says": (THREE, 2),
        "a byte left over": (THREE + b"\0", 3),
        "the last byte missing": (THREE[:-1], 3),
        "half of it missing": (THREE[: len(THREE) // 2], 3),
        "no records": (b"", 3),
        "offsets that leave one out": (record(0) + record(1) + record(3), 3),
        "offsets in reverse": (record(2) + record(1) + record(0), 3),
        "the same offset thrice": (record(0) * 3, 3),
        "an offset below the base": (record(-1) + record(0) + record(1), 3),
        "no key in one": (record(0) + record(1, key=None) + record(2), 3),
        "no key in any": (record(0, key=None) + record(1, key=None) + record(2, key=None), 3),
        "a record from tomorrow": (record(0) + record(1, timestamp_delta=24 * HOUR_MS) + record(2), 3),
        "a record from last year": (record(0) + record(1, timestamp_delta=-365 * 24 * HOUR_MS) + record(2), 3),
        "timestamps that are larger than the header's": (record(0, timestamp_delta=1000) + record(1) + record(2), 3),
        "a timestamp before time": (record(0, timestamp_delta=-(2**62)) + record(1) + record(2), 3),
        "a timestamp that wraps around": (record(0, timestamp_delta=2**63 - 1) + record(1) + record(2), 3),
        "a size that is too small": (framed(BODY + text + b"\0", 3), 1),
        "a size that is too large": (framed(BODY + text + b"\0", 90), 1),
        "a negative size": (framed(BODY + text + b"\0", -3), 1),
        "a size of five bytes and more": (b"\xff\xff\xff\xff\xff\x01" + BODY + text + b"\0", 1),
        "a key longer than the record": (framed(BODY + encode_varint(500) + b"k" + encode_varint(1) + b"v\0"), 1),
        "a value longer than the record": (framed(BODY + encode_varint(1) + b"k" + encode_varint(500) + b"v\0"), 1),
        "a negative number of headers": (framed(BODY + text + encode_varint(-1)), 1),
        "more headers than bytes": (framed(BODY + text + encode_varint(1000)), 1),
        "a header key of negative size": (framed(BODY + text + encode_varint(1) + encode_varint(-1) + b"\1"), 1),
        "a header value longer than the record": (
            framed(BODY + text + encode_varint(1) + encode_varint(1) + b"h" + encode_varint(300)),
            1,
        ),
        "a key size of five bytes and more": (framed(BODY + b"\xff\xff\xff\xff\xff\x01" + b"k" + text), 1),
        "a timestamp of eleven bytes": (framed(b"\0" + b"\xff" * 11 + b"\0" + text + b"\0"), 1),
    }


def header_cases() -> dict[str, Batch]:
    """A good batch with one field of its header changed, under a checksum that fits."""
    changes: dict[str, dict[str, int]] = {
        "a base offset": {"base_offset": 5},
        "a negative last offset": {"last_offset_delta": -1},
        "a last offset that does not fit the count": {"last_offset_delta": 3},
        "a negative count": {"record_count": -1},
        "a count of zero": {"record_count": 0},
        "the control bit": {"attributes": 0x20},
        "the transactional bit without an id": {"attributes": 0x10},
        "a delete horizon": {"attributes": 0x40},
        "bits that nobody knows": {"attributes": 0x1F00},
        "a codec that nobody knows": {"attributes": 5},
        "another codec that nobody knows": {"attributes": 7},
        "the append-time bit": {"attributes": 0x08},
        "the append-time bit and no timestamp": {"attributes": 0x08, "max_timestamp": -1},
        "a producer without a sequence": {"producer_id": 5, "producer_epoch": 0},
        "a sequence without a producer": {"base_sequence": 3},
        "a producer with a negative epoch": {"producer_id": 5, "base_sequence": 0},
        "a largest timestamp that is too small": {"max_timestamp": 5},
        "a largest timestamp that is too large": {"max_timestamp": 2**62},
        "no largest timestamp": {"max_timestamp": -1},
        "a leader epoch": {"leader_epoch": 7},
        "gzip that is none": {"attributes": 1},
        "snappy that is none": {"attributes": 2},
        "lz4 that is none": {"attributes": 3},
        "zstd that is none": {"attributes": 4},
    }
    cases: dict[str, Batch] = {name: partial(with_fields, fields) for name, fields in changes.items()}
    cases["a wrong checksum"] = lambda now_ms: good(now_ms)[:-1] + b"\0"
    cases["magic 1"] = lambda now_ms: sealed(good(now_ms), magic=1)
    cases["magic 3"] = lambda now_ms: sealed(good(now_ms), magic=3)
    cases["a magic below zero"] = lambda now_ms: sealed(good(now_ms), magic=-1)
    cases["two batches"] = lambda now_ms: good(now_ms) * 2
    cases["a batch and a part of one"] = lambda now_ms: good(now_ms) + good(now_ms)[:40]
    cases["a batch and some bytes"] = lambda now_ms: good(now_ms) + b"\0" * 30
    cases["a part of a batch"] = lambda now_ms: good(now_ms)[:80]
    cases["a part of a header"] = lambda now_ms: good(now_ms)[:30]
    cases["no bytes"] = lambda now_ms: b""
    cases["a length below a header's"] = lambda now_ms: sealed(good(now_ms), batch_length=30)
    cases["a length below any"] = lambda now_ms: sealed(good(now_ms), batch_length=5)
    cases["a negative length"] = lambda now_ms: sealed(good(now_ms), batch_length=-5)
    return cases


def cases() -> dict[str, Batch]:
    """All of them, the records sections in every codec."""
    found = header_cases()
    for codec in Codec:
        for name, (section, count) in section_cases().items():
            found[f"{codec.label}: {name}"] = partial(with_section, section=section, codec=codec, count=count)
        if codec is not Codec.NONE:
            found[f"{codec.label}: a stream that is cut off"] = partial(cut, codec=codec)
            found[f"{codec.label}: a stream with damage"] = partial(damaged, codec=codec)
            found[f"{codec.label}: a stream and bytes behind it"] = partial(with_rest, codec=codec)
            found[f"{codec.label}: no stream"] = partial(without_stream, codec=codec)
    return found


def with_fields(fields: dict[str, int], now_ms: int) -> bytes:
    return sealed(good(now_ms), **fields)


def with_rest(now_ms: int, codec: Codec) -> bytes:
    return sealed(good(now_ms, codec) + b"behind")


def without_stream(now_ms: int, codec: Codec) -> bytes:
    return sealed(good(now_ms, codec)[:61])


def cut(now_ms: int, codec: Codec) -> bytes:
    whole = build_batch([Record(index, now_ms, b"k", b"%d" % (index * 7919) * 9) for index in range(200)], codec=codec)
    return sealed(whole[: len(whole) * 2 // 3])


def damaged(now_ms: int, codec: Codec) -> bytes:
    whole = bytearray(good(now_ms, codec))
    whole[61] ^= 0xFF
    return sealed(whole)


def answer(client: RawClient, topic: str, data: bytes) -> dict[str, Any]:
    """What a broker says to the batch: all but the words of its messages."""
    request = ProduceRequest(
        None, -1, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(0, data)])]
    )
    response = client.send(request, PRODUCE_VERSION, ProduceResponse)
    ((one,),) = [topic.partition_responses for topic in response.responses]
    return {
        "error": "NONE" if one.error_code == 0 else error_class(one.error_code).__name__,
        "is appended": one.base_offset >= 0,
        "has append time": one.log_append_time_ms >= 0,
        "log start": one.log_start_offset,
        "records refused": [error.batch_index for error in one.record_errors],
    }

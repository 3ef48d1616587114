"""The compiled module gives back what it takes: references and memory, where it succeeds and where it refuses."""

from __future__ import annotations

import gc
import struct
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import InvalidRecord
from tests.unit.records import twins
from tests.unit.records.samples import ROWS, only, sample

SECTION = only(sample()).payload()
KEY = bytes(1000)
NAME = "a header's name that is not in any cache"
VALUE = bytearray(1000)
TOPIC = "a topic that is only here"


def refused(work: Callable[[], Any]) -> None:
    with pytest.raises((InvalidRecord, ValueError, TypeError, IndexError, BufferError)):
        work()


def decode(section: Any, count: int = len(ROWS)) -> Any:
    return twins.native().decode_records(section, count, 10**6, 10**12, None, TOPIC, 10**6, 10**6, 0, 10**6)


def build(section: Any, count: int = len(ROWS)) -> Any:
    builder = twins.native().ColumnBuilder()
    builder.append(SECTION, len(ROWS), 0, 0, None)
    builder.append(section, count, 0, 0, None)
    return builder.finish()


def encode(*, names: Any = KEY, rows: Any = None) -> Any:
    offsets = struct.pack("=2i", 0, 900)
    column = (b"\xff", 3, offsets, KEY)
    headers = (b"\xff", 0, struct.pack("=2i", 0, 1), (None, 0, offsets, names), column, 1)
    encoder = twins.native().RowEncoder(1, struct.pack("=q", 10**12), column, column, headers)
    return encoder.encode(rows, 0, 1, 100), encoder.partitions(10**6)


def append(*arguments: Any) -> Any:
    return twins.native().append_record(bytearray(), *arguments)


def append_to_held() -> None:
    section = bytearray()
    with memoryview(section):
        twins.native().append_record(section, 0, 0, KEY, VALUE, ((NAME, VALUE),))


def content() -> Any:
    return twins.native().with_content(decode(SECTION)[0], KEY, VALUE)


WORK: dict[str, Callable[[], Any]] = {
    "append": lambda: append(10**6, 10**12, KEY, VALUE, [(NAME, VALUE)] * 20),
    "append, refused at a header": lambda: refused(lambda: append(0, 0, KEY, VALUE, [(NAME, VALUE)] * 20 + [(1, 2)])),
    "append, refused at a value": lambda: refused(lambda: append(0, 0, VALUE, "", ())),
    "append, refused at its size": lambda: append(0, 0, VALUE, VALUE, ((NAME, VALUE),), 1),
    "append, refused by a held section": lambda: refused(append_to_held),
    "murmur2": lambda: (twins.native().murmur2(VALUE), twins.native().partition_of(VALUE, 10**6)),
    "decode": lambda: decode(memoryview(SECTION)),
    "decode, refused": lambda: refused(lambda: decode(memoryview(SECTION)[:-1])),
    "decode, refused at its count": lambda: refused(lambda: decode(SECTION, -1)),
    "content": content,
    "content, refused": lambda: refused(lambda: twins.native().with_content((TOPIC,), KEY, VALUE)),
    "build": lambda: build(memoryview(SECTION)),
    "build, refused": lambda: refused(lambda: build(memoryview(SECTION)[:-1])),
    "encode": encode,
    "encode, refused": lambda: refused(lambda: encode(names=b"")),
    "encode, refused at a row": lambda: refused(lambda: encode(rows=b"\xff" * 4)),
    "encode, refused at once": lambda: refused(lambda: encode(names="text")),
    "group": lambda: twins.native().group_rows(struct.pack("=3i", 5, 2, 2), 1000),
    "group, refused": lambda: refused(lambda: twins.native().group_rows(struct.pack("=3i", 5, 2, 2), 3)),
}


@pytest.mark.parametrize("name", WORK)
def test_nothing_is_kept(name: str) -> None:
    work = WORK[name]  # what tracemalloc sees of memory that is taken without the GIL is off by a few kB at times
    witnesses = (SECTION, KEY, NAME, VALUE, TOPIC, None, ())
    for _ in range(3):
        work()
    gc.collect()
    before = [sys.getrefcount(witness) for witness in witnesses]
    tracemalloc.start()
    try:
        work()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(2000):
            work()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    after = [sys.getrefcount(witness) for witness in witnesses]
    assert max(abs(late - early) for early, late in zip(before, after, strict=True)) < 1000, (before, after)
    assert grown < 2000 * 16, f"{grown} bytes more after 2,000 rounds"
    VALUE.append(0)  # no one holds it
    del VALUE[-1]

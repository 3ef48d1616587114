"""Batches to test with: every kind of record, in every codec, and strategies for records that no one would think of."""

from __future__ import annotations

import struct
from random import Random

from hypothesis import strategies as st

from ottla.records import HEADER, Batch, Codec, Header, Record, Row, batches, build_batch, crc32c

INT64_MAX = 2**63 - 1

ROWS: list[Record] = [
    Record(0, 1700000000000, b"key", b"value"),
    Record(1, 1700000000001, None, b"no key"),
    Record(2, 1700000000001, b"tombstone", None),
    Record(3, 1700000000000, None, None),
    Record(4, 1699999990000, b"", b"", (("", b""),)),
    Record(5, 1700000100000, b"k" * 70, b"v" * 9000, (("name", b"value"), ("name", None), ("větev", b"\x00\xff"))),
    Record(6, -1, b"no timestamp", b"x" * 63),
]
"""Null and empty keys and values, headers that repeat, time that goes back, varints of one, two and three bytes."""


def sample(codec: Codec = Codec.NONE) -> bytes:
    return build_batch(ROWS, codec=codec, leader_epoch=3)


def only(data: bytes | bytearray) -> Batch:
    """The one batch that `data` is."""
    (batch,) = batches(data)
    assert batch.size == len(data)
    return batch


def sealed(data: bytes | bytearray, **fields: int) -> bytes:
    """A batch with header fields set, its length made true, and the checksum of what it now is."""
    names = (
        "base_offset", "batch_length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
        "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count",
    )  # fmt: skip
    header = dict(zip(names, HEADER.unpack_from(data), strict=True))
    header["batch_length"] = len(data) - 12
    header.update(fields)
    changed = bytearray(data)
    HEADER.pack_into(changed, 0, *header.values())
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def header_list() -> st.SearchStrategy[tuple[Header, ...]]:
    value = st.none() | st.binary(max_size=40)
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    return st.lists(st.tuples(text, value), max_size=4).map(tuple)


@st.composite
def row_lists(draw: st.DrawFn, *, size_min: int = 1) -> list[Row]:
    """Records in the order of their offsets, which may have gaps, with any timestamps a writer may give."""
    offset = draw(st.integers(0, 2**40))
    timestamps = st.integers(-1, INT64_MAX) | st.integers(1_700_000_000_000, 1_700_000_100_000)
    content = st.none() | st.binary(max_size=80) | st.integers(0, 9000).map(bytes)
    rows: list[Row] = []
    for _ in range(draw(st.integers(size_min, 8))):
        rows.append((offset, draw(timestamps), draw(content), draw(content), draw(header_list())))
        offset += draw(st.just(1) | st.integers(1, 100_000))
    return rows


def mutations(batch: bytes, *, count: int, seed: int) -> list[bytes]:
    """Seeded damage to a batch, with the checksum and mostly the length made to fit: what only decoding can find."""
    random = Random(seed)
    damaged: list[bytes] = []
    while len(damaged) < count:
        data = bytearray(batch)
        for _ in range(random.randrange(1, 3)):
            place = random.randrange(61, len(data)) if random.random() < 0.7 else random.randrange(21, 61)
            match random.randrange(6):
                case 0:
                    data[place] ^= 1 << random.randrange(8)
                case 1:
                    data[place] = random.choice((0, 1, 127, 128, 254, 255, random.randrange(256)))
                case 2 if place >= 61:
                    data[place:place] = random.randbytes(random.randrange(1, 4))
                case 3 if place >= 61:
                    del data[place : place + random.randrange(1, 4)]
                case 4:
                    data[57:61] = struct.pack(">i", random.choice((-1, 0, 1, 2, 6, 8, 1000, 2**31 - 1)))
                case 5 if place >= 61:
                    del data[place:]
            if len(data) <= 61:
                break
        else:
            damaged.append(sealed(data))
    return damaged

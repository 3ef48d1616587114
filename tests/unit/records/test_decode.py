"""`ottla/records/decode.py`: the records of a batch, whole and scanned, and everything that can be wrong with them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecord
from ottla.records import Codec, Record, build_batch, stamp_append_time
from ottla.records import decode as imported
from ottla.records.encode import encode_record
from ottla.records.varint import encode_varint
from tests.unit.records.samples import ROWS, only, row_lists, sample, sealed


def plain() -> ModuleType:
    """The module from its source, whether or not a compiled one stands in front of it."""
    source = Path(imported.__file__).with_name("decode.py")
    spec = importlib.util.spec_from_file_location("plain_decode", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[imported, plain()], ids=["imported", "plain"])
def decode(request: pytest.FixtureRequest) -> ModuleType:
    """Each test asks both builds, where there are two."""
    module = request.param
    assert isinstance(module, ModuleType)
    return module


@pytest.fixture(params=["decode_rows", "scan_rows", "check_rows"])
def refuses(request: pytest.FixtureRequest, decode: ModuleType) -> Callable[[bytes, int], str]:
    """All depths refuse the same sections. Gives the reason."""

    def ask(section: bytes, count: int) -> str:
        checks = request.param == "check_rows"
        read = partial(decode.check_rows, ignores_sizes=False) if checks else getattr(decode, request.param)
        with pytest.raises(InvalidRecord) as caught:
            read(section, count, 0, *(() if checks else (0, None)))
        return str(caught.value)

    return ask


def record(key: bytes | None = b"k", value: bytes | None = b"v", delta: int = 0) -> bytes:
    return encode_record(delta, 0, key, value, ())


def framed(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


# --- what a batch holds ---


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_records_come_back_as_they_were_written_in_every_codec(codec: Codec) -> None:
    batch = only(sample(codec))
    assert batch.codec is codec
    assert batch.check_crc()
    assert batch.records() == ROWS
    assert batch.rows() == ROWS


def test_a_record_has_names_for_its_fields_and_unpacks() -> None:
    record = only(sample()).records()[5]
    assert (record.offset, record.timestamp, record.key) == (5, 1700000100000, b"k" * 70)
    assert record.headers == (("name", b"value"), ("name", None), ("větev", b"\x00\xff"))
    offset, _, _, value, _ = record
    assert (offset, value) == (5, b"v" * 9000)
    assert isinstance(record, Record)


@given(rows=row_lists(), codec=st.sampled_from(Codec))
def test_any_records_survive_the_way_there_and_back(rows: list[Record], codec: Codec) -> None:
    batch = only(build_batch(rows, codec=codec))
    assert batch.check_crc()
    assert batch.rows() == rows
    assert batch.record_count == len(rows)
    assert (batch.base_offset, batch.last_offset) == (rows[0][0], rows[-1][0])
    assert batch.max_timestamp == max(timestamp for _, timestamp, _, _, _ in rows)


@given(rows=row_lists(), codec=st.sampled_from(Codec))
def test_a_scan_gives_the_columns_of_the_records_and_their_extents(rows: list[Record], codec: Codec) -> None:
    batch = only(build_batch(rows, codec=codec))
    scan = batch.scan()
    assert len(scan) == len(rows)
    assert scan.offsets == [row[0] for row in rows]
    assert scan.timestamps == [row[1] for row in rows]
    assert scan.keys == [row[2] for row in rows]
    assert scan.has_values == [row[3] is not None for row in rows]
    assert scan.data == batch.payload()
    for index, (offset, timestamp, key, value, headers) in enumerate(rows):
        whole = encode_record(offset - batch.base_offset, timestamp - batch.base_timestamp, key, value, headers)
        assert scan.data[scan.starts[index] : scan.end(index)] == whole
        body = scan.data[scan.bodies[index] : scan.end(index)]
        assert whole.endswith(body)
        assert body.startswith(encode_varint(-1) if key is None else encode_varint(len(key)) + key)


@pytest.mark.parametrize(
    ("base_timestamp", "timestamps"),
    [
        (0, [0, 2**31, 2**31 + 1, 0]),
        (1700000000000, [1700000000000, 1700000000000 + 2**40, 5]),
        (0, [0, 2**63 - 1, 0]),
        (-1, [-1, 2**63 - 1, 0, -1]),  # the delta wraps, as Java's does
        (2**63 - 1, [2**63 - 1, -1, 2**63 - 1, 0]),
        (-(2**63), [-(2**63), 2**63 - 1, -1]),
        (2**63 - 5, [-(2**63) + 3]),  # a delta of one byte
    ],
)
def test_timestamps_span_the_whole_range_of_a_long(
    decode: ModuleType, base_timestamp: int, timestamps: list[int]
) -> None:
    section = b"".join(
        encode_record(index, (timestamp - base_timestamp + 2**63) % 2**64 - 2**63, b"k", b"v", ())
        for index, timestamp in enumerate(timestamps)
    )
    rows = decode.decode_rows(section, len(timestamps), 0, base_timestamp, None)
    assert [row[1] for row in rows] == timestamps
    assert decode.scan_rows(section, len(timestamps), 0, base_timestamp, None).timestamps == timestamps
    smallest = min((timestamp for timestamp in timestamps if timestamp != -1), default=2**63 - 1)
    checked = decode.check_rows(section, len(timestamps), base_timestamp, ignores_sizes=False)
    assert checked == (smallest, max(-1, *timestamps), True, False)


@given(rows=row_lists(), has_gaps=st.booleans())
def test_a_check_says_of_records_what_a_scan_shows(decode: ModuleType, rows: list[Record], has_gaps: bool) -> None:
    if not has_gaps:
        rows = [Record(index, *row[1:]) for index, row in enumerate(rows)]
    batch = only(build_batch(rows))
    scan = batch.scan()
    given_times = [timestamp for timestamp in scan.timestamps if timestamp != -1]
    assert decode.check_rows(scan.data, len(scan), batch.base_timestamp, ignores_sizes=False) == (
        min(given_times, default=2**63 - 1),
        max(scan.timestamps),
        scan.offsets == list(range(batch.base_offset, batch.base_offset + len(scan))),
        None in scan.keys,
    )


def test_a_check_of_a_section_of_many_windows_says_what_a_scan_shows_and_refuses_what_it_refuses(
    decode: ModuleType,
) -> None:
    """Records that cross from one window to the next, some larger than several; then the same with damage."""
    random = Random(3)
    window = imported.WINDOW_BYTES
    sizes = [random.choice((0, 10, 1000, window - 20, window, 5 * window)) for _ in range(30)]
    rows = [Record(index, random.randrange(2**45), None if index % 7 == 3 else b"key", random.randbytes(size),
                   (("header", b"v" * 200),) if index % 5 == 0 else ())
            for index, size in enumerate(sizes)]  # fmt: skip
    batch = only(build_batch(rows))
    section = batch.payload()
    scan = batch.scan()
    base = batch.base_timestamp
    assert decode.check_rows(section, len(rows), base, ignores_sizes=False) == (
        min(scan.timestamps), max(scan.timestamps), True, True,
    )  # fmt: skip

    def outcome(read: Callable[[], object]) -> str:
        try:
            read()
        except InvalidRecord as error:
            return error.message
        return "taken"

    outcomes = set()
    for round_ in range(150):
        damaged = bytearray(section)
        start = random.choice(scan.starts)
        match round_ % 3:
            case 0:
                damaged[min(start + random.randrange(12), len(damaged) - 1)] = random.randrange(256)
            case 1:
                del damaged[random.randrange(len(damaged)) :]
            case 2:
                damaged += bytes(random.randrange(1, 2 * window))
        data = bytes(damaged)
        expected = outcome(lambda data=data: imported.decode_rows(data, len(rows), 0, base, None))  # type: ignore[misc]
        found = outcome(lambda data=data: decode.check_rows(data, len(rows), base, ignores_sizes=False))  # type: ignore[misc]
        assert found == expected
        outcomes.add(found)
    assert len(outcomes) > 20


def test_a_check_can_believe_the_fields_of_a_record_rather_than_its_size(decode: ModuleType) -> None:
    section = encode_varint(90) + record()[1:]
    assert decode.check_rows(section, 1, 7, ignores_sizes=True) == (7, 7, True, False)
    with pytest.raises(InvalidRecord, match="Invalid record size"):
        decode.check_rows(section, 1, 7, ignores_sizes=False)


def test_offsets_may_lie_before_the_base_offset(decode: ModuleType) -> None:
    section = record(delta=-3) + record(delta=2**31 - 1) + record(delta=-(2**31))
    assert [row[0] for row in decode.decode_rows(section, 3, 100, 0, None)] == [97, 100 + 2**31 - 1, 100 - 2**31]
    assert decode.scan_rows(section, 3, 100, 0, None).offsets == [97, 100 + 2**31 - 1, 100 - 2**31]


def test_a_batch_emptied_by_compaction_has_no_records_whatever_follows_its_header() -> None:
    for data in (sealed(sample(), record_count=0), sealed(sample()[:61], record_count=0)):
        batch = only(data)
        assert batch.rows() == []
        assert batch.records() == []
        assert len(batch.scan()) == 0


def test_any_negative_size_means_null_as_it_does_to_kafka(decode: ModuleType) -> None:
    body = b"\0\0\0" + encode_varint(-9) + encode_varint(-2) + encode_varint(0)
    assert decode.decode_rows(framed(body), 1, 0, 0, None) == [(0, 0, None, None, ())]
    scan = decode.scan_rows(framed(body), 1, 0, 0, None)
    assert (scan.keys, scan.has_values) == ([None], [False])


def test_record_attributes_have_no_meaning_and_are_passed_over(decode: ModuleType) -> None:
    body = b"\xff\0\0" + encode_varint(-1) + encode_varint(-1) + encode_varint(0)
    assert decode.decode_rows(framed(body), 1, 0, 0, None) == [(0, 0, None, None, ())]


def test_a_header_key_that_is_not_utf_8_is_shown_with_replacement_characters(decode: ModuleType) -> None:
    body = b"\0\0\0\x01\x01" + encode_varint(1) + encode_varint(3) + b"a\xffb" + encode_varint(-1)
    assert decode.decode_rows(framed(body), 1, 0, 0, None)[0][4] == (("a�b", None),)


def test_the_append_time_takes_the_place_of_every_timestamp(decode: ModuleType) -> None:
    data = bytearray(sample())
    stamp_append_time(data, 0, len(data), 42)
    batch = only(data)
    rows = decode.decode_rows(batch.payload(), len(ROWS), 0, batch.base_timestamp, 42)
    assert rows == [row._replace(timestamp=42) for row in ROWS] == batch.rows()


def test_varints_longer_than_they_need_to_be_are_read(decode: ModuleType) -> None:
    body = b"\0" + b"\x82\x80\x00" + b"\x82\x80\x80\x80\x00" + b"\x82\x00k" + b"\x82\x80\x00v" + b"\x80\x80\x00"
    section = b"\xa6\x80\x00" + body
    assert len(body) == 0x26 >> 1
    assert decode.decode_rows(section, 1, 0, 0, None) == [(1, 1, b"k", b"v", ())]
    assert decode.scan_rows(section, 1, 0, 0, None).keys == [b"k"]


# --- what is refused ---


def test_a_negative_count_is_refused(refuses: Callable[[bytes, int], str]) -> None:
    assert "record count -1" in refuses(record(), -1)


@pytest.mark.parametrize("count", [3, 1000, 2**31 - 1])
def test_a_count_above_the_records_is_refused(refuses: Callable[[bytes, int], str], count: int) -> None:
    assert "premature EOF" in refuses(record() + record(), count)


def test_records_beyond_the_count_are_refused(refuses: Callable[[bytes, int], str]) -> None:
    assert f"{len(record())} bytes remain" in refuses(record() + record(), 1)
    assert "1 bytes remain" in refuses(record() + b"\0", 1)


def test_an_empty_section_with_a_count_is_refused(refuses: Callable[[bytes, int], str]) -> None:
    assert "premature EOF" in refuses(b"", 1)


def test_every_cut_of_a_section_is_refused(refuses: Callable[[bytes, int], str]) -> None:
    section = b"".join(encode_record(row.offset, 0, row.key, row.value, row.headers) for row in ROWS)
    for cut in range(len(section)):
        refuses(section[:cut], len(ROWS))


@pytest.mark.parametrize("size", [-1, -8, 0, 6, 8, 500, 2**31 - 1, -(2**31)])
def test_a_record_size_that_is_not_its_fields_is_refused(refuses: Callable[[bytes, int], str], size: int) -> None:
    body = record()[1:]
    assert len(body) == 8
    reason = refuses(encode_varint(size) + body, 1) if size != 8 else refuses(encode_varint(size) + body + b"\0", 1)
    assert "record" in reason or "EOF" in reason or "remain" in reason


def test_a_negative_record_size_that_zigzags_to_the_right_number_is_refused(
    refuses: Callable[[bytes, int], str],
) -> None:
    section = bytearray(record())
    section[0] |= 1
    assert "expected to read -9 bytes" in refuses(bytes(section), 1)


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("size", [3, 4, 100, 2**31 - 1])
def test_a_key_or_value_that_reaches_beyond_its_record_is_refused(
    refuses: Callable[[bytes, int], str], field: str, size: int
) -> None:
    key = encode_varint(size if field == "key" else 1) + b"k"
    value = encode_varint(size if field == "value" else 1) + b"v"
    refuses(framed(b"\0\0\0" + key + value + b"\0"), 1)
    refuses(framed(b"\0\0\0" + key + value + b"\0") + record() * 40, 41)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (encode_varint(-1), "number of record headers -1"),
        (encode_varint(2**31 - 1), "larger than the remaining"),
        (encode_varint(3) + b"\x02a\x02b", "larger than the remaining|EOF"),
        (encode_varint(1) + encode_varint(-1) + b"\x02b", "negative header key size -1"),
        (encode_varint(1) + encode_varint(50) + b"a", "EOF"),
        (encode_varint(1) + b"\x02a" + encode_varint(50) + b"b", "record size|EOF"),
        (encode_varint(1) + b"\x02a\x02bc", "record size"),
        (encode_varint(2) + b"\x02a\x02b", "EOF|larger"),
    ],
)
def test_headers_that_lie_are_refused(refuses: Callable[[bytes, int], str], headers: bytes, reason: str) -> None:
    section = framed(b"\0\0\0\x01\x01" + headers)
    assert any(part in refuses(section, 1) for part in reason.split("|"))


def test_a_header_value_that_ends_with_the_record_but_beyond_the_section_is_refused(
    refuses: Callable[[bytes, int], str],
) -> None:
    body = b"\0\0\0\x01\x01" + encode_varint(1) + b"\x02a" + encode_varint(10)
    assert "premature EOF" in refuses(encode_varint(len(body) + 10) + body + b"short", 1)


@pytest.mark.parametrize("place", ["size", "timestamp", "offset", "key", "value", "headers"])
def test_a_varint_too_long_is_refused_in_every_place(refuses: Callable[[bytes, int], str], place: str) -> None:
    long = b"\x80" * 10 + b"\0"
    fields = {"attributes": b"\0", "timestamp": b"\0", "offset": b"\0", "key": b"\x01", "value": b"\x01"}
    fields["headers"] = b"\0"
    if place == "size":
        section = long + b"".join(fields.values())
    else:
        fields[place] = long
        section = framed(b"".join(fields.values()))
    assert "too long" in refuses(section, 1)

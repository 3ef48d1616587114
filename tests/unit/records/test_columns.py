"""Records as columns, compiled and plain: what is read is what was written, and damage leaves the columns whole."""

from __future__ import annotations

import struct
import threading
from itertools import pairwise, permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import InvalidRecord
from ottla.records import Codec, Header, Row, build_batch
from ottla.records.columns import BinaryBuffers, Columns
from ottla.records.encode import encode_record
from ottla.records.varint import encode_varint
from tests.unit.records import twins
from tests.unit.records.samples import ROWS, mutations, only, row_lists, sample

ALL = {"offset": True, "timestamp": True, "key": True, "value": True, "headers": True}


@pytest.fixture(scope="module", params=["native", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    return twins.named(request.param)


def numbers(buffer: Any, form: str) -> list[int]:
    return list(memoryview(bytes(buffer)).cast(form))  # type: ignore[call-overload]


def fields(buffers: BinaryBuffers, count: int) -> list[bytes | None]:
    """What a binary column says, read as Arrow's specification tells it."""
    offsets = numbers(buffers.offsets, "i")
    assert len(offsets) == count + 1
    assert offsets[0] == 0
    assert offsets[-1] == len(bytes(buffers.data))
    valid = [True] * count
    if buffers.validity is None:
        assert buffers.null_count == 0
    else:
        bits = bytes(buffers.validity)
        assert len(bits) == (count + 7) // 8
        valid = [bool(bits[row // 8] >> row % 8 & 1) for row in range(count)]
        assert valid.count(False) == buffers.null_count > 0
        assert int.from_bytes(bits, "little") >> count == 0, "bits behind the last row are 0"
    data = bytes(buffers.data)
    return [data[offsets[row] : offsets[row + 1]] if valid[row] else None for row in range(count)]


def rows_of(columns: Columns) -> list[Row]:
    count = columns.row_count
    assert columns.offset is not None
    assert columns.timestamp is not None
    assert columns.key is not None
    assert columns.value is not None
    assert columns.headers is not None
    lists = numbers(columns.headers.offsets, "i")
    names = fields(columns.headers.key, columns.headers.header_count)
    values = fields(columns.headers.value, columns.headers.header_count)
    headers: list[Header] = []
    for name, value in zip(names, values, strict=True):
        assert name is not None
        headers.append((name.decode("utf-8"), value))
    assert lists[0] == 0
    assert lists[-1] == len(headers)
    return list(
        zip(
            numbers(columns.offset, "q"),
            numbers(columns.timestamp, "q"),
            fields(columns.key, count),
            fields(columns.value, count),
            [tuple(headers[lists[row] : lists[row + 1]]) for row in range(count)],
            strict=True,
        )
    )


def append(builder: Any, data: bytes, *extent: int) -> int:
    batch = only(data)
    count: int = builder.append(
        batch.payload(), batch.record_count, batch.base_offset, batch.base_timestamp, None, *extent
    )
    return count


# --- reading ---


@settings(max_examples=50, deadline=None)
@given(row_lists(), st.sets(st.integers(1, 8)))
def test_the_rows_of_many_sections_are_one_set_of_columns(build: Any, expected: list[Row], cuts: set[int]) -> None:
    builder = build.ColumnBuilder()
    for start, end in pairwise([0, *sorted(cuts), 9]):
        if expected[start:end]:
            assert append(builder, build_batch(expected[start:end])) == len(expected[start:end])
    assert len(builder) == len(expected)
    sizes = [len(row[2] or b"") + len(row[3] or b"") for row in expected]
    sizes += [len(name.encode()) + len(value or b"") for row in expected for name, value in row[4]]
    assert builder.data_size == sum(sizes)
    assert rows_of(builder.finish()) == expected


def test_a_builder_that_has_finished_is_empty(build: Any) -> None:
    builder = build.ColumnBuilder()
    append(builder, sample())
    first = builder.finish()
    assert len(builder) == builder.data_size == 0
    assert rows_of(builder.finish()) == []
    append(builder, sample())
    assert rows_of(builder.finish()) == rows_of(first) == [tuple(row) for row in ROWS]


def test_columns_that_someone_keeps_are_not_written_over(build: Any) -> None:
    """Large blocks of memory are used again, once the last view of them is gone and not before."""
    random = Random(5)
    kept: list[tuple[Columns, bytes]] = []
    for number in range(40):
        rows: list[Row] = [
            (index, 0, None, bytes((number,)) * 500, ()) for index in range(random.choice((20, 400, 900)))
        ]
        builder = build.ColumnBuilder()
        append(builder, build_batch(rows))
        kept.append((builder.finish(), bytes((number,)) * 500 * len(rows)))
        while len(kept) > 4:
            columns, expected = kept.pop(random.randrange(len(kept)))
            assert columns.value is not None
            assert bytes(columns.value.data) == expected
            assert numbers(columns.value.offsets, "i") == list(range(0, len(expected) + 1, 500))


def test_only_the_columns_that_are_asked_for_are_made(build: Any) -> None:
    whole = build.ColumnBuilder()
    append(whole, sample())
    everything = whole.finish()
    for name in ALL:
        builder = build.ColumnBuilder(**{**dict.fromkeys(ALL, False), name: True})
        append(builder, sample())
        columns = builder.finish()
        assert columns.row_count == len(ROWS)
        for other in ALL:
            assert (getattr(columns, other) is None) == (other != name)
        assert content(getattr(columns, name)) == content(getattr(everything, name))


def content(part: Any) -> Any:
    """Buffers as bytes, whichever kind they are."""
    if isinstance(part, tuple):
        return tuple(content(item) for item in part)
    return part if part is None or isinstance(part, int) else bytes(part)


@pytest.mark.parametrize(("start", "end"), [(0, 7), (3, 7), (0, 3), (2, 5), (7, 9), (-5, 0), (4, 4), (5, 2)])
def test_records_outside_the_extent_are_left_out(build: Any, start: int, end: int) -> None:
    builder = build.ColumnBuilder()
    append(builder, sample())
    expected = [tuple(row) for row in ROWS if start <= row.offset < end]
    assert append(builder, sample(), start, end) == len(expected)
    assert rows_of(builder.finish()) == [*map(tuple, ROWS), *expected]


def test_append_time_and_javas_arithmetic_hold_for_columns_too(build: Any) -> None:
    section = only(sample()).payload()
    builder = build.ColumnBuilder()
    builder.append(section, len(ROWS), 2**63 - 2, 2**63 - 1, 17)
    builder.append(section, len(ROWS), 0, 2**63 - 1, None)
    columns = builder.finish()
    offsets, timestamps = numbers(columns.offset, "q"), numbers(columns.timestamp, "q")
    assert offsets[:2] == [2**63 - 2, -(2**63)], "the largest long is the end of every extent"
    assert timestamps[:6] == [17] * 6
    assert timestamps[6:8] == [2**63 - 1, -(2**63)]


def test_a_section_without_records_adds_nothing(build: Any) -> None:
    builder = build.ColumnBuilder()
    assert builder.append(b"", 0, 0, 0, None) == 0
    assert rows_of(builder.finish()) == []


def test_nulls_are_where_they_were_among_thousands(build: Any) -> None:
    random = Random(7)
    builder = build.ColumnBuilder()
    expected: list[Row] = []
    for _ in range(40):
        rows: list[Row] = [
            (
                len(expected) + index,
                1,
                None if random.random() < 0.1 else random.randbytes(random.randrange(40)),
                None if random.random() < 0.9 else b"value",
                (("h", None), ("g", b"x")) if random.random() < 0.2 else (),
            )
            for index in range(random.randrange(1, 200))
        ]
        append(builder, build_batch(rows))
        expected += rows
    assert rows_of(builder.finish()) == expected


def test_a_refused_section_leaves_the_columns_as_they_were(build: Any) -> None:
    """Whatever part of it was read: nulls, headers, half a record."""
    section = only(sample()).payload()
    builder = build.ColumnBuilder()
    for rounds in range(len(section)):
        if rounds % 97 == 0:
            append(builder, sample(), 0, 1 + rounds % 7)
        size, rows = builder.data_size, len(builder)
        with pytest.raises(InvalidRecord):
            builder.append(section[:rounds], len(ROWS), 0, 0, None)
        assert (builder.data_size, len(builder)) == (size, rows)
    expected = [tuple(row) for rounds in range(0, len(section), 97) for row in ROWS[: 1 + rounds % 7]]
    assert rows_of(builder.finish()) == expected


@pytest.mark.parametrize("count", [-1, 0x7FFFFFFF, 2**62, len(ROWS) - 1, len(ROWS) + 1])
def test_a_count_that_lies_is_refused(build: Any, count: int) -> None:
    with pytest.raises(InvalidRecord):
        build.ColumnBuilder().append(only(sample()).payload(), count, 0, 0, None)


def test_both_builds_say_the_same_of_damaged_sections() -> None:
    native = twins.native().ColumnBuilder()
    plain = twins.PLAIN.ColumnBuilder()
    refused = 0
    for data in mutations(sample(), count=3000, seed=9):
        batch = only(data)
        section, count = data[61:], batch.record_count
        try:
            expected = plain.append(section, count, batch.base_offset, batch.base_timestamp, None)
        except InvalidRecord:
            refused += 1
            with pytest.raises(InvalidRecord):
                native.append(section, count, batch.base_offset, batch.base_timestamp, None)
        else:
            assert native.append(section, count, batch.base_offset, batch.base_timestamp, None) == expected
        if len(plain) > 500:
            assert content(native.finish()) == content(plain.finish())
    assert 100 < refused < 2900
    assert content(native.finish()) == content(plain.finish())


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(-1, 9))
def test_both_builds_say_the_same_of_any_bytes(section: bytes, count: int) -> None:
    native, plain = twins.native().ColumnBuilder(), twins.PLAIN.ColumnBuilder()
    try:
        plain.append(section, count, 0, 0, None)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            native.append(section, count, 0, 0, None)
    else:
        native.append(section, count, 0, 0, None)
    assert content(native.finish()) == content(plain.finish())


@settings(deadline=None)
@given(st.binary(max_size=12) | st.text(max_size=5).map(str.encode))
def test_a_headers_name_becomes_text_as_python_reads_it(build: Any, name: bytes) -> None:
    body = b"\0\0\0\1\1\2" + bytes((len(name) * 2,)) + name + b"\1"
    builder = build.ColumnBuilder()
    builder.append(bytes((len(body) * 2,)) + body, 1, 0, 0, None)
    columns = builder.finish()
    assert bytes(columns.headers.key.data).decode("utf-8") == name.decode("utf-8", "replace")


def test_every_two_and_three_bytes_that_begin_a_character_are_read_as_python_reads_them(build: Any) -> None:
    names = [bytes((first, second)) for first in range(0x7F, 256) for second in range(0x7F, 256, 3)]
    edges = (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    names += [bytes((first, *rest)) for first in range(0xDF, 0xF6) for rest in permutations(edges, 2)]
    names += [bytes((first, second, 0x80, 0x80)) for first in range(0xDF, 0xF6) for second in edges]
    section = bytearray()
    for index, name in enumerate(names):
        body = b"\0\0" + encode_varint(index) + b"\1\1\2" + bytes((len(name) * 2,)) + name + b"\1"
        section += bytes((len(body) * 2,)) + body
    builder = build.ColumnBuilder()
    builder.append(section, len(names), 0, 0, None)
    columns = builder.finish()
    assert fields(columns.headers.key, len(names)) == [
        name.decode("utf-8", "replace").encode("utf-8") for name in names
    ]


def test_a_builder_that_decodes_in_one_thread_refuses_another() -> None:
    """The GIL is released while a section is decoded; two at once would write over each other."""
    builder = twins.native().ColumnBuilder()
    rows = [(index, 0, b"key", bytes(100), ()) for index in range(20_000)]
    batch = only(build_batch(rows))
    section = batch.payload() * 8  # the count says one, so seven are left over: refused, after a while
    outcomes: set[str] = set()

    def work() -> None:
        for _ in range(12):
            try:
                builder.append(section, len(rows), 0, 0, None)
            except (InvalidRecord, RuntimeError) as error:
                outcomes.add(type(error).__name__)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "InvalidRecord" in outcomes
    assert outcomes <= {"InvalidRecord", "RuntimeError"}
    assert len(builder) == 0


@pytest.mark.parametrize(
    "arguments", [(), (b"", 0, 0, 0), ("", 0, 0, 0, None), (None, 0, 0, 0, None), (b"", "0", 0, 0, None)]
)
def test_what_is_no_section_is_refused(build: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        build.ColumnBuilder().append(*arguments)
    with pytest.raises(TypeError):
        build.ColumnBuilder(True)
    with pytest.raises(TypeError):
        build.ColumnBuilder(values=True)


# --- writing ---


def binary_view(values: list[bytes | None], *, shift: int = 0) -> tuple[Any, int, bytes, bytes]:
    """A column as Arrow lays it out, with `shift` rows in front, as a slice of a larger array has them."""
    padded = [b"no one sees this"] * shift + values
    offsets = [0]
    for value in padded:
        offsets.append(offsets[-1] + len(value or b""))
    bits = sum(1 << row for row, value in enumerate(padded) if value is not None)
    validity = bits.to_bytes((len(padded) + 7) // 8, "little") if None in values else None
    data = b"".join(value or b"" for value in padded)
    return validity, shift, struct.pack(f"={len(offsets) - shift}i", *offsets[shift:]), data


def header_view(rows: list[tuple[Header, ...]], *, shift: int = 0) -> Any:
    pairs = [pair for headers in rows for pair in headers]
    ends = [0]
    for headers in rows:
        ends.append(ends[-1] + len(headers))
    names = binary_view([name.encode() for name, _ in pairs], shift=shift)
    values = binary_view([value for _, value in pairs], shift=shift)
    return None, 0, struct.pack(f"={len(ends)}i", *ends), names, values, len(pairs)


def encoder(build: Any, rows: list[Row], *, shift: int = 0) -> Any:
    return build.RowEncoder(
        len(rows),
        struct.pack(f"={len(rows)}q", *(row[1] for row in rows)),
        binary_view([row[2] for row in rows], shift=shift),
        binary_view([row[3] for row in rows], shift=shift),
        header_view([row[4] for row in rows], shift=shift),
    )


def consecutive(rows: list[Row], base: int = 0) -> list[Row]:
    return [(base + index, *row[1:]) for index, row in enumerate(rows)]


@settings(max_examples=50, deadline=None)
@given(row_lists(), st.integers(0, 9))
def test_rows_are_written_as_a_builder_writes_them(build: Any, rows: list[Row], shift: int) -> None:
    section, following, base, largest = encoder(build, rows, shift=shift).encode(None, 0, len(rows), 2**31)
    batch = only(build_batch(consecutive(rows)))
    assert bytes(section) == batch.payload()
    assert (following, base, largest) == (len(rows), batch.base_timestamp, batch.max_timestamp)


@settings(max_examples=50, deadline=None)
@given(row_lists(), st.integers(1, 500))
def test_sections_hold_as_many_rows_as_fit(build: Any, rows: list[Row], size_max: int) -> None:
    encode = encoder(build, rows).encode
    builder = build.ColumnBuilder()
    start = 0
    while start < len(rows):
        section, stop, base, largest = encode(None, start, len(rows), size_max)
        assert len(section) <= size_max or stop == start + 1
        if stop < len(rows):
            longer, _, _, _ = encode(None, start, stop + 1, 2**31)
            assert len(longer) > size_max, "one more would not have fitted"
        assert largest == max(row[1] for row in rows[start:stop])
        builder.append(section, stop - start, start, base, None)
        start = stop
    assert rows_of(builder.finish()) == consecutive(rows)


@settings(max_examples=50, deadline=None)
@given(row_lists(), st.randoms(use_true_random=False))
def test_rows_are_written_in_the_order_that_is_given(build: Any, rows: list[Row], random: Random) -> None:
    order = random.choices(range(len(rows)), k=len(rows) + 3)
    start, stop = 1, len(order) - 1
    section, following, base, _ = encoder(build, rows).encode(
        struct.pack(f"={len(order)}i", *order), start, stop, 2**31
    )
    builder = build.ColumnBuilder()
    builder.append(section, stop - start, 0, base, None)
    assert following == stop
    assert rows_of(builder.finish()) == consecutive([rows[row] for row in order[start:stop]])


def test_columns_may_be_missing_and_one_timestamp_may_stand_for_all(build: Any) -> None:
    section, _, base, largest = build.RowEncoder(3, 1234, None, None, None).encode(None, 0, 3, 1000)
    assert bytes(section) == b"".join(encode_record(index, 0, None, None, ()) for index in range(3))
    assert (base, largest) == (1234, 1234)


@pytest.mark.parametrize(("rows", "value_bytes"), [(0, 0), (1, 1), (50_000, 3_000_000), (7, 0)])
def test_what_is_expected_changes_nothing_but_the_time(build: Any, rows: int, value_bytes: int) -> None:
    batch = only(sample())
    builder, other = build.ColumnBuilder(), build.ColumnBuilder()
    for _ in range(2):
        builder.expect(rows, value_bytes)
        for one in (builder, other):
            one.append(batch.payload(), batch.record_count, 0, batch.base_timestamp, None)
        builder.expect(rows, value_bytes)
        assert rows_of(builder.finish()) == rows_of(other.finish())
    builder.expect(rows, value_bytes)
    assert rows_of(builder.finish()) == []


@pytest.mark.parametrize(("rows", "value_bytes"), [(-1, 0), (0, -1), (2**30 + 1, 0), (0, 2**62)])
def test_what_no_columns_could_hold_cannot_be_expected(build: Any, rows: int, value_bytes: int) -> None:
    with pytest.raises(ValueError, match="cannot be expected"):
        build.ColumnBuilder().expect(rows, value_bytes)


@settings(max_examples=30, deadline=None)
@given(row_lists(), st.integers(0, 70), st.integers(0, 400))
def test_room_for_a_header_is_left_in_front_and_may_be_written(
    build: Any, rows: list[Row], head_size: int, size_max: int
) -> None:
    encode = encoder(build, rows).encode
    start = 0
    while start < len(rows):
        bare, *told = encode(None, start, len(rows), size_max)
        section, *again = encode(None, start, len(rows), size_max, head_size)
        assert bytes(section) == bytes(head_size) + bytes(bare)
        assert again == told
        memoryview(section)[:head_size] = b"x" * head_size
        assert bytes(section) == b"x" * head_size + bytes(bare)
        start = told[0]


@pytest.mark.parametrize("head_size", [-1, 2**16 + 1])
def test_a_head_that_no_batch_has_is_refused(build: Any, head_size: int) -> None:
    with pytest.raises(ValueError, match="is no size of a head"):
        build.RowEncoder(3, 0, None, None, None).encode(None, 0, 3, 1000, head_size)


def test_a_null_list_has_no_headers_whatever_its_offsets_say(build: Any) -> None:
    _, _, offsets, names, values, count = header_view([(("a", b"x"),), (("b", b"y"),)])
    section, _, _, _ = build.RowEncoder(2, 0, None, None, (b"\x02", 0, offsets, names, values, count)).encode(
        None, 0, 2, 1000
    )
    assert bytes(section) == encode_record(0, 0, None, None, ()) + encode_record(1, 0, None, None, (("b", b"y"),))


def views_that_lie() -> list[Any]:
    def offsets(*values: int) -> bytes:
        return struct.pack(f"={len(values)}i", *values)

    return [
        (None, 0, offsets(0, 1), b"xy"),  # for one row only
        (None, 0, offsets(0, 1, 3), b"xy"),
        (None, 0, offsets(0, -1, 2), b"xy"),
        (None, 0, offsets(-1, 1, 2), b"xy"),
        (None, 0, offsets(2, 1, 2), b"xy"),
        (None, 0, offsets(0, 1, 2**31 - 1), b"xy"),
        (b"", 0, offsets(0, 1, 2), b"xy"),
        (b"\xff", 7, offsets(0, 1, 2), b"xy"),
        (b"\xff", 2**63 - 1, offsets(0, 1, 2), b"xy"),
        (b"\xff", -1, offsets(0, 1, 2), b"xy"),
        (None, 0, b"", b"xy"),
    ]


@pytest.mark.parametrize("view", views_that_lie())
def test_buffers_that_lead_out_of_themselves_are_refused(build: Any, view: Any) -> None:
    for key, value in ((view, None), (None, view)):
        with pytest.raises(ValueError):
            build.RowEncoder(2, 0, key, value, None).encode(None, 0, 2, 1000)
    with pytest.raises(ValueError):
        build.RowEncoder(2, 0, view, None, None).partitions(3)
    good = binary_view([b"a", b"b"])
    ends = struct.pack("=3i", 0, 1, 2)
    for names, values in ((view, good), (good, view)):
        with pytest.raises(ValueError):
            build.RowEncoder(2, 0, None, None, (None, 0, ends, names, values, 2)).encode(None, 0, 2, 1000)
    with pytest.raises(ValueError):
        build.RowEncoder(2, 0, None, None, (*view[:3], good, good, 2)).encode(None, 0, 2, 1000)


def random_view(random: Random, count: int) -> Any:
    """A column that may be good, and mostly is not."""
    offsets = [random.choice((random.randrange(-2, 20), random.randrange(8))) for _ in range(count + 1)]
    packed = struct.pack(f"={count + 1}i", *offsets)
    validity = random.choice((None, random.randbytes(random.randrange(3))))
    size = random.choice((len(packed), len(packed), len(packed) - 2))
    return validity, random.randrange(-1, 12), packed[:size], random.randbytes(random.randrange(20))


def outcome(work: Any) -> Any:
    try:
        return content(work())
    except (ValueError, IndexError) as error:
        return type(error)


def test_both_builds_say_the_same_of_any_buffers() -> None:
    random = Random(3)
    native, plain = twins.native(), twins.PLAIN
    outcomes: dict[bool, int] = {True: 0, False: 0}
    for _ in range(4000):
        count, header_count = random.randrange(6), random.randrange(4)
        lists = random_view(random, count)[:3]
        headers = (*lists, random_view(random, header_count), random_view(random, header_count), header_count)
        arguments = (
            count,
            random.choice((7, random.randbytes(8 * count), random.randbytes(3))),
            random.choice((None, random_view(random, count))),
            random.choice((None, random_view(random, count))),
            random.choice((None, None, headers)),
        )
        rows = random.choice((None, struct.pack("=4i", *(random.randrange(-1, 7) for _ in range(4)))))
        extent = (random.randrange(3), random.randrange(6), random.randrange(100))
        for ask in (
            lambda build, given=arguments, order=rows, part=extent: build.RowEncoder(*given).encode(order, *part),
            lambda build, given=arguments: build.RowEncoder(*given).partitions(5),
        ):
            found = outcome(lambda ask=ask: ask(native))
            assert found == outcome(lambda ask=ask: ask(plain)), arguments
            outcomes[isinstance(found, type)] += 1
    assert min(outcomes.values()) > 400, outcomes


def test_a_headers_name_is_text_and_never_null(build: Any) -> None:
    ends = struct.pack("=2i", 0, 1)
    value = binary_view([b"x"])
    for name in (None, b"\xff", b"a\xed\xa0\x80"):
        headers = (None, 0, ends, binary_view([name]), value, 1)
        with pytest.raises(ValueError, match="name is null or not UTF-8"):
            build.RowEncoder(1, 0, None, None, headers).encode(None, 0, 1, 1000)


def test_there_are_as_many_timestamps_as_rows(build: Any) -> None:
    with pytest.raises(ValueError, match="too small for 2 rows"):
        build.RowEncoder(2, bytes(15), None, None, None)
    with pytest.raises(ValueError):
        build.RowEncoder(-1, 0, None, None, None)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 1), (-1, 1), (0, 4), (3, 4)])
def test_a_range_that_is_not_there_is_refused(build: Any, start: int, stop: int) -> None:
    encode = build.RowEncoder(3, 0, None, None, None).encode
    with pytest.raises(IndexError, match="is no range of 3 rows"):
        encode(None, start, stop, 1000)
    with pytest.raises(IndexError, match="is no range of 3 rows"):
        encode(bytes(12), start, stop, 1000)


@pytest.mark.parametrize("row", [-1, 3, 2**31 - 1])
def test_a_row_that_is_not_there_is_refused(build: Any, row: int) -> None:
    with pytest.raises(IndexError, match=f"there is no row {row}"):
        build.RowEncoder(3, 0, None, None, None).encode(struct.pack("=2i", 0, row), 0, 2, 1000)


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=20), max_size=30), st.integers(1, 50), st.integers(0, 9))
def test_rows_go_where_their_keys_go(build: Any, keys: list[bytes | None], count: int, shift: int) -> None:
    partitions = build.RowEncoder(len(keys), 0, binary_view(keys, shift=shift), None, None).partitions(count)
    assert numbers(partitions, "i") == [-1 if key is None else twins.PLAIN.partition_of(key, count) for key in keys]


def test_rows_without_keys_go_nowhere_yet(build: Any) -> None:
    assert numbers(build.RowEncoder(2, 0, None, None, None).partitions(5), "i") == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        build.RowEncoder(2, 0, None, None, None).partitions(0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=60))
def test_rows_are_grouped_in_their_order(build: Any, groups: list[int]) -> None:
    rows, ends = build.group_rows(struct.pack(f"={len(groups)}i", *groups), 7)
    assert numbers(rows, "i") == sorted(range(len(groups)), key=groups.__getitem__)
    assert ends == [sum(group <= index for group in groups) for index in range(7)]


def test_a_group_that_is_not_there_is_refused(build: Any) -> None:
    for group in (-1, 3):
        with pytest.raises(ValueError, match="row 1 is in none of 3 groups"):
            build.group_rows(struct.pack("=2i", 2, group), 3)
    with pytest.raises(ValueError):
        build.group_rows(b"", -1)
    assert build.group_rows(b"", 0)[1] == []


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_what_was_read_is_written_again_byte_for_byte(build: Any, codec: Codec) -> None:
    batch = only(sample(codec))
    builder = build.ColumnBuilder()
    append(builder, sample(codec))
    columns = builder.finish()
    headers = columns.headers
    again = build.RowEncoder(
        columns.row_count,
        columns.timestamp,
        (columns.key.validity, 0, *columns.key[1:3]),
        (columns.value.validity, 0, *columns.value[1:3]),
        (
            None,
            0,
            headers.offsets,
            (headers.key.validity, 0, *headers.key[1:3]),
            (headers.value.validity, 0, *headers.value[1:3]),
            headers.header_count,
        ),
    )
    assert bytes(again.encode(None, 0, columns.row_count, 2**20)[0]) == batch.payload()

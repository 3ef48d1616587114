"""`append_record`, compiled and plain: the same bytes as `encode_record`, or nothing at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records import Header, Row, build_batch
from ottla.records.encode import encode_record
from tests.unit.records import twins
from tests.unit.records.samples import ROWS, header_list, only, row_lists


@pytest.fixture(scope="module", params=["native", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    return twins.named(request.param)


content = st.none() | st.binary(max_size=300) | st.integers(0, 70_000).map(bytes)
int64 = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(delta=st.integers(0, 2**31 - 1), timestamp=int64, key=content, value=content, headers=header_list())
def test_the_bytes_are_those_of_the_encoder(
    build: Any, delta: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
) -> None:
    section = bytearray(b"before")
    record = encode_record(delta, timestamp, key, value, headers)
    assert build.append_record(section, delta, timestamp, key, value, headers) == 6 + len(record)
    assert section == b"before" + record


@settings(deadline=None)
@given(row_lists())
def test_a_section_of_appended_records_is_that_of_a_built_batch(build: Any, rows: list[Row]) -> None:
    section = bytearray()
    for offset, timestamp, key, value, headers in rows:
        delta = (timestamp - rows[0][1] + 2**63) % 2**64 - 2**63
        build.append_record(section, offset - rows[0][0], delta, key, value, headers)
    assert bytes(section) == only(build_batch(rows)).payload()


def test_a_record_that_does_not_fit_leaves_the_section_as_it_was(build: Any) -> None:
    section = bytearray()
    size = build.append_record(section, 0, 0, b"key", b"value", (("name", b"x"),))
    before = bytes(section)
    for room in (-1, 0, size, 2 * size - 1):
        assert build.append_record(section, 0, 0, b"key", b"value", (("name", b"x"),), room) == -1
        assert section == before
    assert build.append_record(section, 0, 0, b"key", b"value", (("name", b"x"),), 2 * size) == 2 * size
    assert section == before * 2


def test_any_buffer_is_a_key_or_a_value_and_any_sequence_the_headers(build: Any) -> None:
    section = bytearray()
    headers = [["name", memoryview(b"x")], ("other", bytearray(b"y")), ("none", None)]
    build.append_record(section, 1, 2, bytearray(b"key"), memoryview(b"a value")[2:], headers)
    assert section == encode_record(1, 2, b"key", b"value", (("name", b"x"), ("other", b"y"), ("none", None)))


def test_more_headers_than_anyone_needs_are_written(build: Any) -> None:
    headers = tuple((f"header {number}", b"%d" % number) for number in range(1000))
    section = bytearray()
    build.append_record(section, 0, 0, None, None, headers)
    assert section == encode_record(0, 0, None, None, headers)


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 0, "key", b"", ()),
        (0, 0, b"", 17, ()),
        (0, 0, None, None, 17),
        (0, 0, None, None, (17,)),
        (0, 0, None, None, (("name",),)),
        (0, 0, None, None, (("name", b"x", b"y"),)),
        (0, 0, None, None, (("good", b"x"), ("name", "text"))),
        (0, 0, None, None, (("good", b"x"), (b"name", b"x"))),
        (0, 0, None, None, (("\ud800", b"x"),)),
        (0, "0", None, None, ()),
        ("0", 0, None, None, ()),
        (0, 0, None, None),
        (),
    ],
)
def test_what_is_no_record_is_refused_and_the_section_is_as_it_was(build: Any, arguments: tuple[Any, ...]) -> None:
    section = bytearray(b"before")
    with pytest.raises((TypeError, ValueError, AttributeError)):
        build.append_record(section, *arguments)
    assert section == b"before"
    section.append(0)  # and no one holds it


def test_a_section_that_someone_looks_at_does_not_grow(build: Any) -> None:
    section = bytearray()
    with memoryview(section), pytest.raises(BufferError):
        build.append_record(section, 0, 0, b"key", b"value", ())
    assert section == b""
    row = ROWS[0]
    assert build.append_record(section, 0, 0, row.key, row.value, row.headers) == len(section)

"""`ottla/records/varint.py`: the numbers inside records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecord
from ottla.records.varint import encode_varint, read_unsigned_varint, read_unsigned_varlong, to_int64, zigzag


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (63, "7e"), (64, "8001"), (-65, "8101"), (8191, "fe7f"),
        (8192, "808001"), (-8192, "ff7f"), (-8193, "818001"), (255, "fe03"), (256, "8004"), (-256, "ff03"),
        (-257, "8104"), (1048575, "feff7f"), (1048576, "80808001"),
        (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"),
    ],
)  # fmt: skip
def test_a_number_is_written_as_kafka_writes_it(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_int_is_read_back_as_it_was_written(number: int) -> None:
    encoded = encode_varint(number)
    raw, position = read_unsigned_varint(encoded, 0)
    assert (zigzag(raw), position) == (number, len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_is_read_back_as_it_was_written(number: int) -> None:
    encoded = encode_varint(number)
    raw, position = read_unsigned_varlong(encoded, 0)
    assert (zigzag(raw), position) == (number, len(encoded))


def test_an_int_of_more_than_five_bytes_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="5th byte"):
        read_unsigned_varint(b"\xff\xff\xff\xff\x80\x00", 0)


def test_a_long_of_more_than_ten_bytes_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="10th byte"):
        read_unsigned_varlong(b"\xff" * 9 + b"\x80\x00", 0)


def test_bits_beyond_the_width_are_dropped_as_java_drops_them() -> None:
    assert read_unsigned_varint(b"\xff\xff\xff\xff\x7f", 0) == (2**32 - 1, 5)
    assert read_unsigned_varlong(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)


def test_long_arithmetic_wraps_as_java_wraps_it() -> None:
    assert to_int64(2**63) == -(2**63)
    assert to_int64(-(2**63) - 1) == 2**63 - 1
    assert to_int64(-5) == -5

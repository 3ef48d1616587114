"""Variable-length integers: every length, and what is too long or cut off."""

from __future__ import annotations

import pytest

from ottla.wire.failures import Refused
from ottla.wire.varint import UVARINT_MAX, read_uvarint, uvarint

EDGES = [0, 1, 127, 128, 300, 16383, 16384, 2097151, 2097152, 268435455, 268435456, 0x7FFF_FFFF, UVARINT_MAX]


@pytest.mark.parametrize("value", EDGES)
def test_a_value_is_read_back(value: int) -> None:
    encoded = uvarint(value)
    assert read_uvarint(b"\xee" + encoded + b"\xee", 1) == (value, 1 + len(encoded))


def test_bytes_are_seven_bits_each_the_lowest_first() -> None:
    assert uvarint(127) == b"\x7f"
    assert uvarint(128) == b"\x80\x01"
    assert uvarint(300) == b"\xac\x02"
    assert uvarint(UVARINT_MAX) == b"\xff\xff\xff\xff\x0f"


@pytest.mark.parametrize("value", EDGES)
def test_a_value_cut_anywhere_is_an_index_error(value: int) -> None:
    encoded = uvarint(value)
    for size in range(len(encoded)):
        with pytest.raises(IndexError):
            read_uvarint(encoded[:size], 0)


@pytest.mark.parametrize("text", ["ffffffff10", "ffffffff7f", "ffffffffff", "808080808000", "8080808080"])
def test_more_than_five_bytes_or_32_bits_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_uvarint(bytes.fromhex(text), 0)


def test_leading_zeros_are_read_as_kafka_reads_them() -> None:
    assert read_uvarint(b"\x85\x00", 0) == (5, 2)
    assert read_uvarint(b"\x80\x80\x80\x80\x00", 0) == (0, 5)

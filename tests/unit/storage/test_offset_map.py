"""The dedupe buffer: what it remembers, when it is full, and that its memory is what it says."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.offset_map import ENTRY_BYTES, OffsetMap


def small(entries: int) -> OffsetMap:
    return OffsetMap(entries * ENTRY_BYTES)


def test_the_latest_offset_of_a_key_wins() -> None:
    offsets = small(10)
    assert offsets.put_all([b"a", b"b", b"a"], [3, 4, 5])
    assert offsets.put_all([b"b"], [9])
    assert offsets.latest([b"a", b"b", b"c"]) == [5, 9, -1]
    assert (len(offsets), offsets.end_offset) == (2, 10)


def test_a_full_map_says_so_and_ends_at_the_last_record_it_took() -> None:
    offsets = small(2)
    assert not offsets.put_all([b"a", b"b", b"c", b"d"], [10, 11, 12, 13])
    assert offsets.latest([b"a", b"b", b"c"]) == [10, 11, -1]
    assert offsets.end_offset == 12
    assert offsets.utilization == 1.0


def test_a_map_that_is_exactly_filled_takes_the_whole_batch() -> None:
    offsets = small(2)
    assert offsets.put_all([b"a", b"a", b"b"], [1, 2, 3])
    assert offsets.end_offset == 4


def test_a_full_map_does_not_even_take_a_key_it_knows() -> None:
    """As in Kafka: where it stops depends on how many keys there are, not on which comes next."""
    offsets = small(1)
    assert offsets.put_all([b"a"], [1])
    assert not offsets.put_all([b"a"], [2])
    assert offsets.latest([b"a"]) == [1]
    assert offsets.end_offset == 2


def test_the_load_factor_limits_how_full_it_gets() -> None:
    offsets = OffsetMap(10 * ENTRY_BYTES, 0.55)
    assert not offsets.put_all([b"%d" % n for n in range(10)], range(10))
    assert len(offsets) == 5
    assert offsets.utilization == 0.5


@pytest.mark.parametrize(("memory_bytes", "load_factor"), [(0, 1.0), (10 * ENTRY_BYTES, 0.0), (10 * ENTRY_BYTES, -3.0)])
def test_the_smallest_map_still_holds_a_key(memory_bytes: int, load_factor: float) -> None:
    offsets = OffsetMap(memory_bytes, load_factor)
    assert not offsets.put_all([b"a", b"b"], [0, 1])
    assert offsets.latest([b"a", b"b"]) == [0, -1]


@given(st.lists(st.tuples(st.binary(max_size=3) | st.binary(min_size=14, max_size=18)), max_size=60))
def test_keys_of_all_lengths_are_told_apart(rows: list[tuple[bytes]]) -> None:
    keys = [key for (key,) in rows]
    offsets = small(100)
    assert offsets.put_all(keys, range(len(keys)))
    expected = {key: offset for offset, key in enumerate(keys)}
    assert offsets.latest(list(expected)) == list(expected.values())
    assert len(offsets) == len(expected)


def test_a_short_key_cannot_be_taken_for_the_digest_of_a_long_one() -> None:
    """A key that spells the digest of another is 16 bytes long, and is therefore digested itself."""
    offsets = small(10)
    long_key = b"x" * 40
    offsets.put_all([long_key], [7])
    (code,) = offsets._offsets
    assert len(code) == 16
    assert offsets.latest([code, code[:15], long_key]) == [-1, -1, 7]


@pytest.mark.parametrize("key_size", [8, 40])
@pytest.mark.parametrize("entries", [5_000, 5_500, 40_000])
def test_it_never_takes_more_memory_than_it_was_given(key_size: int, entries: int) -> None:
    """5,461 entries fill a table of the dict: one side of a growth, and the other. Keys that were put may go away."""
    chance = random.Random(1)
    memory = entries * ENTRY_BYTES
    tracemalloc.start()
    try:
        offsets = OffsetMap(memory)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        offset = 1 << 40
        while offsets.put_all([chance.randbytes(key_size) for _ in range(100)], range(offset, offset + 100)):
            offset += 100
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(offsets) == entries
    batch_bytes = 100 * (key_size + 200)
    assert peak <= memory + batch_bytes

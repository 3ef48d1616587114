"""The offset index and the time index: look-ups, bounds, files, truncation."""

from __future__ import annotations

import bisect
import random
from pathlib import Path

import pytest

from ottla.storage.index import PENDING_MAX, CorruptIndex
from ottla.storage.offset_index import OffsetIndex, OffsetPosition
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.world.system import SystemDisk

DISK = SystemDisk()


def offset_index(path: Path, base_offset: int = 100, bytes_max: int = 1 << 20) -> OffsetIndex:
    size = path.stat().st_size if path.exists() else 0
    return OffsetIndex(DISK, str(path), base_offset, bytes_max=bytes_max, size=size)


def time_index(path: Path, base_offset: int = 100, bytes_max: int = 1 << 20) -> TimeIndex:
    size = path.stat().st_size if path.exists() else 0
    return TimeIndex(DISK, str(path), base_offset, bytes_max=bytes_max, size=size)


def test_an_empty_index_points_at_the_segments_start(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    assert index.floor(105) == OffsetPosition(100, 0)
    assert index.last_offset == 100
    assert index.ceiling_of_position(0) is None


def test_an_entry_is_eight_bytes_relative_to_the_base(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    index.append(105, 4100)
    index.append(300, 9000)
    index.write_out()
    index.rest()
    assert (tmp_path / "i").read_bytes() == bytes.fromhex("0000000500001004000000c800002328")


@pytest.mark.parametrize("seed", range(5))
def test_look_ups_agree_with_a_sorted_list_before_and_after_reopening(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([1, 2, 511, 513, 3000])
    offsets = sorted(rng.sample(range(100, 100_000), count))
    positions = sorted(rng.sample(range(1, 10_000_000), count))
    index = offset_index(tmp_path / "i")
    for offset, position in zip(offsets, positions, strict=True):
        index.append(offset, position)
    for _ in range(2):
        for target in [0, 99, 100, *offsets[:5], *offsets[-5:], *rng.sample(range(100_100), 200)]:
            place = bisect.bisect_right(offsets, target)
            expected = OffsetPosition(offsets[place - 1], positions[place - 1]) if place else OffsetPosition(100, 0)
            assert index.floor(target) == expected
        for target in rng.sample(range(10_000_100), 100):
            place = bisect.bisect_left(positions, target)
            wanted = OffsetPosition(offsets[place], positions[place]) if place < count else None
            assert index.ceiling_of_position(target) == wanted
        index.write_out()
        index.rest()
        index = offset_index(tmp_path / "i")
        assert index.last_offset == offsets[-1]


def test_memory_is_bounded_while_entries_wait_to_be_written(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    for number in range(10_000):
        index.append(101 + number, number + 1)
        assert index.size - index.file().size() <= PENDING_MAX
    assert index.floor(5000).position == 4900


def test_truncation_drops_the_entry_at_the_offset_and_all_above(tmp_path: Path) -> None:
    for written in (False, True):
        index = offset_index(tmp_path / f"i{written}")
        for offset in (110, 120, 130):
            index.append(offset, offset)
        if written:
            index.write_out()
        index.truncate_to(120)
        assert (index.entry_count, index.last_offset) == (1, 110)
        index.append(119, 200)
        assert index.floor(1000) == OffsetPosition(119, 200)
        index.truncate_to(50)
        assert index.entry_count == 0


def test_an_index_is_full_at_its_largest_size(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i", bytes_max=20)
    times = time_index(tmp_path / "t", bytes_max=36)
    for number in range(2):
        assert not index.is_full
        assert not times.is_full
        index.append(101 + number, 1 + number)
        times.append(1000 + number, 101 + number)
    assert index.is_full
    assert times.is_full, "one slot is kept for the entry that closes the segment"


def test_offsets_that_do_not_grow_break_a_promise(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    index.append(110, 1)
    with pytest.raises(AssertionError, match="not above the last one"):
        index.append(110, 2)
    with pytest.raises(AssertionError, match="too far"):
        index.append(100 + 2**31, 2)


def test_the_time_index_takes_only_growing_timestamps(tmp_path: Path) -> None:
    index = time_index(tmp_path / "t")
    assert index.last_entry == TimestampOffset(-1, 100)
    index.append(-1, 100)
    assert index.entry_count == 0
    index.append(1000, 110)
    index.append(1000, 120)
    index.append(900, 130)
    index.append(2000, 140)
    assert [index.entry_at(slot) for slot in range(index.entry_count)] == [(1000, 110), (2000, 140)]
    assert index.floor(1999) == (1000, 110)
    assert index.floor(999) == (-1, 100)
    index.truncate_to(140)
    assert index.last_entry == (1000, 110)
    index.write_out()
    index.rest()
    assert (tmp_path / "t").read_bytes() == bytes.fromhex("00000000000003e80000000a")


def test_an_index_that_cannot_be_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "i").write_bytes(bytes.fromhex("8000000500001004"))
    with pytest.raises(CorruptIndex, match="below the base offset"):
        offset_index(tmp_path / "i").check()
    (tmp_path / "t").write_bytes(bytes.fromhex("000000000000000900000001000000000000000800000002"))
    with pytest.raises(CorruptIndex, match="below the first"):
        time_index(tmp_path / "t").check()


def test_a_file_cut_while_in_use_is_noticed(tmp_path: Path) -> None:
    index = offset_index(tmp_path / "i")
    for offset in range(101, 200):
        index.append(offset, offset)
    index.write_out()
    index.rest()
    index = offset_index(tmp_path / "i")
    (tmp_path / "i").write_bytes(b"")
    with pytest.raises(CorruptIndex, match="cut while in use"):
        index.floor(150)

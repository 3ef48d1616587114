"""`take_memory`, compiled and plain: as much as was asked for, everyone's own, and used again when it is let go of."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest

from tests.unit.records import twins

MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["native", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    return twins.named(request.param)


@pytest.mark.parametrize("size", [0, 1, 100, 65_535, 65_536, 3 * MIB, 200 * MIB])
def test_memory_is_a_writable_view_of_bytes(build: Any, size: int) -> None:
    view = build.take_memory(size)
    assert isinstance(view, memoryview)
    assert (len(view), view.format, view.itemsize, view.readonly, view.c_contiguous) == (size, "B", 1, False, True)
    view[:3] = b"abc"[:size]
    assert bytes(view[:3]) == b"abc"[:size]


def test_what_is_no_size_is_refused(build: Any) -> None:
    with pytest.raises(ValueError):
        build.take_memory(-1)
    with pytest.raises(TypeError):
        build.take_memory("1")
    with pytest.raises((OverflowError, MemoryError)):
        build.take_memory(2**62)


def test_nobody_elses_memory_is_written_over(build: Any) -> None:
    random = Random(11)
    held: list[tuple[memoryview, int]] = []
    for number in range(300):
        view = build.take_memory(random.choice((10, 70_000, 300_000, MIB)))
        view[:] = bytes((number % 256,)) * len(view)
        held.append((view[len(view) // 3 :], number % 256))  # a part keeps the whole
        if len(held) > 5:
            part, expected = held.pop(random.randrange(len(held)))
            assert part.tobytes() == bytes((expected,)) * len(part)


def test_memory_that_was_let_go_of_is_taken_again() -> None:
    """And no more of it waits than a bound allows."""
    take_memory = twins.native().take_memory
    tracemalloc.start()
    try:
        first = take_memory(777_777)  # a size that no other block has: the one that fits best is taken
        first[:] = b"\x07" * 777_777
        del first
        assert take_memory(777_777)[:5] == b"\x07" * 5
        held = [take_memory(MIB) for _ in range(100)]
        del held
        assert tracemalloc.get_traced_memory()[0] < 65 * MIB
    finally:
        tracemalloc.stop()


def test_memory_that_nobody_used_is_empty() -> None:
    """It may have been anyone's in this process. A block so large is never kept."""
    assert twins.native().take_memory(65 * MIB).tobytes().count(0) == 65 * MIB

"""`ottla/net/framing.py`: frames out of bytes, however they arrive."""

from __future__ import annotations

import random
import struct

import pytest

from ottla.net import BadFrame, FrameReader, ReceiveBuffer
from ottla.net.framing import GROWTH, LARGE_MIN, SHARED_SIZE, SPARE_MAX

FRAME_MAX = 100 * 1024 * 1024


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


def give(reader: FrameReader, data: bytes) -> int:
    """Put what fits of `data` into the reader's buffer; how much that was."""
    buffer = reader.get_buffer()
    count = min(len(buffer), len(data))
    assert count > 0, "a buffer is never empty"
    buffer[:count] = data[:count]
    reader.received(count)
    return count


def cut(reader: FrameReader) -> list[bytes]:
    """All frames that are whole."""
    found = []
    while (frame := reader.next_frame()) is not None:
        found.append(bytes(frame))
    reader.keep()
    return found


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(data):
        position += give(reader, data[position:])
        found += cut(reader)
    return found


def test_many_frames_of_one_read_come_out_in_order() -> None:
    frames = [b"", b"a", b"bc" * 100, b"\0" * 5]
    assert feed(FrameReader(ReceiveBuffer(), FRAME_MAX), framed(*frames)) == frames


def test_frames_are_whole_wherever_the_reads_cut_them() -> None:
    """Byte by byte, and in random pieces, with frames around every size at which the reader changes its ways."""
    chance = random.Random(8472)
    around = [LARGE_MIN, SHARED_SIZE, GROWTH * LARGE_MIN, 4 * SHARED_SIZE]
    for round_number in range(30):
        near = [size + chance.randint(-5, 5) for size in around]
        sizes = [chance.choice([0, 1, 3, 17, 1000, *near]) for _ in range(12)]
        frames = [chance.randbytes(size) for size in sizes]
        data = framed(*frames)
        reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
        found, position = [], 0
        while position < len(data):
            piece = chance.choice([1, 3, 4, 1000, LARGE_MIN, SHARED_SIZE])
            position += give(reader, data[position : position + piece])
            found += cut(reader)
        assert found == frames, f"round {round_number}: sizes {sizes}"
        assert reader.held_bytes == 0


def test_readers_that_share_a_buffer_do_not_disturb_each_other() -> None:
    chance = random.Random(1)
    common = ReceiveBuffer()
    readers = [FrameReader(common, FRAME_MAX) for _ in range(5)]
    frames = [[chance.randbytes(chance.choice([9, 5000, 200_000])) for _ in range(8)] for _ in readers]
    data = [framed(*each) for each in frames]
    found: list[list[bytes]] = [[] for _ in readers]
    positions = [0] * len(readers)
    while any(position < len(each) for position, each in zip(positions, data, strict=True)):
        index = chance.randrange(len(readers))
        rest = data[index][positions[index] : positions[index] + chance.choice([2, 700, 60_000])]
        if rest:
            positions[index] += give(readers[index], rest)
            found[index] += cut(readers[index])
    assert found == frames


@pytest.mark.parametrize("size", [-1, -(2**31), FRAME_MAX + 1, 2**31 - 1])
def test_a_size_that_no_frame_may_have_is_refused_and_allocates_nothing(size: int) -> None:
    reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
    give(reader, struct.pack(">i", size) + b"abc")
    with pytest.raises(BadFrame, match=str(size)):
        reader.next_frame()
    assert reader.held_bytes == 0


def test_a_size_alone_allocates_nothing_and_a_frame_holds_little_more_than_has_arrived() -> None:
    reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
    give(reader, struct.pack(">i", FRAME_MAX))
    assert cut(reader) == []
    assert reader.held_bytes == 4
    arrived = 0
    while arrived < 10 * SHARED_SIZE:
        arrived += give(reader, bytes(10_000))
        assert cut(reader) == []
        assert reader.held_bytes <= GROWTH * arrived + LARGE_MIN


def test_a_silent_reader_holds_nothing_and_a_small_unfinished_frame_only_its_bytes() -> None:
    reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
    assert reader.held_bytes == 0
    give(reader, struct.pack(">i", LARGE_MIN - 1) + b"x" * 100)
    assert cut(reader) == []
    assert reader.held_bytes == 104


def test_a_frame_is_a_writable_view_of_where_it_was_received() -> None:
    common = ReceiveBuffer()
    reader = FrameReader(common, FRAME_MAX)
    give(reader, framed(b"small"))
    frame = reader.next_frame()
    assert frame is not None
    assert not frame.readonly
    assert frame.obj is common.view.obj


def test_a_large_frame_is_read_to_its_end_and_not_beyond() -> None:
    reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
    large = b"L" * (3 * SHARED_SIZE)
    data = framed(large, b"next")
    position = give(reader, data)
    assert cut(reader) == []
    while position < 4 + len(large):
        buffer = reader.get_buffer()
        assert len(buffer) <= 4 + len(large) - position
        position += give(reader, data[position:])
        if position < 4 + len(large):
            assert cut(reader) == []
    assert cut(reader) == [large]
    assert feed(reader, data[position:]) == [b"next"]


def test_large_buffers_are_used_again_and_only_a_few_are_kept() -> None:
    common = ReceiveBuffer()
    large = framed(b"L" * (SHARED_SIZE + 5))
    first = FrameReader(common, FRAME_MAX)
    assert len(feed(first, large)) == 1
    (kept,) = common.spare
    second = FrameReader(common, FRAME_MAX)
    give(second, large)
    assert cut(second) == []
    assert common.spare == []
    assert second.get_buffer().obj is kept.obj
    for _ in range(3 * SPARE_MAX):
        common.give_back(memoryview(bytearray(LARGE_MIN)))
    assert len(common.spare) == SPARE_MAX


@pytest.mark.parametrize("size", [5, LARGE_MIN + 7, 2 * SHARED_SIZE])
def test_a_frame_that_is_put_back_is_the_next_one_again(size: int) -> None:
    reader = FrameReader(ReceiveBuffer(), FRAME_MAX)
    data = framed(b"before", b"F" * size, b"after")
    found, position = [], 0
    is_put_back = False
    while position < len(data):
        position += give(reader, data[position:])
        while (frame := reader.next_frame()) is not None:
            if len(frame) == size and bytes(frame[:1]) == b"F" and not is_put_back:
                is_put_back = True
                reader.put_back(frame)
                reader.keep()
                continue
            found.append(bytes(frame))
        reader.keep()
    assert is_put_back
    assert found == [b"before", b"F" * size, b"after"]


def test_a_kept_frame_stays_as_it_is_whatever_comes_after_it() -> None:
    chance = random.Random(5)
    sizes = [10, LARGE_MIN - 1, LARGE_MIN, LARGE_MIN + 1, SHARED_SIZE, 3 * SHARED_SIZE, 0, 7, 5 * LARGE_MIN]
    frames = [chance.randbytes(size) for size in sizes for _ in range(3)]
    chance.shuffle(frames)
    reader = FrameReader(ReceiveBuffer(hands_over=True), 1 << 30)
    data = framed(*frames)
    kept = []
    position = 0
    while position < len(data):
        position += give(reader, data[position : position + chance.randrange(1, 200_000)])
        while (frame := reader.next_kept()) is not None:
            kept.append(frame)
        reader.keep()
    assert [bytes(frame) for frame in kept] == frames

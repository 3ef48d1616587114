"""Frames: a 4-byte size and that many bytes, cut out of what a connection receives.

All connections of a server receive into one `ReceiveBuffer`, because only one of them receives at a time: its stream
asks for the buffer, fills it and tells so with nothing in between. What arrives is parsed there and then; a connection
keeps for itself only an unfinished frame, so that a thousand silent ones cost nothing. A large frame is received where
it will be used, in a buffer that grows with what has really arrived: a size alone allocates nothing.

Promises: `next_frame` gives every frame once, whole and in order, as a writable view that is valid until the next call
of any method of any reader of the same buffer (who keeps a frame copies it); a size that is negative or above
`frame_max` raises `BadFrame`, and the reader is then of no more use. No I/O here: called by `server.session`.
"""

from __future__ import annotations

import struct

from ottla.world import untouched_memory

_SIZE = struct.Struct(">i")

SHARED_SIZE = 256 * 1024
"""Room of the common buffer: what one system call takes from a busy connection."""
LARGE_MIN = 64 * 1024
"""A frame from this size on gets a buffer of its own, once enough of it has arrived to pay for one."""
GROWTH = 4
"""A buffer of its own has room for at most this many times the bytes that have arrived."""
SPARE_MAX = 4
"""How many large buffers are kept for the next large frames."""
SPARE_SIZE_MAX = 2 * 1024 * 1024


class BadFrame(ValueError):
    """The peer does not speak in frames, or in larger ones than allowed."""


class ReceiveBuffer:
    """The memory that all connections of a server receive into, and a few large buffers for reuse.

    With `hands_over`, for clients, a large frame belongs to whoever gets it, for as long as there is a view of it.
    """

    __slots__ = ("_take_memory", "hands_over", "spare", "view")

    def __init__(self, *, hands_over: bool = False) -> None:
        # Most servers never receive that much at once.
        self.view = untouched_memory(SHARED_SIZE)
        self.spare: list[memoryview] = []
        self.hands_over = hands_over
        if hands_over:
            from ottla.records import take_memory  # with what is compiled, which a server has no use for here

            self._take_memory = take_memory

    def take(self, size: int) -> memoryview:
        """A buffer of at least `size` bytes. Its content is whatever it was last used for."""
        if self.hands_over:
            return self._take_memory(size)
        spare = self.spare
        for index in range(len(spare)):
            if size <= len(spare[index]) <= 2 * size:
                return spare.pop(index)
        # Rounded up, so that frames of nearly the same size reuse each other's buffers.
        return memoryview(bytearray(-(-size // LARGE_MIN) * LARGE_MIN))

    def give_back(self, buffer: memoryview) -> None:
        """Keep `buffer` for another frame, if it is of a size that comes again."""
        if len(buffer) <= SPARE_SIZE_MAX and not self.hands_over:
            if len(self.spare) == SPARE_MAX:
                del self.spare[0]
            self.spare.append(buffer)


class FrameReader:
    """Cuts the bytes of one connection into frames."""

    __slots__ = ("_common", "_end", "_filled", "_frame_max", "_kept", "_large", "_large_size", "_position", "_source")

    def __init__(self, common: ReceiveBuffer, frame_max: int) -> None:
        self._common = common
        self._frame_max = frame_max
        self._kept: memoryview | None = None
        """Bytes not given out yet, between two wake-ups: pipelined frames that wait, and the start of a small one."""
        self._source = common.view
        """Where `[position, end)` is still to be cut; meaningful between `received` and `keep`."""
        self._position = 0
        self._end = 0
        self._large: memoryview | None = None
        """The buffer of a large frame that is being received, its size bytes left out."""
        self._large_size = 0
        self._filled = 0

    @property
    def held_bytes(self) -> int:
        """Memory that this connection holds for unfinished or waiting frames."""
        kept, large = self._kept, self._large
        return (0 if kept is None else len(kept)) + (0 if large is None else len(large))

    def get_buffer(self) -> memoryview:
        """Where the next bytes go."""
        large = self._large
        if large is not None:
            if self._filled == len(large):
                large = self._grow(large)
            return large[self._filled : self._large_size]
        kept = self._kept
        if kept is None:
            return self._common.view
        view = self._common.view
        count = len(kept)
        assert count < len(view), "a reader asks for bytes only when it could cut no frame from what it keeps"
        view[:count] = kept
        return view[count:]

    def received(self, count: int) -> None:
        """That many bytes have been put into the buffer given last."""
        if self._large is not None:
            self._filled += count
            return
        self._source = self._common.view
        self._position = 0
        if self._kept is None:
            self._end = count
        else:
            self._end = len(self._kept) + count
            self._kept = None

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size, or None when more bytes are needed."""
        large = self._large
        if large is not None:
            if self._filled < self._large_size:
                return None
            self._large = None
            self._common.give_back(large)  # to be reused at the earliest by the next call
            return large[: self._large_size]
        kept = self._kept
        if kept is not None:
            # Frames that had to wait are cut where they are kept.
            self._source = kept
            self._position, self._end = 0, len(kept)
            self._kept = None
        position = self._position
        start = position + 4
        if start > self._end:
            return None
        size: int = _SIZE.unpack_from(self._source, position)[0]
        if size < 0 or size > self._frame_max:
            raise BadFrame(f"a frame of {size} bytes: it must have 0 to {self._frame_max}")
        end = start + size
        if end <= self._end:
            self._position = end
            return self._source[start:end]
        if size >= LARGE_MIN and self._end - start >= LARGE_MIN // GROWTH:
            self._begin_large(size, start)
        return None

    def next_kept(self) -> bytes | memoryview | None:
        """The next whole frame, to be kept: a large one where it was received, without a copy."""
        is_own = self._large is not None
        frame = self.next_frame()
        if frame is None or is_own:
            return frame
        if len(frame) < LARGE_MIN:
            return bytes(frame)
        kept = self._common.take(len(frame))
        kept[:] = frame
        return kept

    def put_back(self, frame: memoryview) -> None:
        """Let the frame given last be the next one again."""
        if self._position == 0:
            spare = self._common.spare
            self._large = next(spare.pop(index) for index in range(len(spare)) if spare[index].obj is frame.obj)
        else:
            self._position -= len(frame) + 4

    def keep(self) -> None:
        """Put aside what has not been given out, before the common buffer is used again."""
        common = self._common.view
        if self._position < self._end:
            rest = self._source[self._position : self._end]
            self._kept = memoryview(bytearray(rest)) if self._source is common else rest
        # The view goes, so that memory of frames that had to wait is given back.
        self._source = common
        self._position = self._end = 0

    def _begin_large(self, size: int, start: int) -> None:
        """Move the part of a large frame that is there into a buffer of its own."""
        filled = self._end - start
        # What a client has asked for comes. Memory that is new and not touched costs nothing.
        large = self._common.take(size if self._common.hands_over else min(size, GROWTH * filled))
        large[:filled] = self._source[start : self._end]
        self._large, self._large_size, self._filled = large, size, filled
        self._position = self._end

    def _grow(self, large: memoryview) -> memoryview:
        grown = self._common.take(min(self._large_size, GROWTH * self._filled))
        grown[: self._filled] = large
        self._common.give_back(large)
        self._large = grown
        return grown

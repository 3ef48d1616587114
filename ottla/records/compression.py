"""The five codecs, read and written in the framing that Kafka's Java code uses.

`compress` and `decompress` work on the whole records section of a batch. What is written, Kafka reads; what Kafka
wrote is read, and a stream that Kafka would refuse (linked LZ4 blocks, say) is refused, so that no batch gets into a
log that a Java consumer could not get out. Nothing is decompressed beyond `bytes_max`.
A codec's library is imported when that codec is first used. Called by `Batch`, `builder` and `rewrite`.

Every stream is decompressed a little at a time into memory that is used again for the next stream: the first touch of
a page costs more than what is done with it afterwards, and a C library gives large blocks back at once.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.errors import CorruptMessage, MessageTooLarge
from ottla.records.codec import Codec, check_level
from ottla.types import Buffer

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""What one batch may hold, decompressed, unless the caller says otherwise. Kafka streams, so it needs no such bound."""
KEPT_BYTES_MAX = 4 * 1024 * 1024
"""The largest block that is kept for the next stream: a few times what producers put into a batch, decompressed."""
KEPT_BLOCKS_MAX = 2
"""How many are kept: a client's loop and its helper decompress at the same time. A broker uses one."""
STEP_BYTES = 64 * 1024
"""What is read, and what is written, in one step: an LZ4 block, and less than what `malloc` maps anew each time."""

T = TypeVar("T")


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`data` as a stream of `codec`; `level` is one of Kafka's, `ValueError` when Kafka would refuse it."""
    return _COMPRESS[codec](data, level)


def decompress(codec: Codec, data: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """What the stream `data` holds.

    Raises `CorruptMessage` when the stream is damaged, cut off, or of a form that Kafka does not read, and
    `MessageTooLarge`, on which a producer splits its batch, when it holds more than `bytes_max`.
    """
    return with_decompressed(codec, data, bytes, bytes_max=bytes_max)


def with_decompressed(codec: Codec, data: Buffer, use: Callable[[memoryview], T], *, bytes_max: int) -> T:
    """What `use` makes of the content of the stream `data`, which it must not keep: the next stream overwrites it.

    Raises as `decompress` does.
    """
    if codec is Codec.NONE:
        if len(data) > bytes_max:
            raise _too_large(bytes_max)
        return use(memoryview(data))
    output = _Output(bytes_max)
    try:
        _DECOMPRESS[codec](memoryview(data), output)
        with output.content() as content:
            return use(content)
    finally:
        output.close()


class _Output:
    """Where a stream is decompressed to: a block that was kept, and that nobody else has meanwhile.

    It is given back at the end, unless it has become too large."""

    __slots__ = ("_memory", "_size", "_view", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        try:
            self._memory = _kept.pop()
        except IndexError:
            self._memory = bytearray()
        self._view = memoryview(self._memory)
        self._size = 0

    @property
    def step_bytes(self) -> int:
        """How much the next step may give: one byte more than may come at all, to see that there is more."""
        return min(STEP_BYTES, self.bytes_max - self._size + 1)

    def write(self, part: bytes) -> None:
        self.reserve(len(part))[:] = part

    def reserve(self, size: int) -> memoryview:
        """The next `size` bytes, to be written at once."""
        start = self._size
        end = start + size
        if end > self.bytes_max:
            raise _too_large(self.bytes_max)
        if end > len(self._view):
            self._grow(end)
        self._size = end
        return self._view[start:end]

    def _grow(self, size: int) -> None:
        """At least twofold, so that a stream of any size is copied once on average."""
        memory = bytearray(max(size, min(2 * len(self._view), self.bytes_max), STEP_BYTES))
        view = memoryview(memory)
        view[: self._size] = self._view[: self._size]
        self._memory, self._view = memory, view

    def content(self) -> memoryview:
        return self._view[: self._size]

    def close(self) -> None:
        self._view.release()
        if 0 < len(self._memory) <= KEPT_BYTES_MAX:
            _kept.append(self._memory)


_kept: deque[bytearray] = deque(maxlen=KEPT_BLOCKS_MAX)
"""Blocks for the next streams; threads may take and give back at the same time."""


def _corrupt(codec: Codec, reason: object) -> CorruptMessage:
    return CorruptMessage(f"Failed to decompress record stream ({codec.label}): {reason}")


def _too_large(bytes_max: int) -> MessageTooLarge:
    return MessageTooLarge(f"The record batch holds more than {bytes_max} bytes when decompressed")


# --- none ---


def _store(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


# --- gzip ---

_GZIP_WINDOW_BITS = 31  # the largest window (15), plus 16 for gzip's header and trailer
_GZIP_MAGIC = b"\x1f\x8b\x08"  # with the one method there is
_ISAL_LEVEL_MAX = 3


def _gzip(data: Buffer, level: int | None) -> bytes:
    """ISA-L for the default and its own levels, up to seven times as fast; zlib where more effort is asked for."""
    level = check_level(Codec.GZIP, level)
    if level > _ISAL_LEVEL_MAX:
        import zlib

        return zlib.compress(data, level, _GZIP_WINDOW_BITS)
    from isal import isal_zlib

    effort = isal_zlib.ISAL_DEFAULT_COMPRESSION if level < 0 else level
    compressed: bytes = isal_zlib.compress(data, effort, _GZIP_WINDOW_BITS)
    return compressed


def _gunzip(stream: memoryview, output: _Output) -> None:
    from isal import isal_zlib

    # Its stubs call it an instance.
    damage: type[Exception] = isal_zlib.error  # type: ignore[assignment]

    position = 0
    # A stream may be several members in a row. Java takes anything else behind a member for padding.
    while not position or stream[position : position + len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        member = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            piece: Buffer = member.unconsumed_tail
            if not piece:
                piece = stream[position : position + STEP_BYTES]
                position += len(piece)
            try:
                part = member.decompress(piece, output.step_bytes)
            except damage as error:
                raise _corrupt(Codec.GZIP, error) from None
            output.write(part)
            if not piece and not part and not member.eof:
                raise _corrupt(Codec.GZIP, "the stream ended prematurely")
        position -= len(member.unused_data)


# --- snappy: raw blocks, each with its size before it, behind the header of Java's SnappyOutputStream ---

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_MAGIC_HEAD = _SNAPPY_MAGIC[:4]  # all that Java asks of a header where a block's size could stand
_SNAPPY_HEADER = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)  # the version, and the oldest one that can read it
_SNAPPY_VERSION_MIN = 1
_SNAPPY_BLOCK_SIZE = 32 * 1024
_INT32 = struct.Struct(">i")


def _snap(data: Buffer, level: int | None) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    parts = [_SNAPPY_HEADER]
    for start in range(0, len(view), _SNAPPY_BLOCK_SIZE):
        block = bytes(snappy.compress_raw(bytes(view[start : start + _SNAPPY_BLOCK_SIZE])))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnap(stream: memoryview, output: _Output) -> None:
    if not stream:
        raise _corrupt(Codec.SNAPPY, "the stream is empty")
    if len(stream) < len(_SNAPPY_HEADER) or stream[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        # Some old clients sent one raw block without any framing, and Java still reads that.
        _unsnap_block(stream, output)
        return
    position = len(_SNAPPY_HEADER)
    while len(stream) - position >= _INT32.size:
        # Streams may follow one another, each with its header.
        if stream[position : position + len(_SNAPPY_MAGIC_HEAD)] == _SNAPPY_MAGIC_HEAD:
            _check_snappy_version(stream[position : position + len(_SNAPPY_HEADER)])
            position += len(_SNAPPY_HEADER)
            continue
        size: int = _INT32.unpack_from(stream, position)[0]
        position += _INT32.size
        if not 0 <= size <= len(stream) - position:
            raise _corrupt(Codec.SNAPPY, f"a block of {size} bytes where {len(stream) - position} are left")
        _unsnap_block(stream[position : position + size], output)
        position += size


def _check_snappy_version(header: memoryview) -> None:
    """Refuse what is older than the first version: in headers after the first, where Java does so too."""
    if len(header) < len(_SNAPPY_HEADER):
        raise _corrupt(Codec.SNAPPY, "the stream ends inside a header")
    version: int = _INT32.unpack_from(header, len(_SNAPPY_MAGIC))[0]
    if version < _SNAPPY_VERSION_MIN:
        raise _corrupt(Codec.SNAPPY, f"version {version} of the framing is not supported")


def _unsnap_block(block: memoryview, output: _Output) -> None:
    import cramjam

    try:
        # The size stands in front of the block.
        target = output.reserve(cramjam.snappy.decompress_raw_len(block))
        cramjam.snappy.decompress_raw_into(block, target)
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, error) from None


# --- lz4: the frame format, with independent blocks of 64 KiB and no checksums but the header's ---

_LZ4_DEFAULT_LEVEL = check_level(Codec.LZ4, None)
_LZ4_HC_LEVEL_MIN = 3
_LZ4_HC_LEVEL_MAX = 12
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_POSITION = 4
_LZ4_BLOCK_SIZE_POSITION = 5


def _lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame

    level = check_level(Codec.LZ4, level)
    # Kafka takes its default level for "the fast compressor" and every other, lower ones too, for the slow one.
    if level == _LZ4_DEFAULT_LEVEL:
        effort = 0
    else:
        effort = min(max(level, _LZ4_HC_LEVEL_MIN), _LZ4_HC_LEVEL_MAX)
    compressed: bytes = frame.compress(
        data, compression_level=effort, block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return compressed


def _unlz4(stream: memoryview, output: _Output) -> None:
    from lz4 import frame

    _check_lz4_header(stream)
    context = frame.create_decompression_context()
    is_complete = False
    while not is_complete:
        try:
            part, consumed, is_complete = frame.decompress_chunk(context, stream, max_length=output.step_bytes)
        except RuntimeError as error:
            raise _corrupt(Codec.LZ4, error) from None
        output.write(part)
        if not is_complete and consumed == 0 and not part:
            raise _corrupt(Codec.LZ4, "the stream ended prematurely")
        stream = stream[consumed:]
    # What follows the frame is not looked at, here as in Kafka.


def _check_lz4_header(stream: memoryview) -> None:
    """Refuse what the library could read and Kafka cannot: it knows one version, and only independent blocks."""
    if len(stream) <= _LZ4_BLOCK_SIZE_POSITION:
        raise _corrupt(Codec.LZ4, "the stream ended prematurely")
    if stream[: len(_LZ4_MAGIC)] != _LZ4_MAGIC:
        raise _corrupt(Codec.LZ4, "the stream does not begin with a frame's magic bytes")
    flags = stream[_LZ4_FLAGS_POSITION]
    if flags >> 6 != 1:
        raise _corrupt(Codec.LZ4, f"version {flags >> 6} of the frame format is not supported")
    if not flags & 0x20:
        raise _corrupt(Codec.LZ4, "blocks that depend on one another are not supported")
    if flags & 0x03:
        raise _corrupt(Codec.LZ4, "reserved flags are set")
    block_size = stream[_LZ4_BLOCK_SIZE_POSITION]
    if block_size & 0x8F or block_size >> 4 < 4:
        raise _corrupt(Codec.LZ4, f"block size code {block_size:#04x} is not supported")


# --- zstd ---


def _zstd_library() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _zstd(data: Buffer, level: int | None) -> bytes:
    compressed: bytes = _zstd_library().compress(data, check_level(Codec.ZSTD, level))
    return compressed


def _unzstd(stream: memoryview, output: _Output) -> None:
    zstd = _zstd_library()
    position = 0
    while position < len(stream):  # frames may follow one another
        frame = zstd.ZstdDecompressor()
        while not frame.eof:
            piece: Buffer = b""
            if frame.needs_input:
                piece = stream[position : position + STEP_BYTES]
                position += len(piece)
                if not piece:
                    raise _corrupt(Codec.ZSTD, "the stream ended prematurely")
            try:
                part = frame.decompress(piece, output.step_bytes)
            except zstd.ZstdError as error:
                raise _corrupt(Codec.ZSTD, error) from None
            output.write(part)
        position -= len(frame.unused_data)


_COMPRESS: dict[Codec, Callable[[Buffer, int | None], bytes]] = {
    Codec.NONE: _store,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snap,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}

_DECOMPRESS: dict[Codec, Callable[[memoryview, _Output], None]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}

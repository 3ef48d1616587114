"""What `ottla/records/compression.py` must read out of a stream, the plain way: all of it in one call of the library.

The decompressors that Ottla had before it used memory again. They are slow and simple, and tests hold the others to
what they answer: the same bytes, or the same error.
"""

from __future__ import annotations

from collections.abc import Callable

import cramjam
from isal import isal_zlib
from lz4 import frame

from ottla.errors import CorruptMessage, MessageTooLarge
from ottla.records import Codec
from ottla.records.compression import (
    _GZIP_MAGIC,
    _GZIP_WINDOW_BITS,
    _INT32,
    _SNAPPY_HEADER,
    _SNAPPY_MAGIC,
    _SNAPPY_MAGIC_HEAD,
    _check_lz4_header,
    _check_snappy_version,
    _corrupt,
    _too_large,
    _zstd_library,
)


def whole(codec: Codec, data: bytes, bytes_max: int) -> bytes | tuple[type[Exception], str]:
    """What the stream holds, or the error that it must raise."""
    try:
        return _WHOLE[codec](data, bytes_max)
    except (CorruptMessage, MessageTooLarge) as error:
        return type(error), error.message


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    # Its stubs call it an instance.
    damage: type[Exception] = isal_zlib.error  # type: ignore[assignment]

    rest = data
    parts: list[bytes] = []
    room = bytes_max
    # A stream may be several members in a row. Java takes anything else behind a member for padding.
    while not parts or rest.startswith(_GZIP_MAGIC):
        stream = isal_zlib.decompressobj(_GZIP_WINDOW_BITS)
        try:
            part = stream.decompress(rest, room + 1)
        except damage as error:
            raise _corrupt(Codec.GZIP, error) from None
        room -= len(part)
        if room < 0:
            raise _too_large(bytes_max)
        if not stream.eof:
            raise _corrupt(Codec.GZIP, "the stream ended prematurely")
        parts.append(part)
        rest = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnap(data: bytes, bytes_max: int) -> bytes:
    stream = data
    if not stream:
        raise _corrupt(Codec.SNAPPY, "the stream is empty")
    if len(stream) < len(_SNAPPY_HEADER) or not stream.startswith(_SNAPPY_MAGIC):
        # Some old clients sent one raw block without any framing, and Java still reads that.
        return _unsnap_block(stream, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position = len(_SNAPPY_HEADER)
    while len(stream) - position >= _INT32.size:
        if stream.startswith(_SNAPPY_MAGIC_HEAD, position):  # streams may follow one another, each with its header
            _check_snappy_version(memoryview(stream)[position : position + len(_SNAPPY_HEADER)])
            position += len(_SNAPPY_HEADER)
            continue
        size: int = _INT32.unpack_from(stream, position)[0]
        position += _INT32.size
        if not 0 <= size <= len(stream) - position:
            raise _corrupt(Codec.SNAPPY, f"a block of {size} bytes where {len(stream) - position} are left")
        part = _unsnap_block(stream[position : position + size], room, bytes_max)
        position += size
        room -= len(part)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnap_block(block: bytes, room: int, bytes_max: int) -> bytes:
    try:
        # The size stands in front of the block: ask before the library reserves that much.
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise _too_large(bytes_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _corrupt(Codec.SNAPPY, error) from None


def _unlz4(data: bytes, bytes_max: int) -> bytes:
    stream = memoryview(data)
    _check_lz4_header(stream)
    context = frame.create_decompression_context()
    parts: list[bytes] = []
    room = bytes_max
    # The library reserves as much as it is allowed to give, so it is asked for a likely amount at a time.
    step = max(64 * 1024, 4 * len(stream))
    is_complete = False
    while not is_complete:
        try:
            part, consumed, is_complete = frame.decompress_chunk(context, stream, max_length=min(step, room + 1))
        except RuntimeError as error:
            raise _corrupt(Codec.LZ4, error) from None
        room -= len(part)
        if room < 0:
            raise _too_large(bytes_max)
        if not is_complete and consumed == 0 and not part:
            raise _corrupt(Codec.LZ4, "the stream ended prematurely")
        parts.append(part)
        stream = stream[consumed:]
    # What follows the frame is not looked at, here as in Kafka.
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unzstd(data: bytes, bytes_max: int) -> bytes:
    zstd = _zstd_library()
    rest = data
    parts: list[bytes] = []
    room = bytes_max
    while rest:  # frames may follow one another
        stream = zstd.ZstdDecompressor()
        try:
            part = stream.decompress(rest, room + 1)
        except zstd.ZstdError as error:
            raise _corrupt(Codec.ZSTD, error) from None
        room -= len(part)
        if room < 0:
            raise _too_large(bytes_max)
        if not stream.eof:
            raise _corrupt(Codec.ZSTD, "the stream ended prematurely")
        parts.append(part)
        rest = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


_WHOLE: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}

"""The keys of a changelog, byte for byte as Kafka Streams lays them out.

| store | bytes |
|---|---|
| key-value | key |
| window | key, start of the window (8), 0 (4) |
| session | key, end of the session (8), start of the session (8) |
| map | length of the key (4), key, inner key |

Times are ms since the epoch, all numbers big-endian. Promises: `read_key(kind, write_key(kind, key)) == key`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, assert_never

from ottla.client.errors import SerializationError
from ottla.pipelines.streams.stores.spec import StoreKind

_WINDOW = struct.Struct(">qi")
_SESSION = struct.Struct(">qq")
_LENGTH = struct.Struct(">i")


class StoreKey(NamedTuple):
    """A key's parts. Without windows `start_ms` and `end_ms` are 0; without inner keys `inner` is empty."""

    key: bytes
    start_ms: int = 0
    end_ms: int = 0
    inner: bytes = b""


def write_key(kind: StoreKind, key: StoreKey) -> bytes:
    """The bytes of a changelog record's key."""
    match kind:
        case StoreKind.KEY_VALUE:
            return key.key
        case StoreKind.WINDOW:
            return key.key + _WINDOW.pack(key.start_ms, 0)
        case StoreKind.SESSION:
            return key.key + _SESSION.pack(key.end_ms, key.start_ms)
        case StoreKind.MAP:
            return _LENGTH.pack(len(key.key)) + key.key + key.inner
        case _:
            assert_never(kind)


def read_key(kind: StoreKind, data: bytes, *, window_ms: int | None = None) -> StoreKey:
    """The parts of a changelog record's key; `SerializationError` for bytes that cannot be one of this kind."""
    try:
        match kind:
            case StoreKind.KEY_VALUE:
                return StoreKey(data)
            case StoreKind.WINDOW:
                start_ms, _ = _WINDOW.unpack(data[-_WINDOW.size :])
                return StoreKey(data[: -_WINDOW.size], start_ms, start_ms + (window_ms or 0))
            case StoreKind.SESSION:
                end_ms, start_ms = _SESSION.unpack(data[-_SESSION.size :])
                return StoreKey(data[: -_SESSION.size], start_ms, end_ms)
            case StoreKind.MAP:
                (size,) = _LENGTH.unpack_from(data)
                if not 0 <= size <= len(data) - _LENGTH.size:
                    raise SerializationError(f"a map store's key of {len(data)} bytes says its first part has {size}")
                return StoreKey(data[_LENGTH.size : _LENGTH.size + size], inner=data[_LENGTH.size + size :])
            case _:
                assert_never(kind)
    except struct.error as error:
        raise SerializationError(f"{len(data)} bytes are no key of a {kind.value} store: {error}") from error

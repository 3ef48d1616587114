"""Keys and values as text, numbers or bytes: the decoders that Kafka names by their Java classes.

Only the four classes that Kafka ships can be named; there is no JVM here to load another.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TypeAlias

from ottla.cli.dump.java_text import Json, utf8_text
from ottla.cli.dump.options import STRING_DECODER, ContentDecoder, Undecodable

BytesDecoder: TypeAlias = Callable[[bytes], str]

_PACKAGE = STRING_DECODER.removesuffix("StringDecoder")


def class_decoder(key_class: str, value_class: str) -> ContentDecoder:
    """Shows keys and values as the named classes do; `ValueError` for a name that is not among them."""
    key_decoder, value_decoder = _find(key_class), _find(value_class)

    def decode(offset: int, key: bytes | None, value: bytes | None) -> dict[str, Json]:
        fields: dict[str, Json] = {}
        if key is not None:
            fields["key"] = key_decoder(key)
        if value is not None:
            fields["payload"] = value_decoder(value)
        return fields

    return decode


def _find(name: str) -> BytesDecoder:
    decoder = _DECODERS.get(name)
    if decoder is None:
        raise ValueError(f"{name} is not supported: only {', '.join(_DECODERS)} are, as no Java class can be loaded")
    return decoder


def _number_decoder(kind: str, struct: Struct) -> BytesDecoder:
    def decode(data: bytes) -> str:
        if len(data) < struct.size:
            raise Undecodable(f"{kind} has {struct.size} bytes, and there are {len(data)}")
        return str(struct.unpack_from(data)[0])

    return decode


_DECODERS: dict[str, BytesDecoder] = {
    STRING_DECODER: utf8_text,
    f"{_PACKAGE}LongDecoder": _number_decoder("a long", Struct(">q")),
    f"{_PACKAGE}IntegerDecoder": _number_decoder("an integer", Struct(">i")),
    # Java prints an address for a byte array; the bytes are of more use.
    f"{_PACKAGE}DefaultDecoder": bytes.hex,
}

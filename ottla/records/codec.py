"""The names and numbers of Kafka's compression codecs, and the levels each takes.

The number is what a batch's attributes carry in their three lowest bits; the name is what `compression.type` says.
No library is imported here: `compression` does that for the codec that is used.
"""

from __future__ import annotations

from enum import IntEnum

from ottla.errors import UnsupportedCompressionType

CODEC_MASK = 0x07


class Codec(IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of_id(cls, number: int) -> Codec:
        """The codec of a batch's attributes; `UnsupportedCompressionType` for the three numbers Kafka leaves unused."""
        try:
            return _BY_ID[number]
        except IndexError:
            raise UnsupportedCompressionType(f"Unknown compression type id: {number}") from None

    @classmethod
    def of_name(cls, name: str) -> Codec:
        """The codec that a setting names (`none`, `gzip`, `snappy`, `lz4`, `zstd`); `ValueError` for another word."""
        for codec in _BY_ID:
            if codec.label == name:
                return codec
        raise ValueError(f"Unknown compression name: {name}")

    @property
    def label(self) -> str:
        """The codec as settings and tools spell it."""
        return self.name.lower()


_BY_ID = tuple(Codec)

# (lowest, highest, default). gzip's default is zlib's own "-1", which lies outside the range and is allowed as well.
LEVELS: dict[Codec, tuple[int, int, int]] = {
    Codec.GZIP: (1, 9, -1),
    Codec.LZ4: (1, 17, 9),
    Codec.ZSTD: (-131072, 22, 3),
}


def check_level(codec: Codec, level: int | None) -> int:
    """The level to compress with: `level`, or the default for `None`; `ValueError` when Kafka would refuse it."""
    lowest, highest, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not lowest <= level <= highest:
        raise ValueError(f"{codec.label} doesn't support given compression level: {level}")
    return level

"""One record of a batch: offset, timestamp, key, value and headers, in that order.

Two forms of the same five fields. A `Row` is a plain tuple, which is what the decoder makes because nothing in Python
is cheaper to make; a `Record` is a row with names, for code that reads better with them. Whatever takes rows takes
records too.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]
"""A header's key and its value, which may be null."""

Row: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""offset, timestamp, key, value, headers"""


class Record(NamedTuple):
    """A record with its place in the log. `key` and `value` may be null; headers keep their order and may repeat."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def named(rows: list[Row]) -> list[Record]:
    """Give the fields of rows their names."""
    return list(map(_named, rows))


# What `Record._make` does, without a call into Python for each record.
_named = partial(tuple.__new__, Record)

"""What turns the bytes of a column into typed values: the face that `JsonValues` and `AvroValues` have in common."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class BadValue(ValueError):
    """Row `row` of a column is not what it should be; the reader tells which record that is."""

    def __init__(self, row: int, why: str) -> None:
        self.row = row
        self.why = why
        super().__init__(f"row {row}: {why}")


class ValueDecoder(Protocol):
    """Decodes a whole column at once."""

    @property
    def type(self) -> pa.DataType:
        """The type of what `decode` returns, the same for every batch of a stream."""
        ...

    def decode(self, values: pa.Array) -> pa.Array:
        """The column `values`, of type binary, as typed values; null stays null. `BadValue` at the first bad one."""
        ...

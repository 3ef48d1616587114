"""Arrow arrays of a few plain values, made without `pyarrow.array` and `pyarrow.scalar`.

Those two look whether they were given something of pandas and import it for that, where it is installed: a quarter of
a second in the first `poll_arrow` or `send_arrow` of a process that may never use it. The reader and the writer make
their arrays of buffers instead, here and from what `ottla.records` fills.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pyarrow as pa

from ottla.types import Buffer

_FORMS = {pa.int8(): "b", pa.int32(): "i", pa.int64(): "q"}


def numbers_in(kind: pa.DataType, buffer: Buffer, count: int) -> pa.Array:
    """The numbers that a buffer holds, none of them null."""
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(buffer)], null_count=0)


def numbers(kind: pa.DataType, values: Sequence[int]) -> pa.Array:
    """An array of int8, int32 or int64."""
    return numbers_in(kind, memoryview(array(_FORMS[kind], values)), len(values))


def number(kind: pa.DataType, value: int) -> pa.Scalar:
    """One number, for the functions of `pyarrow.compute`."""
    return numbers(kind, [value])[0]


def repeated(kind: pa.DataType, values: Sequence[int], counts: Sequence[int]) -> pa.Array:
    """Each value as often as its count says."""
    found = array(_FORMS[kind])
    for value, count in zip(values, counts, strict=True):
        found.extend(array(_FORMS[kind], (value,)) * count)
    return numbers_in(kind, memoryview(found), len(found))


def texts(values: Sequence[str]) -> pa.Array:
    """An array of text."""
    encoded = [value.encode() for value in values]
    ends = array("i", (0,))
    for one in encoded:
        ends.append(ends[-1] + len(one))
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))], null_count=0
    )

"""Columns through Python, an Arrow batch at a time.

A form is what travels to the workers: small, frozen, equal when it means the same. It is opened once a process, so that
parsed schemas and a registry's answers outlive the batches and tasks that used them. Promises: a value that cannot be
read costs that value and no other; whatever is not the value's fault (a registry that does not answer) fails the task.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from ottla.client.errors import SchemaRegistryError, SerializationError

# Its overloads ask for a kind of function, which it warns of: the annotations of the function are to say it.
_UDF: Any = arrow_udf

FORMS_MAX = 64
"""How many forms a process keeps open."""
NOT_FOUND = 404


class ReadingForm(Protocol):
    """How bytes become what Arrow takes for a value of the column's type."""

    def __hash__(self) -> int: ...

    def open_reader(self) -> Callable[[bytes], Any]: ...


class WritingForm(Protocol):
    """How what Arrow gives for a value becomes bytes."""

    def __hash__(self) -> int: ...

    def open_writer(self) -> Callable[[Any], bytes]: ...


def read_column(form: ReadingForm, data_type: DataType, column: Column) -> Column:
    """A struct: `value`, and `error` with the reason where there is none."""
    result = StructType().add("value", data_type).add("error", StringType())
    arrow = to_arrow_type(result, timezone="UTC")

    def read(values: pa.Array) -> pa.Array:
        return read_batch(_reader(form), values, arrow)

    made: Column = _UDF(read, result)(column)
    return made


def write_column(form: WritingForm, column: Column) -> Column:
    """The bytes; a value that cannot be written fails the task, with the reason."""

    def write(values: pa.Array) -> pa.Array:
        return write_batch(_writer(form), values)

    made: Column = _UDF(write, BinaryType())(column)
    return made


def try_write_column(form: WritingForm, column: Column) -> Column:
    """A struct: `value`, and `error` with the reason where the value cannot be written."""
    result = StructType().add("value", BinaryType()).add("error", StringType())
    arrow = to_arrow_type(result, timezone="UTC")

    def write(values: pa.Array) -> pa.Array:
        return try_write_batch(_writer(form), values, arrow)

    made: Column = _UDF(write, result)(column)
    return made


def read_batch(read: Callable[[bytes], Any], values: pa.Array, arrow: pa.DataType) -> pa.Array:
    rows = [_read_one(read, data) for data in values.to_pylist()]
    try:
        return pa.array(rows, type=arrow)
    except (pa.ArrowException, OverflowError):
        # One value that the type has no room for takes the batch with it: each is tried alone.
        return pa.array([_fitted(row, arrow) for row in rows], type=arrow)


def write_batch(write: Callable[[Any], bytes], values: pa.Array) -> pa.Array:
    rows = values.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if row is None else write(row) for row in rows], type=pa.binary())


def try_write_batch(write: Callable[[Any], bytes], values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return pa.array([_write_one(write, row) for row in values.to_pylist(maps_as_pydicts="strict")], type=arrow)


def _read_one(read: Callable[[bytes], Any], data: bytes | None) -> tuple[Any, str | None]:
    if data is None:
        return None, None
    try:
        return read(data), None
    except SchemaRegistryError as error:
        if error.status != NOT_FOUND:
            raise
        return None, str(error)
    except SerializationError as error:
        return None, _reason(error)


def _write_one(write: Callable[[Any], bytes], row: Any) -> tuple[bytes | None, str | None]:
    if row is None:
        return None, None
    try:
        return write(row), None
    except SerializationError as error:
        return None, _reason(error)


def _reason(error: SerializationError) -> str:
    """What a serializer says, but for the topic's name, which a column does not know: it was given as an empty one."""
    return re.sub(r" (from|for) topic (?= |$)", "", str(error))


def _fitted(row: tuple[Any, str | None], arrow: pa.DataType) -> tuple[Any, str | None]:
    try:
        pa.array([row], type=arrow)
    except (pa.ArrowException, OverflowError) as error:
        return None, f"the value does not fit its column: {error}"
    return row


@lru_cache(maxsize=FORMS_MAX)
def _reader(form: ReadingForm) -> Callable[[bytes], Any]:
    return form.open_reader()


@lru_cache(maxsize=FORMS_MAX)
def _writer(form: WritingForm) -> Callable[[Any], bytes]:
    return form.open_writer()

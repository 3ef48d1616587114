"""Users' functions and serdes as Columns.

A frame that is worked on has the columns `key`, `value` and `timestamp` (milliseconds). Expressions are SQL text over
them, functions of Columns with as many arguments as they take, or Python functions, which run as Arrow UDFs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Expression, Python, arity
from ottla.pipelines.streams.serdes import Serde

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.udf import UserDefinedFunction

# Spark's own form drops microseconds.
JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def column(expression: Expression, *names: str, alive: Column | None = None) -> Column:
    """An expression over the named columns; a function may take fewer, the last ones: `value` before `key, value`.

    `alive` says for which rows it is to be worked out at all: others may hold what it was never meant for.
    """
    if isinstance(expression, str):
        result = F.expr(expression)
    elif isinstance(expression, Python):
        return _python(expression, _taken(expression.function, names), alive)
    else:
        result = expression(*(F.col(name) for name in _taken(expression, names)))
        if not hasattr(result, "_jc") and not hasattr(result, "_expr"):
            raise PipelineError(
                f"a function of Columns must return a Column, not {result!r}: mark one of plain values with python(...)"
            )
    return result if alive is None else F.when(alive, result)


def called(function: Python, alive: Column | None, *, answer: bool) -> Column:
    """A Python function called for its effect with `key` and `value`; the Column is always `answer`."""
    wanted = function.function
    taken = _taken(wanted, ("key", "value"))

    def call(is_alive: bool, *arguments: Any) -> bool:
        if is_alive:
            wanted(*arguments)
        return answer

    return _udf(call, "boolean").asNondeterministic()(
        F.lit(True) if alive is None else alive, *(F.col(name) for name in taken)
    )


def decode(serde: Serde, bytes_column: str) -> Column:
    """A topic's bytes as a value; null stays null."""
    raw = F.col(bytes_column)
    if serde.decode is not None:
        return serde.decode(raw)  # type: ignore[no-any-return]
    match serde.name:
        case "bytes":
            return raw
        case "string":
            return raw.cast("string")
        case "integer" | "long":
            # A base below zero has eight bytes read as two's complement; of four, those above the half are negative.
            width = 4 if serde.name == "integer" else 8
            number = F.conv(F.hex(raw), 16, -10).cast("bigint")
            if width == 4:
                number = F.when(number >= 1 << 31, number - (1 << 32)).otherwise(number)
            return F.when(F.length(raw) == width, number.cast(serde.type))
        case "double":
            return _double(raw)
        case "json":
            return F.from_json(raw.cast("string"), DataType.fromDDL(serde.type), JSON)  # type: ignore[arg-type]
    raise PipelineError(f"the serde {serde.name} has no decode function")


def encode(serde: Serde, value: Column) -> Column:
    """A value as a topic's bytes; null stays null."""
    if serde.encode is not None:
        return serde.encode(value)  # type: ignore[no-any-return]
    match serde.name:
        case "bytes" | "string":
            return value.cast("binary") if serde.name == "bytes" else value.cast("string").cast("binary")
        case "integer":
            return F.unhex(F.lpad(F.right(F.hex(value.cast("bigint")), F.lit(8)), 8, "0"))
        case "long":
            return F.unhex(F.lpad(F.hex(value.cast("bigint")), 16, "0"))
        case "double":
            return _double_bytes(value)
        case "json":
            return F.when(value.isNotNull(), F.to_json(value, JSON)).cast("binary")
    raise PipelineError(f"the serde {serde.name} has no encode function")


def serde_of(kind: DataType) -> Serde:
    """The serde a value's type asks for when none is given."""
    match kind:
        case StringType():
            return Serde.of("string")
        case BinaryType():
            return Serde.of("bytes")
        case IntegerType() | ShortType():
            return Serde.of("integer")
        case LongType():
            return Serde.of("long")
        case DoubleType() | FloatType():
            return Serde.of("double")
        case StructType() | ArrayType() | MapType():
            return Serde("json", kind.simpleString())
        case BooleanType():
            return Serde.of("string")
    return Serde.of("string")


def text(value: Column, name: str) -> Column:
    """A value as JSON text `{name: value}`, from which `untext` makes the same value again; null is null."""
    return F.when(value.isNotNull(), F.to_json(F.struct(value.alias(name)), JSON))


def untext(json: Column, name: str, kind: DataType) -> Column:
    """The value that `text` wrote."""
    return F.from_json(json, StructType([StructField(name, kind)]), JSON).getField(name)


def _python(expression: Python, names: tuple[str, ...], alive: Column | None) -> Column:
    function = expression.function

    def guarded(is_alive: bool, *arguments: Any) -> Any:
        return function(*arguments) if is_alive else None

    wanted = F.lit(True) if alive is None else F.coalesce(alive, F.lit(False))
    return _udf(guarded, expression.returns)(wanted, *(F.col(name) for name in names))


def _udf(function: Callable[..., Any], returns: str) -> UserDefinedFunction:
    """A function of plain values as Spark's. Spark would read a pandas function out of type hints, so it sees none."""

    def plain(*arguments: Any) -> Any:
        return function(*arguments)

    plain.__annotations__.clear()
    return F.udf(plain, returns, useArrow=True)  # type: ignore[return-value]


def _taken(function: Callable[..., Any], names: tuple[str, ...]) -> tuple[str, ...]:
    count = arity(function)
    if not 1 <= count <= len(names):
        raise PipelineError(f"a function here takes {', '.join(names)} or the last of them, not {count} arguments")
    return names[len(names) - count :]


def _double(raw: Column) -> Column:
    return _udf(_read_double, "double")(raw)


def _double_bytes(value: Column) -> Column:
    return _udf(_write_double, "binary")(value.cast("double"))


def _read_double(raw: bytes | None) -> float | None:
    import struct

    return struct.unpack(">d", raw)[0] if raw is not None and len(raw) == 8 else None


def _write_double(value: float | None) -> bytes | None:
    import struct

    return None if value is None else struct.pack(">d", value)

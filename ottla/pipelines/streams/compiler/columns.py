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
    ByteType,
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
MALFORMED = "_ottla_malformed"
"""Where Spark puts JSON text that it cannot read."""
WIDTHS = {"integer": 4, "long": 8, "double": 8}


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
            if callable(result):
                name = getattr(result, "__name__", "name")
                raise PipelineError(
                    f"a function of Columns must return a Column, not Column's method {name}: a field of that name is "
                    f'value["{name}"]'
                )
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
    """A topic's bytes as a value; null stays null, and so does what cannot be read (see `fault`)."""
    return parsed_value(serde, parse(serde, F.col(bytes_column)))


def parse(serde: Serde, raw: Column) -> Column:
    """A topic's bytes as `fault` judges them and `parsed_value` takes the value out of them."""
    if serde.decode is not None:
        return serde.decode(raw)  # type: ignore[no-any-return]
    match serde.name:
        case "bytes":
            return raw
        case "string":
            return F.make_valid_utf8(raw.cast("string"))  # Kafka's deserializer replaces what is not UTF-8
        case "integer" | "long":
            # A base below zero has eight bytes read as two's complement; of four, those above the half are negative.
            number = F.conv(F.hex(raw), 16, -10).cast("bigint")
            if serde.name == "integer":
                number = F.when(number >= 1 << 31, number - (1 << 32)).otherwise(number)
            return F.when(F.length(raw) == WIDTHS[serde.name], number.cast(serde.type))
        case "double":
            return _double(raw)
        case "json":
            kind = DataType.fromDDL(serde.type)
            given = raw.cast("string")
            if not isinstance(kind, StructType):  # only a struct's reader tells what is malformed
                given, kind = F.concat(F.lit('{"value":'), given, F.lit("}")), StructType([StructField("value", kind)])
            schema = StructType([*kind.fields, StructField(MALFORMED, StringType())])
            return F.from_json(given, schema, {**JSON, "columnNameOfCorruptRecord": MALFORMED})
    raise PipelineError(f"the serde {serde.name} has no decode function")


def parsed_value(serde: Serde, parsed: Column) -> Column:
    """The value in what `parse` made."""
    if serde.decode is not None or serde.name != "json":
        return parsed
    kind = DataType.fromDDL(serde.type)
    if not isinstance(kind, StructType):
        return parsed.getField("value")
    fields = F.struct(*(parsed.getField(name).alias(name) for name in kind.names))
    return F.when(parsed.getField(MALFORMED).isNull() & parsed.isNotNull(), fields)


def fault(serde: Serde, parsed: Column, raw: Column) -> tuple[Column, str] | None:
    """Whether bytes are none of the serde's, and why not; None for a serde that reads all bytes."""
    if serde.decode is not None:
        return raw.isNotNull() & parsed.isNull(), f"the serde {serde.name} made null of bytes that are not null"
    match serde.name:
        case "bytes" | "string":
            return None
        case "json":
            malformed = parsed.getField(MALFORMED)
            # Spark's reader of structs calls the text `null` malformed.
            wrong = raw.isNotNull() & (parsed.isNull() | F.coalesce(F.trim(malformed) != "null", F.lit(False)))
            return wrong, f"the text is not JSON of the schema {serde.type}"
    width, who = WIDTHS[serde.name], {"integer": "Integer", "long": "Long"}.get(serde.name, "")
    wrong = F.coalesce(F.length(raw) != width, F.lit(False))
    return wrong, f"Size of data received by {who}Deserializer is not {width}"  # Kafka's words


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


def encode_fault(serde: Serde, kind: DataType, value: Column, encoded: Column) -> tuple[Column, str] | None:
    """Whether a value of that type cannot be written by the serde, and why not; None where all can."""
    if serde.encode is not None:
        return value.isNotNull() & encoded.isNull(), f"the serde {serde.name} made null of a value that is not null"
    if serde.name == "integer" and not isinstance(kind, IntegerType | ShortType | ByteType):
        number = value.cast("bigint")
        inside = number.between(-(1 << 31), (1 << 31) - 1)
        return F.coalesce(~inside, F.lit(False)), "the number does not fit into the 4 bytes of an integer"
    return None


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

"""Values as Kafka Connect makes them of one another: casts as Java's, and the text that a header or a cast writes.

`cast` follows Connect's `Cast`, which is Java's: a whole number that does not fit keeps its low bits, a fraction beyond
a type's range becomes the nearest whole number there is, text is read as `Long.parseLong` and the like read it. Spark's
own casts raise or give null for most of that. `text` is what Connect's `Values.convertToString` writes, which its
header converter uses. Times are in UTC. Nothing here raises in a running query. Called by `smt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import java_dates

if TYPE_CHECKING:
    from pyspark.sql import Column

TYPES: dict[str, T.DataType] = {
    "int8": T.ByteType(), "int16": T.ShortType(), "int32": T.IntegerType(), "int64": T.LongType(),
    "float32": T.FloatType(), "float64": T.DoubleType(), "boolean": T.BooleanType(), "string": T.StringType(),
}  # fmt: skip
"""Connect's names of the types that a cast can make."""
WHOLE_TYPES = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
FRACTION_TYPES = (T.FloatType, T.DoubleType)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_DIGITS = r"\A[+-]?[0-9]+\z"
_SPECIAL = r"(?i)\A\s*[+-]?(inf|infinity|nan)\s*\z"
_JAVA_SPECIAL = r"\A\s*[+-]?(Infinity|NaN)\s*\z"
DAY_MS = 86_400_000


def can_cast(type_: T.DataType, to: str) -> bool:
    """Whether Connect has such a cast: of numbers, truths, texts, times, and of bytes to text."""
    if isinstance(type_, T.BinaryType):
        return to == "string"
    return isinstance(
        type_,
        (*WHOLE_TYPES, *FRACTION_TYPES, T.DecimalType, T.BooleanType, T.StringType, T.DateType, T.TimestampType),
    )


def cast(value: Column, type_: T.DataType, to: str) -> Column:
    """The value as that type; null where it was null, and where Connect refuses it."""
    wanted = TYPES[to]
    if to == "string":
        return text(value, type_)
    if isinstance(type_, T.DateType):
        value, type_ = F.unix_date(value), T.IntegerType()
    elif isinstance(type_, T.TimestampType):
        value, type_ = F.unix_millis(value), T.LongType()
    if isinstance(type_, T.StringType):
        return _of_text(value, to)
    if isinstance(type_, T.BooleanType):
        return value.cast("int").cast(wanted)
    if to == "boolean":
        return _low_bits(value, type_, "int64") != 0
    if to in ("float32", "float64"):
        return value.cast(wanted)
    return _low_bits(value, type_, to)


def _of_text(value: Column, to: str) -> Column:
    if to == "boolean":
        return F.lower(value) == "true"
    if to in _BITS:
        return F.when(value.rlike(_DIGITS), value.try_cast(TYPES[to]))
    # Spark takes more words for what is no number than Java does.
    is_special = value.rlike(_SPECIAL) & ~value.rlike(_JAVA_SPECIAL)
    return F.when(~is_special, value.try_cast(TYPES[to]))


def _low_bits(value: Column, type_: T.DataType, to: str) -> Column:
    """A number as a whole one of so many bits."""
    if isinstance(type_, FRACTION_TYPES):
        # Java goes to the nearest end of a long, or of an int on the way to what is smaller than that.
        end = _LONG_MAX if to == "int64" else _INT_MAX
        double = value.cast("double")
        value = (
            F.when(F.isnan(double), F.lit(0).cast("bigint"))
            .when(double >= float(end), F.lit(end).cast("bigint"))
            .when(double <= float(-end - 1), F.lit(-end - 1).cast("bigint"))
            .otherwise(double.try_cast("bigint"))
        )
    elif isinstance(type_, T.DecimalType):
        value = _low_long(value, type_)
    value = value.cast("bigint")
    if to == "int64":
        return value
    mask, sign = 2 ** _BITS[to] - 1, 2 ** (_BITS[to] - 1)
    low = value.bitwiseAND(F.lit(mask).cast("bigint"))
    return (low.bitwiseXOR(F.lit(sign).cast("bigint")) - F.lit(sign).cast("bigint")).cast(TYPES[to])


def _low_long(value: Column, type_: T.DecimalType) -> Column:
    """The lower 64 bits of a decimal's whole part."""
    whole = F.when(value < 0, F.ceil(value)).otherwise(F.floor(value))
    if type_.precision - type_.scale <= 18:
        return whole.cast("bigint")
    size = F.expr("CAST('18446744073709551616' AS DECIMAL(38,0))")
    rest = whole.cast("decimal(38,0)") % size
    end = F.expr("CAST('9223372036854775808' AS DECIMAL(38,0))")
    signed = F.when(rest >= end, rest - size).when(rest < -end, rest + size).otherwise(rest)
    return signed.cast("bigint")


def text(value: Column, type_: T.DataType, *, is_inside: bool = False) -> Column:
    """A value as Connect writes it as text; null for null, and inside another value the word."""
    match type_:
        case T.StringType():
            found = value
            if is_inside:
                escaped = F.replace(F.replace(value, F.lit("\\"), F.lit("\\\\")), F.lit('"'), F.lit('\\"'))
                found = F.concat(F.lit('"'), escaped, F.lit('"'))
        case T.BinaryType():
            found = F.regexp_replace(F.base64(value), r"\s", "")  # which Spark breaks into lines
            if is_inside:
                found = F.concat(F.lit('"'), found, F.lit('"'))
        case T.DecimalType():
            found = F.format_string("%s", value)  # with an exponent where Java has one, which a cast leaves out
        case T.DateType():
            found = _time_text(F.unix_date(value).cast("bigint") * DAY_MS)
        case T.TimestampType():
            found = _time_text(F.unix_millis(value))
        case T.ArrayType():
            inside = F.transform(value, lambda one: text(one, type_.elementType, is_inside=True))
            found = F.concat(F.lit("["), F.array_join(inside, ","), F.lit("]"))
        case T.MapType():
            pairs = F.transform(
                F.map_entries(value),
                lambda pair: F.concat(
                    text(pair.getField("key"), type_.keyType, is_inside=True), F.lit(":"),
                    text(pair.getField("value"), type_.valueType, is_inside=True),
                ),
            )  # fmt: skip
            found = F.concat(F.lit("{"), F.array_join(pairs, ","), F.lit("}"))
        case T.StructType():
            parts = [
                F.concat(
                    F.lit('"' + one.name.replace("\\", "\\\\").replace('"', '\\"') + '":'),
                    text(value.getField(one.name), one.dataType, is_inside=True),
                )
                for one in type_.fields
            ]
            found = F.concat(F.lit("{"), F.concat_ws(",", *parts) if parts else F.lit(""), F.lit("}"))
        case _:
            found = value.cast("string")
    found = F.when(value.isNotNull(), found)
    return F.coalesce(found, F.lit("null")) if is_inside else found


def _time_text(ms: Column) -> Column:
    """The form that Connect finds for a time: that of a time of day, of a day, or of both."""
    return (
        F.when(ms < DAY_MS, java_dates.formatted(ms, "HH:mm:ss.SSS'Z'"))
        .when(ms % DAY_MS == 0, java_dates.formatted(ms, "yyyy-MM-dd"))
        .otherwise(java_dates.formatted(ms, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"))
    )

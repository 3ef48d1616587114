"""The transforms of Kafka Connect by their names, as expressions of Spark over the key and the fields of a record.

Promises: what comes of a record is what Connect's own class makes of it where values have a schema; a record that it
refuses is a bad one, with the names that Connect gives class and exception. A field that Connect passes over because
it is not there is passed over; where Connect would refuse every record, one line says so before the first. A column has
one type, so a predicate that would leave a field with two is refused; a field that only some records get is null in the
others. Called by `transforms`; `tests/pipelines/parity` holds it to the real classes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from ottla.pipelines.connect import java_dates, java_values, keys, record
from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.connect.java_patterns import BadPattern, parsed
from ottla.pipelines.connect.keys import KEY
from ottla.pipelines.connect.record import HEADERS_TYPE, META, TRANSFORMATION
from ottla.pipelines.connect.smt_check import WHOLE, header_text, steps
from ottla.pipelines.connect.smt_kinds import PACKAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipelines.connect.transforms import Step

DATA_EXCEPTION = "org.apache.kafka.connect.errors.DataException"
TOPIC_NAME = r"\A(?!\.{1,2}\z)[A-Za-z0-9._-]{1,249}\z"
_PER_MS = {"microseconds": 1_000, "nanoseconds": 1_000_000}
_JAVA_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")
_LONG_MS_MAX = (2**63 - 1) // 1000
"""Beyond this Spark has no timestamps."""


class Typed(NamedTuple):
    """An expression and its type."""

    column: Column
    type: T.DataType


@dataclass(frozen=True, slots=True)
class Data:
    """A key or a value: a record of fields, or else a whole."""

    is_null: Column
    fields: Mapping[str, Typed] | None = None
    whole: Typed | None = None

    @classmethod
    def of(cls, value: Typed, is_null: Column | None = None) -> Data:
        """What an expression says: a struct is a record."""
        nothing = value.column.isNull() if is_null is None else is_null
        if not isinstance(value.type, T.StructType):
            return cls(nothing, whole=value)
        inside = {one.name: Typed(value.column.getField(one.name), one.dataType) for one in value.type.fields}
        return cls(nothing, inside)

    def together(self) -> Typed:
        """All of it as one expression, which is null where it is."""
        if self.fields is None:
            assert self.whole is not None, "it is the one or the other"
            return self.whole
        if not self.fields:
            return Typed(F.lit(None).cast("struct<>"), T.StructType([]))
        found = F.struct(*(one.column.alias(name) for name, one in self.fields.items()))
        type_ = T.StructType([T.StructField(name, one.type) for name, one in self.fields.items()])
        return Typed(F.when(~self.is_null, found), type_)


@dataclass(slots=True)
class Change:
    """What a transform does to a record."""

    value: Data | None = None
    key: Data | None = None
    headers: Column | None = None
    topic: Column | None = None


def apply(step: Step) -> DataFrame:
    """The records after the transform."""
    name, _, side = step.part.kind.partition("$")
    if side == "Key" or name == "ValueToKey":
        step.df = keys.seen(step.df, step.pipeline)
    smt = _Smt(step, side)
    if name == "Filter":
        applies = smt.applies()
        assert applies is not None, "the file was checked"
        return step.df.filter(F.when(record.is_good(), ~applies).otherwise(True))
    change = _BY_NAME[name](smt)
    return smt.changed(change)


class _Smt:
    """A transform on its way over a DataFrame: what it reads, and what it leaves."""

    def __init__(self, step: Step, side: str) -> None:
        self.step = step
        self.options = step.options
        self.side = side
        self.failures: list[Column] = []
        self._df = step.df
        self.topic = F.coalesce(record.of("target"), record.of("topic"))

    # What there is

    def value(self) -> Data:
        is_null = F.coalesce(record.of("is_tombstone"), F.lit(False))
        there = {name: Typed(record.field(name), self._df.schema[name].dataType) for name in record.names(self._df)}
        return Data(is_null, whole=there["value"]) if record.is_whole(self._df) else Data(is_null, there)

    def key(self) -> Data:
        return Data.of(Typed(record.of(KEY), keys.meta_type(self._df)[KEY].dataType))

    def data(self) -> Data:
        """The side that the transform is for."""
        return self.key() if self.side == "Key" else self.value()

    def fields(self, data: Data | None = None) -> dict[str, Typed]:
        """The fields of that side; Connect refuses every record that has none."""
        data = data or self.data()
        if data.fields is None:
            assert data.whole is not None, "it is the one or the other"
            raise self.wrong(f"the {self.what} is {data.whole.type.simpleString()}, and has no fields{self._hint()}")
        return dict(data.fields)

    def _hint(self) -> str:
        is_bytes = self.side == "Key" and self.step.pipeline.source.options.get("key") == "bytes"
        return ": `key: json` and `key-schema` of the source say how a key is read" if is_bytes else ""

    def known(self, fields: Mapping[str, Typed], name: str) -> Typed:
        if name not in fields:
            raise self.wrong(f"there is no field {name}: {nearest(name, fields) if fields else 'there are none'}")
        return fields[name]

    @property
    def what(self) -> str:
        return "key" if self.side == "Key" else "value"

    def headers(self) -> Column:
        name = HEADERS if HEADERS in keys.meta_type(self._df).fieldNames() else "headers"
        return F.coalesce(record.of(name), F.array().cast(HEADERS_TYPE))

    def wrong(self, message: str) -> Exception:
        return self.step.wrong(message)

    def refuse(self, when: Column, message: Column | str, kind: str = DATA_EXCEPTION) -> None:
        """Records for which this holds are bad ones."""
        transform = f"{PACKAGE}{self.step.part.kind}"
        error = record.error(stage=TRANSFORMATION, transform=transform, kind=kind, message=message)
        self.failures.append(F.when(when, error))

    def refuse_null(self, data: Data) -> None:
        """Connect wants a record here, and takes no null for one."""
        self.refuse(data.is_null, f"the {self.what} is null, and fields of it are asked for")

    def made(self, data: Data) -> Change:
        return Change(key=data) if self.side == "Key" else Change(value=data)

    # What comes of it

    def applies(self) -> Column | None:
        """Whether the transform is for a record; None where it is for all."""
        condition = self.step.part.condition
        if condition is None:
            return None
        match condition.kind:
            case "HasHeaderKey":
                name = condition.options["name"]
                holds = F.exists(self.headers(), lambda header: header.getField("key") == name)
            case "TopicNameMatches":
                holds = F.coalesce(self.topic.rlike(_whole(condition.options["pattern"])), F.lit(False))
            case kind:
                assert kind == "RecordIsTombstone", f"{kind} is in the table of predicates and not here"
                holds = F.coalesce(record.of("is_tombstone"), F.lit(False))
        return ~holds if condition.negate else holds

    def changed(self, change: Change) -> DataFrame:
        applies = self.applies()
        meta = F.col(META)
        columns = [record.field(name) for name in record.names(self._df)]

        def where(new: Column, old: Column) -> Column:
            return new if applies is None else F.when(applies, new).otherwise(old)

        if self.failures:
            found = F.coalesce(*self.failures)
            found = found if applies is None else F.when(applies, found)
            meta = meta.withField("error", F.coalesce(record.of("error"), found))
        if change.topic is not None:
            meta = meta.withField("target", where(change.topic, record.of("target")))
        if change.headers is not None:
            meta = meta.withField(HEADERS, where(change.headers, self.headers()))
        if change.key is not None:
            meta = meta.withField(KEY, self._key(change.key.together(), applies))
        if change.value is not None:
            old = self.value()
            meta = meta.withField("is_tombstone", where(change.value.is_null, old.is_null))
            meta = record.marked(meta, keys.meta_type(self._df), is_whole=change.value.fields is None)
            columns = list(self._columns(old, change.value, applies))
        return self._df.select(*columns, meta.alias(META))

    def _key(self, new: Typed, applies: Column | None) -> Column:
        old = self.key().together() if keys.is_seen(self._df) else None
        if applies is None or old is None:
            return new.column
        if new.type == old.type:
            return F.when(applies, new.column).otherwise(old.column)
        # A column has one type, and bytes are what becomes of any key in the end.
        as_they_are = keys.as_bytes(old.column, old.type)
        return F.when(applies, keys.as_bytes(new.column, new.type)).otherwise(as_they_are)

    def _columns(self, old: Data, new: Data, applies: Column | None) -> Iterator[Column]:
        before = {"value": old.whole} if old.fields is None else dict(old.fields)
        after = {"value": new.whole} if new.fields is None else dict(new.fields)
        condition = self.step.part.condition
        if condition is None or condition.is_for_values_only:
            # A tombstone has no fields, whatever they are named.
            yield from (_typed(one).column.alias(name) for name, one in after.items())
            return
        if (old.fields is None) != (new.fields is None):
            raise self.wrong("under this predicate some values would be records and others not: a column has one type")
        for name in (*before, *(name for name in after if name not in before)):
            was, is_now = before.get(name), after.get(name)
            if was is not None and is_now is not None and was.type != is_now.type:
                raise self.wrong(
                    f"under this predicate {name} would be {was.type.simpleString()} in some records and "
                    f"{is_now.type.simpleString()} in others: a column has one type, so leave the predicate out"
                )
            column = F.when(applies, is_now.column) if is_now is not None else F.when(applies, F.lit(None))  # type: ignore[arg-type]
            yield (column if was is None else column.otherwise(was.column)).alias(name)


HEADERS = "headers_now"
"""The field of the struct with the headers that transforms made; those of the source stay for a dead letter."""


def _typed(one: Typed | None) -> Typed:
    assert one is not None, "it is the one or the other"
    return one


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def _cast(smt: _Smt) -> Change:
    data, spec = smt.data(), smt.options["spec"]
    if WHOLE in spec:
        if data.whole is None:
            raise smt.wrong(f"the {smt.what} is a record, and a type alone is for what is none: write field:type")
        return smt.made(Data(data.is_null, whole=_cast_one(smt, data.whole, smt.what, spec[WHOLE])))
    fields = smt.fields(data)
    for name, type_ in spec.items():
        if name in fields:
            fields[name] = _cast_one(smt, fields[name], name, type_)
    return smt.made(Data(data.is_null, fields))


def _cast_one(smt: _Smt, value: Typed, name: str, type_: str) -> Typed:
    type_ = type_.lower()
    if not java_values.can_cast(value.type, type_):
        raise smt.wrong(f"{name} is {value.type.simpleString()}, which Connect casts to no {type_}")
    new = java_values.cast(value.column, value.type, type_)
    message = F.concat(F.lit(f"{name} is no {type_}: "), F.substring(value.column.cast("string"), 1, 100))
    smt.refuse(value.column.isNotNull() & new.isNull(), message)
    return Typed(new, java_values.TYPES[type_])


def _drop_headers(smt: _Smt) -> Change:
    gone = list(smt.options["headers"])
    return Change(headers=F.filter(smt.headers(), lambda header: ~header.getField("key").isin(gone)))


def _extract_field(smt: _Smt) -> Change:
    data = smt.data()
    *before, last = steps(smt.options["field"], smt.options["field.syntax.version"])
    fields: Mapping[str, Typed] = smt.fields(data)
    for name in before:
        inside = Data.of(smt.known(fields, name))
        if inside.fields is None:
            raise smt.wrong(f"{name} is no record, and a field of it is asked for")
        fields = inside.fields
    found = smt.known(fields, last)
    return smt.made(Data.of(Typed(F.when(~data.is_null, found.column), found.type)))


def _flatten(smt: _Smt) -> Change:
    data, delimiter = smt.data(), smt.options["delimiter"]
    found: dict[str, Typed] = {}

    def take(name: str, one: Typed) -> None:
        if isinstance(one.type, T.MapType):
            raise smt.wrong(f"{name} is a map, which Connect flattens only where values have no schema")
        inside = Data.of(one)
        if inside.fields is None:
            if name in found:
                raise smt.wrong(f"two fields would be named {name}: another delimiter keeps them apart")
            found[name] = one
            return
        for inner, value in inside.fields.items():
            take(f"{name}{delimiter}{inner}", value)

    for name, one in smt.fields(data).items():
        take(name, one)
    return smt.made(Data(data.is_null, found))


def _header_from(smt: _Smt) -> Change:
    data, options = smt.data(), smt.options
    smt.refuse_null(data)
    fields = smt.fields(data)
    added = []
    for name, header in zip(options["fields"], options["headers"], strict=True):
        one = smt.known(fields, name)
        added.append(_header(header, java_values.text(one.column, one.type)))
    change = Change()
    if options["operation"] == "move":
        left = {name: one for name, one in fields.items() if name not in options["fields"]}
        change = smt.made(Data(data.is_null, left))
    change.headers = F.concat(smt.headers(), F.array(*added)).cast(HEADERS_TYPE)
    return change


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def _hoist_field(smt: _Smt) -> Change:
    return smt.made(Data(F.lit(False), {smt.options["field"]: smt.data().together()}))


def _insert_field(smt: _Smt) -> Change:
    data, options = smt.data(), smt.options
    fields = smt.fields(data)
    # In Spark a time has microseconds, and in a record of Kafka milliseconds.
    origins = {
        "topic.field": Typed(smt.topic, T.StringType()),
        "partition.field": Typed(record.of("partition"), T.IntegerType()),
        "offset.field": Typed(record.of("offset"), T.LongType()),
        "timestamp.field": Typed(record.of("timestamp"), T.TimestampType()),
        "static.field": Typed(F.lit(_text(options.get("static.value"))), T.StringType()),
    }
    for option, origin in origins.items():
        if option in options:
            name = options[option]
            name = name[:-1] if name.endswith(("?", "!")) else name
            if name in fields:
                raise smt.wrong(f"there is a field {name} already")
            fields[name] = origin
    return smt.made(Data(data.is_null, fields))


def _text(value: object) -> str | None:
    """As it stands in a connector's configuration, where all is text."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _insert_header(smt: _Smt) -> Change:
    said = header_text(_text(smt.options["value.literal"]) or "")
    added = F.array(_header(smt.options["header"], F.lit(said)))
    return Change(headers=F.concat(smt.headers(), added).cast(HEADERS_TYPE))


def _mask_field(smt: _Smt) -> Change:
    data, replacement = smt.data(), _text(smt.options.get("replacement"))
    smt.refuse_null(data)
    fields = smt.fields(data)
    for name in smt.options["fields"]:
        if name not in fields:
            continue
        old = fields[name]
        hidden = _nothing(old.type) if replacement is None else _replaced(old.type, replacement)
        if hidden is None:
            what = f"{name} is {old.type.simpleString()}, which Connect cannot mask"
            smt.refuse(old.column.isNotNull(), what if replacement is None else f"{what} by {replacement}")
            hidden = F.lit(None)
        fields[name] = Typed(F.when(old.column.isNotNull(), hidden.cast(old.type)), old.type)
    return smt.made(Data(data.is_null, fields))


def _nothing(type_: T.DataType) -> Column | None:
    """What says nothing, by type; None where Connect knows nothing."""
    match type_:
        case T.StringType():
            return F.lit("")
        case T.BooleanType():
            return F.lit(False)
        case T.NumericType():
            return F.lit(0)
        case T.DateType():
            return F.date_from_unix_date(F.lit(0))
        case T.TimestampType():
            return F.timestamp_millis(F.lit(0))
        case T.ArrayType():
            return F.array()
        case T.MapType():
            return F.map_from_arrays(
                F.array().cast(T.ArrayType(type_.keyType)), F.array().cast(T.ArrayType(type_.valueType))
            )
        case _:
            return None


def _replaced(type_: T.DataType, replacement: str) -> Column | None:
    """The replacement as that type; None where Connect takes none for it, or not this one."""
    if isinstance(type_, T.StringType):
        return F.lit(replacement)
    if not isinstance(type_, T.NumericType) or not _JAVA_DECIMAL.fullmatch(replacement):
        return None
    number = Decimal(replacement)
    match type_:
        case T.FloatType():
            try:
                return F.lit(struct.unpack("f", struct.pack("f", float(number)))[0])
            except OverflowError:
                return F.lit(float("inf") if number > 0 else float("-inf"))
        case T.DoubleType():
            return F.lit(float(number))
        case T.DecimalType():
            return F.lit(replacement).try_cast(type_)
    # Java takes the low bits of a number that does not fit.
    sizes: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32}
    bits = sizes.get(type(type_), 64)
    low = int(number.to_integral_value(ROUND_DOWN)) % 2**bits
    return F.lit(low - 2**bits if low >= 2 ** (bits - 1) else low)


def _regex_router(smt: _Smt) -> Change:
    regex = smt.options["regex"]
    # Java replaces what it finds first, which begins where the whole match does and may end before.
    new = F.regexp_replace(smt.topic, F.lit(rf"\A(?:{regex})"), F.lit(smt.options["replacement"]))
    return _routed(smt, F.when(smt.topic.rlike(_whole(regex)), new).otherwise(smt.topic))


def _routed(smt: _Smt, topic: Column) -> Change:
    is_name = F.coalesce(topic.rlike(TOPIC_NAME), F.lit(False))
    smt.refuse(~is_name, F.concat(F.lit("no topic can be named "), F.coalesce(topic, F.lit("null"))))
    return Change(topic=F.when(is_name, topic))


def _timestamp_router(smt: _Smt) -> Change:
    time = record.of("timestamp")
    smt.refuse(time.isNull(), "the record has no time")
    said = {
        "${topic}": smt.topic,
        "${timestamp}": java_dates.formatted(F.unix_millis(time), smt.options["timestamp.format"]),
    }
    parts = re.split(r"(\$\{topic\}|\$\{timestamp\})", smt.options["topic.format"])
    return _routed(smt, F.concat(*(said.get(part, F.lit(part)) for part in parts)))


def _replace_field(smt: _Smt) -> Change:
    data, options = smt.data(), smt.options
    exclude, include, renames = options.get("exclude", ()), options.get("include", ()), options.get("renames", {})
    found: dict[str, Typed] = {}
    for name, one in smt.fields(data).items():
        if name in exclude or (include and name not in include):
            continue
        new = renames.get(name, name)
        if new in found:
            raise smt.wrong(f"two fields would be named {new}")
        found[new] = one
    return smt.made(Data(data.is_null, found))


def _timestamp_converter(smt: _Smt) -> Change:
    data, name = smt.data(), smt.options["field"]
    if not name:
        if data.whole is None:
            raise smt.wrong(f"the {smt.what} is a record: say by `field` which of its fields is a time")
        return smt.made(Data(data.is_null, whole=_converted(smt, data.whole, smt.what)))
    fields = smt.fields(data)
    if name in fields:
        fields[name] = _converted(smt, fields[name], name)
    return smt.made(Data(data.is_null, fields))


def _converted(smt: _Smt, old: Typed, name: str) -> Typed:
    target, format_, precision = (smt.options[option] for option in ("target.type", "format", "unix.precision"))
    try:
        ms = _milliseconds(old, format_, precision)
    except BadPattern as error:
        raise smt.wrong(f"{name} is text: {error}") from None
    if ms is None:
        raise smt.wrong(f"{name} is {old.type.simpleString()}, and a time is text, bigint, date or timestamp")
    match target:
        case "string":
            new = Typed(java_dates.formatted(ms, format_), T.StringType())
        case "unix":
            # Java cuts off what is below the precision, before 1970 too, and stops at the end of its whole numbers.
            if precision == "seconds":
                number = F.when(ms < 0, F.ceil(ms / 1000)).otherwise(F.floor(ms / 1000))
            else:
                number = _saturated(ms, _PER_MS.get(precision, 1))
            new = Typed(number.cast("bigint"), T.LongType())
        case "Date":
            new = Typed(F.date_from_unix_date(F.floor(ms / java_dates.DAY_MS).try_cast("int")), T.DateType())
        case _:
            is_time = ms.between(-_LONG_MS_MAX, _LONG_MS_MAX)
            new = Typed(F.timestamp_millis(F.when(is_time, ms)), T.TimestampType())
            if isinstance(old.type, T.TimestampType):
                new = old
    message = F.concat(F.lit(f"{name} is no time: "), F.substring(old.column.cast("string"), 1, 100))
    smt.refuse(old.column.isNotNull() & new.column.isNull(), message)
    return new


def _milliseconds(old: Typed, format_: str, precision: str) -> Column | None:
    """A time as Java's milliseconds; None for what is of no type of time."""
    match old.type:
        case T.StringType():
            if not format_.strip():
                raise BadPattern("`format` has to say how it is read")
            parsed(format_, reads=True)
            return java_dates.read(old.column, format_)
        case T.LongType():
            if precision == "seconds":
                return _saturated(old.column, 1000)
            size = _PER_MS.get(precision, 1)
            return old.column if size == 1 else _towards_zero(old.column, size)
        case T.DateType():
            return F.unix_date(old.column).cast("bigint") * java_dates.DAY_MS
        case T.TimestampType():
            return F.unix_millis(old.column)
        case _:
            return None


def _towards_zero(number: Column, size: int) -> Column:
    """A whole number divided as Java does; a division of doubles would lose digits."""
    return F.call_function("div", number, F.lit(size).cast("bigint"))


def _saturated(number: Column, factor: int) -> Column:
    """As Java's `TimeUnit`: what is too large becomes the largest there is."""
    product = F.try_multiply(number, F.lit(factor).cast("bigint"))
    end = F.when(number < 0, F.lit(-(2**63))).otherwise(F.lit(2**63 - 1)).cast("bigint")
    return F.when(number.isNotNull(), F.coalesce(product, end))


def _value_to_key(smt: _Smt) -> Change:
    data = smt.value()
    smt.refuse_null(data)
    fields = smt.fields(data)
    wanted = {name: smt.known(fields, name) for name in smt.options["fields"]}
    return Change(key=Data(data.is_null, wanted))


_BY_NAME: dict[str, Callable[[_Smt], Change]] = {
    "Cast": _cast, "DropHeaders": _drop_headers, "ExtractField": _extract_field, "Flatten": _flatten,
    "HeaderFrom": _header_from, "HoistField": _hoist_field, "InsertField": _insert_field,
    "InsertHeader": _insert_header, "MaskField": _mask_field, "RegexRouter": _regex_router,
    "ReplaceField": _replace_field, "TimestampConverter": _timestamp_converter,
    "TimestampRouter": _timestamp_router, "ValueToKey": _value_to_key,
}  # fmt: skip

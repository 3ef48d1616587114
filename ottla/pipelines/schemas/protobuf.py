"""Protobuf: its messages as Spark's types, its values as what Arrow takes, and back.

A message is a struct, a repeated field an array, a map a map, an enum its value's name, `Timestamp` a timestamp,
`Duration` an interval, a wrapper such as `StringValue` the value in it. What is unsigned gets a type with room for it:
uint32 is long, uint64 a decimal. A field that knows whether it was set is null when it was not; one that does not has
its default.

Evolution is Protobuf's own: fields have numbers, so the reader's message reads what another version wrote. Promises: a
message that contains itself is refused by name; so is a column that the message does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as t

from ottla.client.errors import SerializationError
from ottla.client.serialization import ProtobufDeserializer, ProtobufSerializer
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.schemas.proto_files import message_class

Convert = Callable[[Any], Any]
Fill = Callable[[Any, Any], None]
"""Takes a message and a value, and puts the one into the other."""

NANOS_A_MICRO = 1000
MICROS = 1_000_000
_WRAPPERS = {
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_UNSIGNED_LONG = t.DecimalType(20, 0)

# Numbers of FieldDescriptorProto.Type, which are the same in every release.
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING = range(1, 10)
_GROUP, _MESSAGE, _BYTES, _UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = range(10, 19)
_PLAIN: dict[int, t.DataType] = {
    _DOUBLE: t.DoubleType(),
    _FLOAT: t.FloatType(),
    _INT64: t.LongType(),
    _SINT64: t.LongType(),
    _SFIXED64: t.LongType(),
    _UINT64: _UNSIGNED_LONG,
    _FIXED64: _UNSIGNED_LONG,
    _INT32: t.IntegerType(),
    _SINT32: t.IntegerType(),
    _SFIXED32: t.IntegerType(),
    _UINT32: t.LongType(),
    _FIXED32: t.LongType(),
    _BOOL: t.BooleanType(),
    _STRING: t.StringType(),
    _BYTES: t.BinaryType(),
    _ENUM: t.StringType(),
}


@dataclass(frozen=True, slots=True)
class ProtobufReading:
    """Bytes as one message of a descriptor set has them, behind a schema's number or alone."""

    files: bytes
    message: str | None
    has_schema_id: bool

    def data_type(self) -> t.DataType:
        return spark_type(message_class(self.files, self.message).DESCRIPTOR)

    def open_reader(self) -> Callable[[bytes], Any]:
        message_type = message_class(self.files, self.message)
        read = ProtobufDeserializer(message_type, has_schema_id=self.has_schema_id).deserialize
        convert = _of_message(message_type.DESCRIPTOR)
        return lambda data: convert(read("", data, []))


@dataclass(frozen=True, slots=True)
class ProtobufWriting:
    """Values as one message of a descriptor set, behind `prefix`."""

    files: bytes
    message: str | None
    prefix: bytes = b""

    def open_writer(self) -> Callable[[Any], bytes]:
        message_type = message_class(self.files, self.message)
        write, fill, prefix = ProtobufSerializer(message_type).serialize, _filler(message_type.DESCRIPTOR), self.prefix
        name = message_type.DESCRIPTOR.full_name

        def written(value: Any) -> bytes:
            message = message_type()
            try:
                fill(message, value)
            except (TypeError, ValueError, KeyError, OverflowError) as error:
                raise SerializationError(f"the value is no {name}: {error}") from error
            data = write("", message, [])
            assert data is not None, "there is a value"
            return prefix + data

        return written


def spark_type(descriptor: Any) -> t.DataType:
    """The column's type."""
    return _message_type(descriptor, ())


def refuse_misfit(descriptor: Any, data_type: t.DataType) -> None:
    """Raises where a column of this type can never be written as this message."""
    _refuse_misfit(descriptor, data_type, "value")


# Types


def _message_type(descriptor: Any, within: tuple[str, ...]) -> t.StructType:
    name = descriptor.full_name
    if name in within:
        raise PipelineError(f"{name} contains itself, and a column cannot")
    return t.StructType([_field_type(field, (*within, name)) for field in descriptor.fields])


def _field_type(field: Any, within: tuple[str, ...]) -> t.StructField:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        key, value = _one_type(entry["key"], within), _one_type(entry["value"], within)
        return t.StructField(field.name, t.MapType(key, value, False), False)
    if _is_repeated(field):
        return t.StructField(field.name, t.ArrayType(_one_type(field, within), False), False)
    return t.StructField(field.name, _one_type(field, within), bool(field.has_presence))


def _one_type(field: Any, within: tuple[str, ...]) -> t.DataType:
    if field.type not in (_MESSAGE, _GROUP):
        return _PLAIN[field.type]
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        return t.TimestampType()
    if name == _DURATION:
        return t.DayTimeIntervalType()
    if name in _WRAPPERS:
        return _PLAIN[field.message_type.fields_by_name["value"].type]
    return _message_type(field.message_type, within)


def _is_repeated(field: Any) -> bool:
    try:
        return bool(field.is_repeated)
    except AttributeError:  # Protobuf 5
        return bool(field.label == field.LABEL_REPEATED)


def _is_map(field: Any) -> bool:
    return field.type == _MESSAGE and _is_repeated(field) and bool(field.message_type.GetOptions().map_entry)


def _refuse_misfit(descriptor: Any, data_type: t.DataType, where: str) -> None:
    """Compares names, all the way down; the values of plain types are compared when they are written."""
    name = descriptor.full_name
    if not isinstance(data_type, t.StructType):
        raise PipelineError(f"{where} is {data_type.simpleString()}, and the Protobuf message {name} is a struct")
    for column in data_type.fields:
        field = descriptor.fields_by_name.get(column.name)
        if field is None:
            raise PipelineError(f"{where}.{column.name} is not in the Protobuf message {name}")
        inner, path = column.dataType, f"{where}.{column.name}"
        is_map = _is_map(field)
        wanted = t.MapType if is_map else t.ArrayType if _is_repeated(field) else None
        if wanted is not None and not isinstance(inner, wanted):
            raise PipelineError(f"{path} is {inner.simpleString()}, and {wanted.typeName()} in the message {name}")
        if isinstance(inner, t.ArrayType) and wanted is t.ArrayType:
            inner = inner.elementType
        if isinstance(inner, t.MapType) and wanted is t.MapType:
            inner, field = inner.valueType, field.message_type.fields_by_name["value"]
        if isinstance(_one_type(field, ()), t.StructType):
            _refuse_misfit(field.message_type, inner, path)


# From messages


def _of_message(descriptor: Any) -> Convert:
    fields = [(field.name, _getter(field)) for field in descriptor.fields]

    def convert(message: Any) -> dict[str, Any]:
        return {name: get(message) for name, get in fields}

    return convert


def _getter(field: Any) -> Convert:
    name = field.name
    if _is_map(field):
        of_value = _of_value(field.message_type.fields_by_name["value"])
        # Asking a map of messages for an item by its key could add it: the items are taken as they are.
        return lambda message: {key: of_value(value) for key, value in getattr(message, name).items()}
    of_one = _of_value(field)
    if _is_repeated(field):
        return lambda message: [of_one(value) for value in getattr(message, name)]
    if field.has_presence:
        return lambda message: of_one(getattr(message, name)) if message.HasField(name) else None
    return lambda message: of_one(getattr(message, name))


def _of_value(field: Any) -> Convert:
    if field.type == _ENUM:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    if field.type in (_UINT64, _FIXED64):
        return Decimal
    if field.type not in (_MESSAGE, _GROUP):
        return lambda value: value
    kind = field.message_type.full_name
    if kind in (_TIMESTAMP, _DURATION):
        return lambda value: value.seconds * MICROS + value.nanos // NANOS_A_MICRO
    if kind in _WRAPPERS:
        of_inner = _of_value(field.message_type.fields_by_name["value"])
        return lambda value: of_inner(value.value)
    return _of_message(field.message_type)


# Into messages


def _filler(descriptor: Any) -> Fill:
    setters = {field.name: _setter(field) for field in descriptor.fields}

    def fill(message: Any, value: Mapping[str, Any]) -> None:
        for name, one in value.items():
            if one is not None:
                setters[name](message, one)

    return fill


def _setter(field: Any) -> Fill:
    name = field.name
    if _is_map(field):
        return _map_setter(field)
    if field.type in (_MESSAGE, _GROUP):
        fill_one = _message_filler(field.message_type)
        if _is_repeated(field):

            def add_all(message: Any, values: list[Any]) -> None:
                for value in values:
                    fill_one(getattr(message, name).add(), value)

            return add_all

        def put_message(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()  # an empty message is not the same as none
            fill_one(inner, value)

        return put_message
    to_one = _to_value(field)
    if _is_repeated(field):
        return lambda message, values: getattr(message, name).extend([to_one(value) for value in values])
    return lambda message, value: setattr(message, name, to_one(value))


def _map_setter(field: Any) -> Fill:
    name, value_field = field.name, field.message_type.fields_by_name["value"]
    if value_field.type in (_MESSAGE, _GROUP):
        fill_one = _message_filler(value_field.message_type)

        def put_messages(message: Any, values: Mapping[Any, Any]) -> None:
            for key, value in values.items():
                fill_one(getattr(message, name)[key], value)

        return put_messages
    to_one = _to_value(value_field)
    return lambda message, values: getattr(message, name).update({key: to_one(one) for key, one in values.items()})


def _message_filler(descriptor: Any) -> Fill:
    kind = descriptor.full_name
    if kind == _TIMESTAMP:
        return _not_null(_fill_timestamp)
    if kind == _DURATION:
        return _not_null(_fill_duration)
    if kind in _WRAPPERS:
        to_one = _to_value(descriptor.fields_by_name["value"])
        return _not_null(lambda message, value: setattr(message, "value", to_one(value)))
    return _not_null(_filler(descriptor))


def _not_null(fill: Fill) -> Fill:
    """A field may be left out; an item of a list or a map may not."""

    def fill_one(message: Any, value: Any) -> None:
        if value is None:
            raise ValueError("null has no place in a list or a map")
        fill(message, value)

    return fill_one


def _fill_timestamp(message: Any, value: datetime) -> None:
    message.FromDatetime(value)


def _fill_duration(message: Any, value: timedelta) -> None:
    message.FromTimedelta(value)


def _to_value(field: Any) -> Convert:
    if field.type == _ENUM:
        numbers = {value.name: value.number for value in field.enum_type.values}
        enum = field.enum_type.full_name

        def to_number(name: str) -> int:
            if name not in numbers and not name.lstrip("-").isdecimal():
                raise ValueError(f"{name!r} is not one of {enum}")
            return numbers[name] if name in numbers else int(name)

        return to_number
    if field.type in (_UINT64, _FIXED64):
        return _whole
    return lambda value: value


def _whole(value: Any) -> int:
    """Spark's decimals are taken for the numbers that they were read as, and nothing is cut off."""
    if value != int(value):
        raise ValueError(f"{value} is no whole number")
    return int(value)

"""`from_topic` and `to_topic`: a topic's bytes as a column with a type, and columns as a topic's bytes.

Both take a DataFrame and return one; nothing is read or written here, but a registry is asked and, by `to_topic`, told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as f
from pyspark.sql import types as t

from ottla.client.errors import SchemaRegistryError, SerializationError
from ottla.client.serialization import ProtobufSerializer, Schema
from ottla.client.serialization.schema_id import SchemaIds
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.schemas import avro, codec, json_text, proto_files, protobuf
from ottla.pipelines.schemas.registry import RegistryAddress, address_of, is_address, latest, subject_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Format = Literal["json", "avro", "protobuf"]
Mode = Literal["FAILFAST", "PERMISSIVE"]
GivenSchema = str | bytes | t.DataType | Mapping[str, Any] | list[Any] | type[Any] | RegistryAddress

BESIDE = ("key", "headers", "topic", "partition")
"""What a row for a topic has beside its value."""
_READ, _WRITTEN = "_ottla_read", "_ottla_written"
_FORMATS = ("json", "avro", "protobuf")
_KINDS = {"json": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}


def from_topic(
    df: DataFrame,
    schema: GivenSchema | None = None,
    *,
    format: Format = "json",
    registry: str | RegistryAddress | None = None,
    topic: str | None = None,
    subject: str | None = None,
    message: str | None = None,
    column: str = "value",
    mode: Mode = "FAILFAST",
    error: str = "error",
) -> DataFrame:
    """The DataFrame with `column` read; the other columns stay.

    `schema` is what the reader wants to see: for JSON a Spark type or its DDL; for Avro a schema as JSON; for Protobuf
    a generated class, a descriptor set or `.proto` text, with `message` naming one of its messages. Without one,
    `registry` is asked for the latest of `subject`, or of `topic` by its usual name. With a registry, values begin with
    the number of their schema. An address in the place of the schema is taken for the registry's.

    Null stays null. A value that cannot be read fails the job, saying where it lies; under `mode="PERMISSIVE"` it
    becomes null, and the column `error` has a struct of the reason and the bytes: `error.message`, `error.bytes`.
    """
    form, (given, address) = _format(format), _given(schema, registry)
    _refuse_other_type(df, column)
    _refuse_other_mode(df, mode, error)
    known = _Subject(address, subject, topic, is_key=column == "key")
    raw = f.col(_quoted(column))
    match form:
        case "json":
            read = json_text.read_column(_json_type(given, known), raw, has_schema_id=address is not None)
        case "avro":
            avro_form = avro.AvroReading(_avro_schema(given, known), address)
            read = codec.read_column(avro_form, avro_form.data_type(), raw.cast("binary"))
        case "protobuf":
            proto_form = protobuf.ProtobufReading(_proto_files(given, known), message, address is not None)
            read = codec.read_column(proto_form, proto_form.data_type(), raw.cast("binary"))
    # In two steps, so that a value is read once for both of what is made of it.
    after = df.withColumn(_READ, read)
    reason, value = f.col(f"{_READ}.error"), f.col(f"{_READ}.value")
    columns = [f.col(_quoted(name)) for name in df.columns]
    place = df.columns.index(column)
    if mode == "FAILFAST":
        told = f.concat(_where(df, column), reason)
        columns[place] = f.when(reason.isNull(), value).otherwise(f.raise_error(told)).alias(column)
        return after.select(*columns)
    columns[place] = f.when(reason.isNull(), value).alias(column)
    trouble = f.when(reason.isNotNull(), f.struct(reason.alias("message"), raw.cast("binary").alias("bytes")))
    return after.select(*columns, trouble.alias(error))


def to_topic(
    df: DataFrame,
    schema: GivenSchema | None = None,
    *,
    format: Format = "json",
    registry: str | RegistryAddress | None = None,
    topic: str | None = None,
    subject: str | None = None,
    message: str | None = None,
    column: str = "value",
    auto_register: bool = True,
    mode: Mode = "FAILFAST",
    error: str = "error",
) -> DataFrame:
    """The DataFrame with `column` as bytes, ready for `write.format("ottla")`.

    A DataFrame without that column has one made of all its columns, but for `key`, `headers`, `topic` and `partition`,
    which stay beside it. Without a schema, JSON and Avro get one made of the column's type; Protobuf needs one, or the
    registry's latest. With a registry the schema is registered now, on the driver (`auto_register=False`: it has to be
    there), and values begin with its number.

    Null stays null. A value that cannot be written fails the job; under `mode="PERMISSIVE"` it becomes null, and the
    column `error` has a struct of the reason and the value: `error.message`, `error.value`.
    """
    form, (given, address) = _format(format), _given(schema, registry)
    if column not in df.columns:
        df = _gathered(df, column)
    _refuse_other_mode(df, mode, error)
    write = codec.write_column if mode == "FAILFAST" else codec.try_write_column
    data_type = df.schema[column].dataType
    known = _Subject(address, subject, topic, is_key=column == "key")
    raw = f.col(_quoted(column))
    match form:
        case "json":
            if given is not None:
                raise PipelineError("JSON is written as the columns are: its schema is made of them, and none is given")
            text = json_text.json_schema(data_type) if address is not None else ""
            prefix = known.prefix(Schema(text, "JSON"), "Record", auto_register=auto_register)
            written = json_text.write_column(data_type, raw, prefix)
            if mode == "PERMISSIVE":  # a column that has a JSON type has it for all its values
                written = f.struct(written.alias("value"), f.lit(None).cast("string").alias("error"))
        case "avro":
            text = avro.avro_schema(data_type) if given is None else _avro_schema(given, known)
            avro.refuse_misfit(text, data_type)
            prefix = known.prefix(Schema(text), avro.RECORD_NAME, auto_register=auto_register)
            written = write(avro.AvroWriting(text, prefix), raw)
        case "protobuf":
            files = _proto_files(given, known)
            message_type = proto_files.message_class(files, message)
            protobuf.refuse_misfit(message_type.DESCRIPTOR, data_type)
            prefix = known.protobuf_prefix(message_type, auto_register=auto_register)
            written = write(protobuf.ProtobufWriting(files, message, prefix), raw)
    if mode == "FAILFAST":
        return df.withColumn(column, written)
    after = df.withColumn(_WRITTEN, written)
    reason = f.col(f"{_WRITTEN}.error")
    columns = [f.col(_quoted(name)) for name in df.columns]
    columns[df.columns.index(column)] = f.col(f"{_WRITTEN}.value").alias(column)
    trouble = f.when(reason.isNotNull(), f.struct(reason.alias("message"), raw.alias("value")))
    return after.select(*columns, trouble.alias(error))


def reading(
    format: Format, registry: str | RegistryAddress, topic: str
) -> tuple[t.DataType, Callable[[Column], Column]]:
    """The type of a topic's values by the registry's latest schema, and what reads them: a struct of value and error.

    For who has columns and no DataFrame: the serdes of `ottla.pipelines.sql`.
    """
    address = address_of(registry)
    known = _Subject(address, None, topic, is_key=False)
    match format:
        case "json":
            kind = json_text.spark_type(known.latest("json").schema.text)
            return kind, lambda raw: json_text.read_column(kind, raw, has_schema_id=True)
        case "avro":
            avro_form = avro.AvroReading(_avro_schema(None, known), address)
            return avro_form.data_type(), lambda raw: codec.read_column(avro_form, avro_form.data_type(), raw)
        case "protobuf":
            form = protobuf.ProtobufReading(_proto_files(None, known), None, has_schema_id=True)
            return form.data_type(), lambda raw: codec.read_column(form, form.data_type(), raw)


def writing(
    data_type: t.DataType, format: Format, registry: str | RegistryAddress, topic: str
) -> Callable[[Column], Column]:
    """What writes values of a type to a topic: by a schema made of it, for Protobuf by the registry's latest."""
    known = _Subject(address_of(registry), None, topic, is_key=False)
    match format:
        case "json":
            prefix = known.prefix(Schema(json_text.json_schema(data_type), "JSON"), "Record", auto_register=True)
            return lambda raw: json_text.write_column(data_type, raw, prefix)
        case "avro":
            text = avro.avro_schema(data_type)
            avro_form = avro.AvroWriting(text, known.prefix(Schema(text), avro.RECORD_NAME, auto_register=True))
            return lambda raw: codec.write_column(avro_form, raw)
        case "protobuf":
            files = _proto_files(None, known)
            message_type = proto_files.message_class(files, None)
            protobuf.refuse_misfit(message_type.DESCRIPTOR, data_type)
            form = protobuf.ProtobufWriting(files, None, known.protobuf_prefix(message_type, auto_register=True))
            return lambda raw: codec.write_column(form, raw)


class _Subject:
    """The registry's part, if there is one."""

    def __init__(
        self, registry: RegistryAddress | None, subject: str | None, topic: str | None, *, is_key: bool
    ) -> None:
        self.registry = registry
        self._subject = subject
        self._topic = topic
        self._is_key = is_key

    def latest(self, format: Format) -> Any:
        """The last schema that the registry has, when the caller gave none."""
        if self.registry is None:
            raise PipelineError(f"{format} needs a schema, or a registry that has it")
        return latest(self.registry, subject_of(self._subject, self._topic, is_key=self._is_key), _KINDS[format])

    def prefix(self, schema: Schema, record: str, *, auto_register: bool) -> bytes:
        """What each value begins with."""
        if self.registry is None:
            return b""
        try:
            return self._ids(auto_register).prefix("", record, schema)
        except SchemaRegistryError as error:
            raise PipelineError(f"subject {self._name()}: {error}") from error

    def protobuf_prefix(self, message_type: type[Any], *, auto_register: bool) -> bytes:
        """The same, with the message's place in its file behind it: what is written before an empty message."""
        if self.registry is None:
            return b""
        name = self._name()
        serializer = ProtobufSerializer(
            message_type,
            self.registry.connect(),
            is_key=self._is_key,
            auto_register=auto_register,
            subject=lambda topic, is_key, record: name,
        )
        try:
            data = serializer.serialize("", message_type(), [])
        except SerializationError as error:  # a registry's refusal, or proto2's required fields
            raise PipelineError(f"subject {name}: {error}") from error
        assert data is not None, "there is a message"
        return data

    def _ids(self, auto_register: bool) -> SchemaIds:
        assert self.registry is not None, "asked only where there is one"
        name = self._name()
        return SchemaIds(
            self.registry.connect(),
            is_key=self._is_key,
            auto_register=auto_register,
            use_latest=False,
            subject=lambda topic, is_key, record: name,
        )

    def _name(self) -> str:
        return subject_of(self._subject, self._topic, is_key=self._is_key)


def _format(format: str) -> Format:
    for known in ("json", "avro", "protobuf"):
        if format.lower() == known:
            return known
    raise PipelineError(f"format is one of {', '.join(_FORMATS)}, and not {format}")


def _given(
    schema: GivenSchema | None, registry: str | RegistryAddress | None
) -> tuple[GivenSchema | None, RegistryAddress | None]:
    """The reader's or writer's own schema, and the registry."""
    if is_address(schema):
        if registry is not None:
            raise PipelineError("a registry was given twice: as the schema and as the registry")
        assert isinstance(schema, str | RegistryAddress), "that is what an address is"
        return None, address_of(schema)
    return schema, None if registry is None else address_of(registry)


def _json_type(given: GivenSchema | None, known: _Subject) -> t.DataType:
    if given is None:
        return json_text.spark_type(known.latest("json").schema.text)
    if isinstance(given, t.DataType):
        return given
    if not isinstance(given, str):
        raise PipelineError("the schema of JSON is a Spark type, or its DDL")
    return t.DataType.fromDDL(given)


def _avro_schema(given: GivenSchema | None, known: _Subject) -> str:
    if given is None:
        found = known.latest("avro")
        avro.refuse_references(found)
        return avro.schema_text(found.schema.text)
    if isinstance(given, str | Mapping | list):
        return avro.schema_text(given)
    raise PipelineError("the schema of Avro is JSON, as text or as what json.loads makes of it")


def _proto_files(given: GivenSchema | None, known: _Subject) -> bytes:
    if given is None:
        found = known.latest("protobuf")
        assert known.registry is not None, "it was just asked"
        return proto_files.of_registry(found.schema, known.registry.connect())
    if isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return proto_files.of_text(given)
    if isinstance(given, type) and hasattr(given, "DESCRIPTOR"):
        return proto_files.of_class(given)
    raise PipelineError("the schema of Protobuf is a generated class, a descriptor set or .proto text")


def _refuse_other_type(df: DataFrame, column: str) -> None:
    if column not in df.columns:
        raise PipelineError(f"the DataFrame has no column {column}; it has {', '.join(df.columns)}")
    if not isinstance(df.schema[column].dataType, t.BinaryType | t.StringType):
        raise PipelineError(f"column {column} is {df.schema[column].dataType.simpleString()}, and not binary")


def _refuse_other_mode(df: DataFrame, mode: str, error: str) -> None:
    if mode not in ("FAILFAST", "PERMISSIVE"):
        raise PipelineError(f"mode is FAILFAST or PERMISSIVE, and not {mode}")
    if mode == "PERMISSIVE" and error in df.columns:
        raise PipelineError(f"the DataFrame has a column {error} already: choose another name, error='...'")


def _gathered(df: DataFrame, column: str) -> DataFrame:
    beside = [name for name in df.columns if name in BESIDE]
    inside = [f.col(_quoted(name)) for name in df.columns if name not in BESIDE]
    if not inside:
        raise PipelineError(f"the DataFrame has no column to make {column} of")
    return df.select(*(f.col(_quoted(name)) for name in beside), f.struct(*inside).alias(column))


def _where(df: DataFrame, column: str) -> Column:
    """`topic orders, partition 3, offset 17: `, as far as the DataFrame has it."""
    known = [name for name in ("topic", "partition", "offset") if name in df.columns and name != column]
    parts = [f.concat(f.lit(f", {name} "), f.coalesce(f.col(name).cast("string"), f.lit("?"))) for name in known]
    return f.concat(f.lit(f"column {column}"), *parts, f.lit(": "))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

"""Avro, by `fastavro` (`pip install 'ottla[avro]'`): with a registry in Confluent's form, or with a schema both know.

Promises: a value that the schema does not allow is refused at the producer; a reader with a schema of its own sees the
writer's values as that schema has them (Avro's resolution); bytes left over or missing are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization.protocol import Headers
from ottla.client.serialization.registry import Registry, Schema
from ottla.client.serialization.schema_id import SchemaIds, SubjectName, library, split, topic_name

AvroSchema = str | Mapping[str, Any] | list[Any]
"""A schema as JSON text, or as what `json.loads` makes of it."""

PARSED_MAX = 1000
"""How many writers' schemas a deserializer keeps parsed."""


class AvroSerializer:
    """Dictionaries, or what `to_dict` makes dictionaries of, to Avro."""

    def __init__(
        self,
        schema: AvroSchema,
        registry: Registry | None = None,
        *,
        is_key: bool = False,
        auto_register: bool = True,
        use_latest: bool = False,
        subject: SubjectName = topic_name,
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        self._avro = library("fastavro", "avro")
        self._schema = Schema(schema if isinstance(schema, str) else json.dumps(schema))
        self._parsed = _parse(self._avro, self._schema, registry)
        self._record = _name(self._parsed)
        self._to_dict = to_dict
        self._ids: SchemaIds | None = None
        if registry is not None:
            self._ids = SchemaIds(
                registry, is_key=is_key, auto_register=auto_register, use_latest=use_latest, subject=subject
            )

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        if value is None:
            return None
        out = _Out(self._ids.prefix(topic, self._record, self._schema) if self._ids else b"")
        made = self._to_dict(value) if self._to_dict else value
        validation = self._avro.validation
        try:
            # What is written unasked would be 1.5 as the int 1, and 2**40 as an int that no reader takes.
            validation.validate(made, self._parsed)
            self._avro.schemaless_writer(out, self._parsed, made)
        except validation.ValidationError as error:
            told = "; ".join(map(str, error.errors))
            raise SerializationError(f"the value for topic {topic} is not {self._record}: {told}") from error
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
            raise SerializationError(f"the value for topic {topic} is not {self._record}: {error}") from error
        return b"".join(out.parts)


class AvroDeserializer:
    """Avro to dictionaries, or to what `from_dict` makes of them.

    With a registry each value is read with the schema it was written with; `schema` is then the reader's own. Without
    one, `schema` is the writer's too.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        schema: AvroSchema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        if registry is None and schema is None:
            raise ValueError("an Avro deserializer needs a registry or a schema")
        self._avro = library("fastavro", "avro")
        self._registry = registry
        self._reader: Any = None
        if schema is not None:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            self._reader = _parse(self._avro, Schema(text), registry)
        self._from_dict = from_dict
        self._writers: dict[int, Any] = {}

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return None
        writer, reader = self._reader, None
        if self._registry is not None:
            number, data = split(topic, data)
            writer, reader = self._writer(self._registry, number), self._reader
        source = _Source(data)
        try:
            value = self._avro.schemaless_reader(source, writer, reader)
        except (
            ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, self._avro.read.SchemaResolutionError,
        ) as error:  # fmt: skip
            raise SerializationError(f"the bytes from topic {topic} are not {_name(writer)}: {error!r}") from error
        if source.at != len(data):
            raise SerializationError(f"the bytes from topic {topic} go on after {_name(writer)}")
        return self._from_dict(value) if self._from_dict else value

    def _writer(self, registry: Registry, number: int) -> Any:
        found = self._writers.get(number)
        if found is None:
            schema = registry.schema(number)
            if schema.type != "AVRO":
                raise SerializationError(f"schema {number} is {schema.type}, not Avro")
            found = _parse(self._avro, schema, registry)
            while len(self._writers) >= PARSED_MAX:
                self._writers.pop(next(iter(self._writers)), None)
            self._writers[number] = found
        return found


class _Out:
    """Where `fastavro` writes."""

    __slots__ = ("parts", "write")

    def __init__(self, prefix: bytes) -> None:
        self.parts = [prefix]
        self.write = self.parts.append

    def flush(self) -> None:
        """Nothing waits."""


class _Source:
    """Where `fastavro` reads."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def read(self, size: int = -1) -> bytes:
        start = self.at
        self.at = len(self._data) if size < 0 else min(len(self._data), start + size)
        return self._data[start : self.at]


def _parse(avro: Any, schema: Schema, registry: Registry | None) -> Any:
    """The schema as `fastavro` uses it, those that it refers to first."""
    named: dict[str, Any] = {}
    _parse_references(avro, schema, registry, named)
    try:
        return avro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (ValueError, KeyError, TypeError, avro.schema.SchemaParseException, avro.schema.UnknownType) as error:
        raise SerializationError(f"the Avro schema cannot be read: {error}") from error


def _parse_references(avro: Any, schema: Schema, registry: Registry | None, named: dict[str, Any]) -> None:
    for reference in schema.references:
        if reference.name in named:
            continue
        if registry is None:
            raise SerializationError(f"the Avro schema refers to {reference.name}, and there is no registry to ask")
        used = registry.version(reference.subject, reference.version).schema
        _parse_references(avro, used, registry, named)
        avro.parse_schema(json.loads(used.text), named_schemas=named)


def _name(parsed: Any) -> str:
    """The name of a record's schema; of another kind of schema its type."""
    if isinstance(parsed, dict):
        return str(parsed.get("name") or parsed.get("type"))
    return "a union" if isinstance(parsed, list) else str(parsed)

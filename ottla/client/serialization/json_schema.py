"""JSON with a schema, by `jsonschema-rs` (`pip install 'ottla[json-schema]'`), with or without a registry.

Promises: what the schema does not allow is refused, when it is written and, unless told otherwise, when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization.json_values import JsonDeserializer, JsonSerializer
from ottla.client.serialization.protocol import Headers
from ottla.client.serialization.registry import Registry, Schema
from ottla.client.serialization.schema_id import SchemaIds, SubjectName, library, split, topic_name

VALIDATORS_MAX = 1000
"""How many writers' schemas a deserializer keeps ready."""


class JsonSchemaSerializer:
    """Whatever JSON can write, or what `to_dict` makes of it, when the schema allows it."""

    def __init__(
        self,
        schema: str | Mapping[str, Any],
        registry: Registry | None = None,
        *,
        is_key: bool = False,
        auto_register: bool = True,
        use_latest: bool = False,
        subject: SubjectName = topic_name,
        to_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        self._schema = Schema(schema if isinstance(schema, str) else json.dumps(schema), "JSON")
        self._validate = _validator(self._schema, registry)
        self._record = _title(self._schema)
        self._to_dict = to_dict
        self._json = JsonSerializer()
        self._ids: SchemaIds | None = None
        if registry is not None:
            self._ids = SchemaIds(
                registry, is_key=is_key, auto_register=auto_register, use_latest=use_latest, subject=subject
            )

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        if value is None:
            return None
        value = self._to_dict(value) if self._to_dict else value
        self._validate(topic, value)
        data = self._json.serialize(topic, value, headers)
        assert data is not None, "there is a value"
        return self._ids.prefix(topic, self._record, self._schema) + data if self._ids else data


class JsonSchemaDeserializer:
    """JSON to objects, or to what `from_dict` makes of them.

    With a registry values are checked against the schema they were written with, without one against `schema`;
    `validate=False` checks nothing and needs no library.
    """

    def __init__(
        self,
        registry: Registry | None = None,
        schema: str | Mapping[str, Any] | None = None,
        *,
        validate: bool = True,
        from_dict: Callable[[Any], Any] | None = None,
    ) -> None:
        self._registry = registry
        self._own: Callable[[str, Any], None] | None = None
        if schema is not None and validate:
            text = schema if isinstance(schema, str) else json.dumps(schema)
            self._own = _validator(Schema(text, "JSON"), registry)
        self._is_checked = validate
        self._from_dict = from_dict
        self._json = JsonDeserializer()
        self._validators: dict[int, Callable[[str, Any], None]] = {}

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return None
        validate = self._own
        if self._registry is not None:
            number, data = split(topic, data)
            if self._is_checked and validate is None:
                validate = self._writers(self._registry, number)
        value = self._json.deserialize(topic, data, headers)
        if validate is not None:
            validate(topic, value)
        return self._from_dict(value) if self._from_dict else value

    def _writers(self, registry: Registry, number: int) -> Callable[[str, Any], None]:
        found = self._validators.get(number)
        if found is None:
            schema = registry.schema(number)
            if schema.type != "JSON":
                raise SerializationError(f"schema {number} is {schema.type}, not JSON Schema")
            found = _validator(schema, registry)
            while len(self._validators) >= VALIDATORS_MAX:
                self._validators.pop(next(iter(self._validators)), None)
            self._validators[number] = found
        return found


def _validator(schema: Schema, registry: Registry | None) -> Callable[[str, Any], None]:
    """A check that raises. What the schema refers to by a name comes from the registry, and from nowhere else."""
    rust = library("jsonschema_rs", "json-schema")
    used: dict[str, Any] = {}
    _collect(schema, registry, used)

    def retrieve(address: str) -> Any:
        # A relative name has become an address by now: its end is what was written.
        for name, text in used.items():
            if address == name or address.endswith(f"/{name}"):
                return text
        raise KeyError(f"{address} is not among the schema's references")

    try:
        validator = rust.validator_for(json.loads(schema.text), retriever=retrieve, offline=False)
    except (ValueError, TypeError, rust.ReferencingError) as error:
        raise SerializationError(f"the JSON schema cannot be read: {error}") from error

    def validate(topic: str, value: Any) -> None:
        try:
            validator.validate(value)
        except (ValueError, TypeError) as error:
            where = "/".join(map(str, getattr(error, "instance_path", ())))
            reason = getattr(error, "message", str(error))
            raise SerializationError(f"topic {topic}, at /{where}: {reason}") from error

    return validate


def _collect(schema: Schema, registry: Registry | None, used: dict[str, Any]) -> None:
    for reference in schema.references:
        if reference.name in used:
            continue
        if registry is None:
            raise SerializationError(f"the JSON schema refers to {reference.name}, and there is no registry to ask")
        other = registry.version(reference.subject, reference.version).schema
        used[reference.name] = json.loads(other.text)
        _collect(other, registry, used)


def _title(schema: Schema) -> str:
    try:
        read = json.loads(schema.text)
    except ValueError as error:
        raise SerializationError(f"the JSON schema cannot be read: {error}") from error
    return str(read.get("title", "")) if isinstance(read, dict) else ""

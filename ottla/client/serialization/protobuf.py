"""Protobuf, by Google's library (`pip install 'ottla[protobuf]'`), with or without a registry.

In Confluent's form the schema's number is followed by the message's place in its file: how many steps, and the index
of the message at each, with a single 0 for the first message. The schema itself goes to the registry as its file's
descriptor, as Confluent's Python client sends it. Promises: what another Confluent client wrote is read.
"""

from __future__ import annotations

import binascii
from typing import Any

from ottla.client.errors import SerializationError
from ottla.client.serialization.protocol import Headers
from ottla.client.serialization.registry import Registry, Schema, SchemaReference
from ottla.client.serialization.schema_id import SchemaIds, SubjectName, library, split, topic_name

VARINT_BYTES_MAX = 5
STEPS_MAX = 100
"""How deep messages may lie in each other; Protobuf's own limit of nesting is 100 as well."""

_OURS = "google/protobuf/"
"""Files that every Protobuf has, and that no registry needs to be told."""


class ProtobufSerializer:
    """Messages of one generated class: `ProtobufSerializer(Order, registry)`."""

    def __init__(
        self,
        message_type: type[Any],
        registry: Registry | None = None,
        *,
        is_key: bool = False,
        auto_register: bool = True,
        use_latest: bool = False,
        subject: SubjectName = topic_name,
    ) -> None:
        library("google.protobuf.message", "protobuf")
        self._type = message_type
        self._registry = registry
        self._ids: SchemaIds | None = None
        if registry is not None:
            self._ids = SchemaIds(
                registry, is_key=is_key, auto_register=auto_register, use_latest=use_latest, subject=subject
            )
        self._place = _spell_place(_place(message_type.DESCRIPTOR))
        self._schema: Schema | None = None

    def serialize(self, topic: str, value: Any, headers: Headers) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._type):
            raise SerializationError(
                f"a {self._type.__name__} is needed for topic {topic}, and {type(value).__name__} was given"
            )
        error_type = library("google.protobuf.message", "protobuf").EncodeError
        try:
            body: bytes = value.SerializeToString()
        except error_type as error:
            raise SerializationError(f"the value for topic {topic} cannot be written: {error}") from error
        if self._ids is None:
            return body
        return self._ids.prefix(topic, self._type.DESCRIPTOR.full_name, self._described()) + self._place + body

    def _described(self) -> Schema:
        """The schema of the message's file, its imports registered before it."""
        if self._schema is None:
            assert self._registry is not None, "a schema is needed for a registry only"
            self._schema = _describe(self._type.DESCRIPTOR.file, self._registry)
        return self._schema


class ProtobufDeserializer:
    """Messages of one generated class. With `has_schema_id=False` the bytes are the message alone."""

    def __init__(self, message_type: type[Any], *, has_schema_id: bool = True) -> None:
        self._error = library("google.protobuf.message", "protobuf").DecodeError
        self._type = message_type
        self._has_schema_id = has_schema_id

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> Any:
        if data is None:
            return None
        if self._has_schema_id:
            _, data = split(topic, data)
            data = data[_place_size(topic, data) :]
        message = self._type()
        try:
            message.ParseFromString(data)
        except self._error as error:
            raise SerializationError(
                f"the bytes from topic {topic} are no {self._type.DESCRIPTOR.full_name}: {error}"
            ) from error
        return message


def _place(descriptor: Any) -> list[int]:
    """The indexes that lead from the file to the message."""
    steps = []
    while descriptor is not None:
        within = descriptor.containing_type
        siblings = within.nested_types if within is not None else list(descriptor.file.message_types_by_name.values())
        steps.append([one.full_name for one in siblings].index(descriptor.full_name))
        descriptor = within
    return steps[::-1]


def _spell_place(steps: list[int]) -> bytes:
    if steps == [0]:
        return b"\0"
    return b"".join(_zigzag(number) for number in (len(steps), *steps))


def _zigzag(number: int) -> bytes:
    number = number * 2
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _place_size(topic: str, data: bytes) -> int:
    """How many bytes the place takes. The steps themselves are not needed: the class to read is known."""
    count, at = _read_zigzag(topic, data, 0)
    if not 0 <= count <= STEPS_MAX:
        raise SerializationError(f"the bytes from topic {topic} name no message: {count} steps")
    for _ in range(count):
        _, at = _read_zigzag(topic, data, at)
    return at


def _read_zigzag(topic: str, data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(VARINT_BYTES_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + place + 1
    raise SerializationError(f"the bytes from topic {topic} end within the message's place")


def _describe(file: Any, registry: Registry) -> Schema:
    references = []
    for used in file.dependencies:
        if not used.name.startswith(_OURS):
            schema = _describe(used, registry)
            registry.register(used.name, schema)
            references.append(SchemaReference(used.name, used.name, registry.latest(used.name).version))
    text = binascii.b2a_base64(file.serialized_pb, newline=False).decode("ascii")
    return Schema(text, "PROTOBUF", tuple(references))

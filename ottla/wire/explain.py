"""Finds what is wrong: reads or writes a message again, slowly, keeping the path of the field it is at.

The compiled codecs say only that something is wrong. This module walks the same declarations with no regard to speed,
so it is also the plain statement of the format that the compiled codecs are tested against. Called by `codec`.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from ottla.errors import UnsupportedVersion
from ottla.types import Buffer, Uuid
from ottla.wire.decoder import STRING_MAX, other_tags
from ottla.wire.failures import DecodeError, EncodeError, Refused
from ottla.wire.schema import Field, Schema, Struct, Type, UnknownTag
from ottla.wire.varint import read_uvarint, uvarint


def slow_decode(schema: Schema, version: int, data: Buffer, position: int) -> tuple[Any, int]:
    """Read a message by its declaration; `DecodeError` names the first field that is wrong."""
    reader = _Reader(schema, version, data, position)
    message = reader.struct(schema, schema.name)
    return message, reader.position


def slow_encode(schema: Schema, version: int, message: object, *, to_parts: bool = False) -> bytes:
    """Write a message by its declaration; `EncodeError` or `UnsupportedVersion` names the first field that is wrong.

    With `to_parts`, a value that is not in memory is no error, and is not in the bytes returned either.
    """
    writer = _Writer(schema, version, to_parts=to_parts)
    writer.struct(schema, message, schema.name)
    return bytes(writer.out)


class _Reader:
    def __init__(self, schema: Schema, version: int, data: Buffer, position: int) -> None:
        self.version = version
        self.flexible = schema.flexible.includes(version)
        self.data = data
        self.view = memoryview(data)
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def fail(self, path: str, reason: str, position: int | None = None) -> NoReturn:
        raise DecodeError(path, self.position if position is None else position, reason)

    def uvarint(self, path: str) -> int:
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except IndexError:
            self.fail(path, "the varint is cut off by the end of the data")
        except Refused:
            self.fail(path, "the varint is longer than 32 bits")
        return value

    def fixed(self, code: str, path: str) -> Any:
        size = struct.calcsize(">" + code)
        if size > self.remaining:
            self.fail(path, f"needs {size} bytes, {self.remaining} remain")
        (value,) = struct.unpack_from(">" + code, self.data, self.position)
        self.position += size
        return value

    def struct(self, schema: Schema, path: str) -> Any:
        values = {}
        tagged = {}
        for field in schema.fields:
            if field.tagged.includes(self.version):
                tagged[field.tag] = field
            elif field.versions.includes(self.version):
                values[field.name] = self.field(field, f"{path}.{field.name}")
        unknown: list[UnknownTag] = []
        if self.flexible:
            self.tags(schema, tagged, values, unknown, path)
        made = schema.cls(**values)
        made.unknown_tags = tuple(unknown)
        return made

    def tags(
        self,
        schema: Schema,
        tagged: dict[int | None, Field],
        values: dict[str, object],
        unknown: list[UnknownTag],
        path: str,
    ) -> None:
        last = -1
        start = self.position
        count = self.uvarint(f"{path}.tags")
        if count * 2 > self.remaining:
            self.fail(f"{path}.tags", f"has {count} tags, {self.remaining} bytes remain", start)
        for _ in range(count):
            start = self.position
            tag = self.uvarint(f"{path}.tags")
            if tag <= last:
                self.fail(f"{path}.tags", f"tag {tag} follows tag {last}: tags must ascend", start)
            last = tag
            if tag in other_tags(schema, self.version):
                self.fail(f"{path}.tags", f"tag {tag} is not one of version {self.version}", start)
            size = self.uvarint(f"{path}.tags")
            if size > self.remaining:
                self.fail(f"{path}.tags", f"tag {tag} has {size} bytes, {self.remaining} remain", start)
            end = self.position + size
            if tag not in tagged:
                unknown.append((tag, bytes(self.data[self.position : end])))
                self.position = end
                continue
            field = tagged[tag]
            values[field.name] = self.tagged_field(field, f"{path}.{field.name}")
            if self.position != end:
                took = self.position - end + size
                self.fail(f"{path}.{field.name}", f"took {took} bytes of the {size} that its tag gives it")

    def tagged_field(self, field: Field, path: str) -> object:
        if field.type.struct is None or not field.nullable.includes(self.version):
            return self.field(field, path)
        return self.struct(field.type.struct, path) if self.uvarint(path) else None

    def field(self, field: Field, path: str) -> object:
        compact = field.is_compact(self.version, self.flexible)
        return self.value(field.type, field.nullable.includes(self.version), compact, path)

    def value(self, kind: Type, nullable: bool, compact: bool, path: str) -> object:
        if kind.code:
            value = self.fixed(kind.code, path)
            return Uuid(value) if kind.kind == "uuid" else value
        if kind.struct is not None:
            if nullable and self.fixed("b", path) < 0:
                return None
            return self.struct(kind.struct, path)
        start = self.position
        count = self.uvarint(path) - 1 if compact else self.fixed("h" if kind.kind == "string" else "i", path)
        if count == -1:
            if not nullable:
                self.fail(path, f"is null, which version {self.version} does not allow", start)
            return None
        if count < 0:
            self.fail(path, f"has the negative length {count}", start)
        if kind.element is not None:
            return self.array(kind.element, count, compact, path, start)
        return self.text_or_bytes(kind, count, path, start)

    def text_or_bytes(self, kind: Type, count: int, path: str, start: int) -> object:
        if kind.kind == "string" and count > STRING_MAX:
            self.fail(path, f"has {count} bytes, and a string has at most {STRING_MAX}", start)
        if count > self.remaining:
            self.fail(path, f"has {count} bytes, {self.remaining} remain", start)
        view = self.view[self.position : self.position + count]
        if kind.kind == "string":
            try:
                text = str(view, "utf-8")
            except UnicodeDecodeError as error:
                self.fail(path, f"is not UTF-8: {error.reason}", self.position + error.start)
            self.position += count
            return text
        self.position += count
        return view

    def array(self, element: Type, count: int, compact: bool, path: str, start: int) -> list[object]:
        # One byte an element is the least to ask for. An array that is merely cut off then fails where it is cut.
        if count > self.remaining:
            self.fail(path, f"has {count} elements, {self.remaining} bytes remain", start)
        return [self.value(element, False, compact, f"{path}[{index}]") for index in range(count)]


class _Writer:
    def __init__(self, schema: Schema, version: int, *, to_parts: bool) -> None:
        self.version = version
        self.to_parts = to_parts
        self.flexible = schema.flexible.includes(version)
        self.out = bytearray()

    def struct(self, schema: Schema, value: object, path: str) -> None:
        if not isinstance(value, Struct) or value.schema is not schema:
            raise EncodeError(path, f"is {_describe(value)}, not {schema.name}")
        tagged = []
        for field in schema.fields:
            held = getattr(value, field.name, _MISSING)
            if held is _MISSING:
                raise EncodeError(f"{path}.{field.name}", "is not set")
            if field.tagged.includes(self.version):
                if not field.is_default(held):
                    assert field.tag is not None
                    tagged.append((field.tag, self.tagged_field(field, held, f"{path}.{field.name}")))
            elif field.versions.includes(self.version):
                self.field(field, held, f"{path}.{field.name}")
            elif not field.ignorable and not field.is_default(held):
                raise UnsupportedVersion(f"{path}.{field.name} is set, and version {self.version} has no such field.")
        if self.flexible:
            self.tags(tagged, value.unknown_tags, path)
        elif value.unknown_tags:
            raise UnsupportedVersion(f"{path} has unknown tags, and version {self.version} has no tags.")

    def tags(self, tagged: list[tuple[int, bytes]], unknown: Any, path: str) -> None:
        fields = sorted([*tagged, *unknown], key=lambda field: field[0])
        self.out += uvarint(len(fields))
        last = -1
        for tag, content in fields:
            if tag <= last:
                raise EncodeError(path, f"tag {tag} is given twice, or is negative")
            last = tag
            self.out += uvarint(tag) + uvarint(len(content)) + content

    def tagged_field(self, field: Field, value: object, path: str) -> bytes:
        outside, self.out = self.out, bytearray()
        if field.type.struct is not None and field.nullable.includes(self.version):
            self.out.append(0 if value is None else 1)
            if value is not None:
                self.struct(field.type.struct, value, path)
        else:
            self.field(field, value, path)
        aside, self.out = self.out, outside
        return bytes(aside)

    def field(self, field: Field, value: object, path: str) -> None:
        compact = field.is_compact(self.version, self.flexible)
        self.value(field.type, value, field.nullable.includes(self.version), compact, path)

    def value(self, kind: Type, value: Any, nullable: bool, compact: bool, path: str) -> None:
        if kind.code:
            self.fixed(kind, value, path)
            return
        code = "h" if kind.kind == "string" else "b" if kind.struct is not None else "i"
        if value is None:
            if not nullable:
                raise EncodeError(path, f"is null, which version {self.version} does not allow")
            self.out += b"\0" if compact and kind.struct is None else struct.pack(f">{code}", -1)
        elif kind.struct is not None:
            if nullable:
                self.out.append(1)
            self.struct(kind.struct, value, path)
        elif kind.element is not None:
            if not isinstance(value, list | tuple):
                raise EncodeError(path, f"is {_describe(value)}, not a list")
            self.out += uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
            for index, element in enumerate(value):
                self.value(kind.element, element, False, compact, f"{path}[{index}]")
        else:
            content = self.content(kind, value, path)
            self.out += uvarint(len(content) + 1) if compact else struct.pack(f">{code}", len(content))
            self.out += content

    def fixed(self, kind: Type, value: Any, path: str) -> None:
        if kind.kind == "uuid" and (not isinstance(value, bytes) or len(value) != 16):
            raise EncodeError(path, f"is {_describe(value)}, not a Uuid")
        try:
            self.out += struct.pack(f">{kind.code}", value)
        except (struct.error, TypeError, OverflowError) as error:
            raise EncodeError(path, f"is {_describe(value)}, not {kind}: {error}") from None

    def content(self, kind: Type, value: Any, path: str) -> bytes:
        if kind.kind != "string":
            if self.to_parts and hasattr(value, "__len__") and kind.kind == "records":
                return b""
            if not isinstance(value, bytes | bytearray | memoryview):
                raise EncodeError(path, f"is {_describe(value)}, which is not in memory; `encode_parts` may pass it on")
            return bytes(value)
        if not isinstance(value, str):
            raise EncodeError(path, f"is {_describe(value)}, not a str")
        try:
            text = value.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(path, f"cannot be written as UTF-8: {error.reason}") from None
        if len(text) > STRING_MAX:
            raise EncodeError(path, f"has {len(text)} bytes, and a string has at most {STRING_MAX}")
        return text


_MISSING = object()


def _describe(value: object) -> str:
    if value is None:
        return "null"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"

"""Compiles a decoder: the source of one flat function that reads one version of one message.

What makes it quick: a run of fixed-size fields, and the length that follows it, is one precompiled `struct.Struct`;
nested structs and arrays are loops in the same function, not calls; a length of one byte is read in place; integers of
an array come in one unpack; objects are made without their constructor and their slots filled from the unpack.

What keeps it safe: a count is checked against the bytes that remain before anything is built for it. A read beyond the
end of the buffer fails by itself (`struct.error`, `IndexError`); a slice beyond it comes out short, so the position is
checked once, at the end. The function says only that the bytes are wrong: `explain` finds out where. Called by `codec`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.types import Buffer, Uuid
from ottla.wire.failures import Refused
from ottla.wire.schema import Field, Schema, Struct, Type, UnknownTag
from ottla.wire.varint import read_uvarint

STRING_MAX = 0x7FFF
"""The longest string in bytes, of any version, as Kafka has it."""

_SMALL = 32


def compile_decoder(schema: Schema, version: int) -> Callable[[Buffer, int], tuple[Any, int]]:
    """`decode(data, position)` returns the message and the position after it.

    It raises `struct.error`, `IndexError` or `ValueError` when the bytes are not a message of that version.
    """
    source = _Source(schema, version)
    text = source.text()
    exec(compile(text, f"<decode {schema.name} v{version}>", "exec"), source.names)
    made: Callable[[Buffer, int], tuple[Any, int]] = source.names["decode"]
    return made


def decoder_source(schema: Schema, version: int) -> str:
    """The source that `compile_decoder` compiles, for a reader."""
    return _Source(schema, version).text()


def min_size(kind: Type, nullable: bool, version: int, flexible: bool) -> int:
    """The fewest bytes that a value of this type takes."""
    if kind.size:
        return kind.size
    if kind.struct is None:
        return 1 if flexible else 2 if kind.kind == "string" else 4
    if nullable:
        return 1
    return (1 if flexible else 0) + sum(
        min_size(field.type, field.nullable.includes(version), version, field.is_compact(version, flexible))
        for field in kind.struct.fields
        if field.versions.includes(version) and not field.tagged.includes(version)
    )


def other_tags(schema: Schema, version: int) -> tuple[int, ...]:
    """Tags of fields that are tagged in other versions only. Kafka refuses them here: they are known, and misplaced."""
    return tuple(field.tag for field in schema.fields if field.tag is not None and not field.tagged.includes(version))


class _Source:
    """Writes the function line by line, and gathers the names it uses."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema = schema
        self.version = version
        self.flexible = schema.flexible.includes(version)
        self.names: dict[str, Any] = {
            "new": object.__new__, "uvarint": read_uvarint, "Refused": Refused, "Uuid": Uuid,
            "uuids": _uuids, "unknown_tags": _unknown_tags, "unpack_many": _unpack_many,
        }  # fmt: skip
        self.lines: list[str] = []
        self.indent = 1
        self.serial = 0
        self.run: list[tuple[str, str]] = []
        self.after_run: list[str] = []
        self.needs_view = False

    def text(self) -> str:
        self.struct(self.schema, "message")
        self.flush()
        head = ["def decode(buf, pos):", "    limit = len(buf)"]
        if self.needs_view:
            head.append("    view = memoryview(buf)")
        tail = ["    if pos > limit:", "        raise Refused", "    return message, pos"]
        return "\n".join([*head, *self.lines, *tail])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def name(self, stem: str, value: object) -> str:
        """A global of the function for `value`; equal values share it."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    # Runs: fixed-size reads gather until something else must be read.

    def fixed(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        if self.run:
            codes = ">" + "".join(code for code, _ in self.run)
            targets = ", ".join(target for _, target in self.run)
            if codes == ">B":
                self.line(f"{targets} = buf[pos]")
            else:
                unpack = f"unpack_{codes[1:].replace('?', '_')}"
                self.names.setdefault(unpack, struct.Struct(codes).unpack_from)
                self.line(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(buf, pos)")
            self.line(f"pos += {struct.calcsize(codes)}")
            for text in self.after_run:
                self.line(text)
        self.run = []
        self.after_run = []

    # Values. `store` makes the statement that keeps an expression.

    def struct(self, schema: Schema, target: str) -> None:
        """Read a struct into the new variable `target`."""
        self.line(f"{target} = new({self.name('C', schema.cls)})")
        tagged = []
        for field in schema.fields:
            if field.tagged.includes(self.version):
                assert self.flexible, (
                    f"{schema.name}.{field.name} is tagged in version {self.version}, which is not flexible"
                )
                tagged.append(field)
                self.default(field, target)
            elif field.versions.includes(self.version):
                self.field(field, target)
            else:
                self.default(field, target)
        if self.flexible:
            self.tags(tagged, other_tags(schema, self.version), target)
        else:
            self.line(f"{target}.unknown_tags = ()")

    def default(self, field: Field, target: str) -> None:
        """Give a field that is not on the wire its default: a fresh one where it could be changed."""
        value = field.default
        if isinstance(value, list):
            text = "[]"
        elif isinstance(value, Struct):
            text = f"{self.name('C', type(value))}()"
        elif value is None or isinstance(value, bool | int | str):
            text = repr(value)
        else:
            text = self.name("default", value)
        self.line(f"{target}.{field.name} = {text}")

    def field(self, field: Field, target: str) -> None:
        compact = field.is_compact(self.version, self.flexible)
        nullable = field.nullable.includes(self.version)
        self.value(field.type, nullable, compact, f"{target}.{field.name}", f"{target}.{field.name} = {{}}".format)

    def value(self, kind: Type, nullable: bool, compact: bool, target: str, store: Callable[[str], str]) -> None:
        if kind.kind == "uuid":
            raw = self.fresh("raw")
            self.fixed(kind.code, raw)
            self.after_run.append(store(f"Uuid({raw})"))
        elif kind.code:
            self.fixed(kind.code, target)
        elif kind.struct is not None:
            self.nested(kind.struct, nullable, store)
        elif kind.element is not None:
            self.array(kind.element, nullable, compact, store)
        else:
            self.text_or_bytes(kind, nullable, compact, store)

    def nested(self, schema: Schema, nullable: bool, store: Callable[[str], str]) -> None:
        item = self.fresh("item")
        if not nullable:
            self.struct(schema, item)
            self.line(store(item))
            return
        present = self.fresh("present")
        self.fixed("b", present)
        self.flush()
        self.line(f"if {present} < 0:")
        self.line(f"    {store('None')}")
        self.line("else:")
        self.indent += 1
        self.struct(schema, item)
        self.flush()
        self.line(store(item))
        self.indent -= 1

    def length(self, code: str, nullable: bool, compact: bool, longest: int | None) -> str:
        """Read a length into a variable and open the block in which it is not null."""
        count = self.fresh("n")
        self.fixed("B" if compact else code, count)
        self.flush()
        if compact:
            self.line(f"if {count} > 127:")
            self.line(f"    {count}, pos = uvarint(buf, pos - 1)")
            if longest is not None:
                self.line(f"    if {count} > {longest + 1}:")
                self.line("        raise Refused")
            self.line(f"if {count}:" if nullable else f"if not {count}:")
        else:
            self.line(f"if {count} >= 0:" if nullable else f"if {count} < 0:")
        if nullable:
            self.indent += 1
        else:
            self.line("    raise Refused")
        if compact:
            self.line(f"{count} -= 1")
        return count

    def end_length(self, count: str, nullable: bool, compact: bool, store: Callable[[str], str]) -> None:
        if nullable:
            self.indent -= 1
            if compact:
                self.line("else:")
                self.line(f"    {store('None')}")
            else:
                self.line(f"elif {count} == -1:")
                self.line(f"    {store('None')}")
                self.line("else:")
                self.line("    raise Refused")

    def text_or_bytes(self, kind: Type, nullable: bool, compact: bool, store: Callable[[str], str]) -> None:
        is_text = kind.kind == "string"
        count = self.length("h" if is_text else "i", nullable, compact, STRING_MAX if is_text else None)
        self.line(f"end = pos + {count}")
        if is_text:
            self.line(store('str(buf[pos:end], "utf-8")'))
        else:
            self.needs_view = True
            self.line(store("view[pos:end]"))
        self.line("pos = end")
        self.end_length(count, nullable, compact, store)

    def array(self, element: Type, nullable: bool, compact: bool, store: Callable[[str], str]) -> None:
        count = self.length("i", nullable, compact, None)
        if not element.code or element.kind == "uuid":  # an unpack of the others checks by itself
            size = min_size(element, False, self.version, compact)
            assert size > 0, (
                f"{self.schema.name} v{self.version}: nothing bounds a count of elements that have no bytes"
            )
            self.line(f"if {count} {f'* {size} ' if size > 1 else ''}> limit - pos:")
            self.line("    raise Refused")
        if element.kind == "uuid":
            self.line(store(f"uuids(buf, pos, {count})"))
            self.line(f"pos += {count} * 16")
        elif element.code:
            few = f"unpack_few_{element.code.replace('?', '_')}"
            self.names.setdefault(few, _unpack_few(element.code))
            self.line(f"if {count}:")
            many = f"unpack_many({element.code!r}, {count})"
            self.line(f"    {store(f'[*({few}[{count}] if {count} < {_SMALL} else {many})(buf, pos)]')}")
            self.line(f"    pos += {count}{f' * {element.size}' if element.size > 1 else ''}")
            self.line("else:")
            self.line(f"    {store('[]')}")
        else:
            items, item = self.fresh("items"), self.fresh("item")
            self.line(f"{items} = []")
            self.line(store(items))
            self.line(f"for _ in range({count}):")
            self.indent += 1
            self.value(element, False, compact, item, f"{items}.append({{}})".format)
            self.flush()
            self.indent -= 1
        self.end_length(count, nullable, compact, store)

    def tags(self, tagged: list[Field], others: tuple[int, ...], target: str) -> None:
        count = self.fresh("tags")
        self.fixed("B", count)
        self.flush()
        self.line(f"{target}.unknown_tags = ()")
        self.line(f"if {count}:")
        self.indent += 1
        if not tagged:
            self.line(f"{target}.unknown_tags, pos = unknown_tags(buf, pos - 1, {others})")
            self.indent -= 1
            return
        last, unknown, end = self.fresh("last"), self.fresh("unknown"), self.fresh("end")
        self.line(f"{count}, pos = uvarint(buf, pos - 1)")
        self.line(f"{last} = -1")
        self.line(f"{unknown} = []")
        self.line(f"for _ in range({count}):")
        self.indent += 1
        self.line("tag, pos = uvarint(buf, pos)")
        self.line("size, pos = uvarint(buf, pos)")
        self.line(f"{end} = pos + size")
        self.line(f"if tag <= {last} or {end} > limit:")
        self.line("    raise Refused")
        self.line(f"{last} = tag")
        for index, field in enumerate(tagged):
            self.line(f"{'el' if index else ''}if tag == {field.tag}:")
            self.indent += 1
            self.tagged_field(field, target)
            self.flush()
            self.indent -= 1
        if others:
            self.line(f"elif tag in {others}:")
            self.line("    raise Refused")
        self.line("else:")
        self.line(f"    {unknown}.append((tag, bytes(buf[pos:{end}])))")
        self.line(f"    pos = {end}")
        self.line(f"if pos != {end}:")
        self.line("    raise Refused")
        self.indent -= 1
        self.line(f"{target}.unknown_tags = tuple({unknown})")
        self.indent -= 1

    def tagged_field(self, field: Field, target: str) -> None:
        if field.type.struct is not None and field.nullable.includes(self.version):
            # In a tag, the presence of a nullable struct is a varint: 0 for null, 1 before a struct.
            self.line("present, pos = uvarint(buf, pos)")
            self.line("if not present:")
            self.line(f"    {target}.{field.name} = None")
            self.line("else:")
            self.indent += 1
            self.nested(field.type.struct, False, f"{target}.{field.name} = {{}}".format)
            self.flush()
            self.indent -= 1
        else:
            self.field(field, target)


# What the compiled functions call.


def _uuids(buf: Buffer, pos: int, count: int) -> list[Uuid]:
    return [Uuid(buf[start : start + 16]) for start in range(pos, pos + count * 16, 16)]


def _unknown_tags(buf: Buffer, pos: int, others: tuple[int, ...]) -> tuple[tuple[UnknownTag, ...], int]:
    count, pos = read_uvarint(buf, pos)
    last = -1
    unknown = []
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        end = pos + size
        if tag <= last or end > len(buf) or tag in others:
            raise Refused("the tags do not ascend, reach beyond the frame, or are of another version")
        last = tag
        unknown.append((tag, bytes(buf[pos:end])))
        pos = end
    return tuple(unknown), pos


_few: dict[str, list[Callable[[Buffer, int], tuple[Any, ...]]]] = {}


def _unpack_few(code: str) -> list[Callable[[Buffer, int], tuple[Any, ...]]]:
    """Unpackers of arrays of up to `_SMALL` elements, by length."""
    made = _few.get(code)
    if made is None:
        made = _few[code] = [struct.Struct(f">{count}{code}").unpack_from for count in range(_SMALL)]
    return made


def _unpack_many(code: str, count: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
    return struct.Struct(f">{count}{code}").unpack_from

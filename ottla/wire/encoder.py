"""Compiles an encoder: the source of one flat function that writes one version of one message.

Runs of fixed-size fields are one precompiled `struct.Struct`; nested structs and arrays are loops in the same function;
everything is appended to one `bytearray`. A value that cannot be written fails by itself or with `Refused`, and
`explain` finds out which one it was. Called by `codec`.

In the form "to parts", a bulk value (`bytes`, `records`) of more than `COPIED_MAX` bytes, or one that is not in memory,
is not copied: it becomes a part of its own between two bytearrays, so that a link can send it from where it is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ottla.wire.decoder import STRING_MAX
from ottla.wire.failures import Refused
from ottla.wire.schema import Field, Schema, SentRecords, Struct, Type, UnknownTag
from ottla.wire.varint import uvarint

COPIED_MAX = 512
"""A bulk value up to this size is copied: a part of its own would cost more than the copy."""

_SMALL = 32


def compile_encoder(schema: Schema, version: int) -> Callable[[Any, bytearray], None]:
    """`encode(message, out)` appends the bytes of the message to `out`."""
    source = _Source(schema, version, to_parts=False)
    made: Callable[[Any, bytearray], None] = source.compile()
    return made


def compile_part_encoder(schema: Schema, version: int) -> Callable[[Any, list[SentRecords], bytearray], bytearray]:
    """`encode(message, parts, out)` appends finished parts to `parts`, `out` first, and returns the one still open."""
    source = _Source(schema, version, to_parts=True)
    made: Callable[[Any, list[SentRecords], bytearray], bytearray] = source.compile()
    return made


def encoder_source(schema: Schema, version: int) -> str:
    """The source that `compile_encoder` compiles, for a reader."""
    return _Source(schema, version, to_parts=False).text()


class _Source:
    """Writes the function line by line, and gathers the names it uses."""

    def __init__(self, schema: Schema, version: int, *, to_parts: bool) -> None:
        self.schema = schema
        self.version = version
        self.to_parts = to_parts
        self.flexible = schema.flexible.includes(version)
        self.names: dict[str, Any] = {
            "uvarint": uvarint, "Refused": Refused, "write_tags": _write_tags, "pack_many": _pack_many,
            "in_memory": (bytes, bytearray, memoryview),
        }  # fmt: skip
        self.lines: list[str] = []
        self.indent = 1
        self.serial = 0
        self.run: list[tuple[str, str]] = []
        self.out = "out"

    def compile(self) -> Any:
        text = self.text()
        exec(compile(text, f"<encode {self.schema.name} v{self.version}>", "exec"), self.names)
        return self.names["encode"]

    def text(self) -> str:
        self.struct(self.schema, "message")
        self.flush()
        if self.to_parts:
            return "\n".join(["def encode(message, parts, out):", *self.lines, "    return out"])
        return "\n".join(["def encode(message, out):", *self.lines])

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        self.serial += 1
        return f"{stem}{self.serial}"

    def name(self, stem: str, value: object) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def fixed(self, code: str, value: str) -> None:
        self.run = [*self.run, (code, value)]

    def flush(self) -> None:
        if self.run:
            codes = "".join(code for code, _ in self.run)
            pack = f"pack_{codes.replace('?', '_')}"
            self.names.setdefault(pack, struct.Struct(f">{codes}").pack)
            self.line(f"{self.out} += {pack}({', '.join(value for _, value in self.run if value)})")
        self.run = []

    def struct(self, schema: Schema, source: str) -> None:
        """Write the struct in the variable `source`."""
        tagged = []
        for field in schema.fields:
            if field.tagged.includes(self.version):
                tagged.append(field)
            elif field.versions.includes(self.version):
                self.field(field, source)
            elif not field.ignorable:
                self.line(f"if {self.is_set(field, source)}:")
                self.line("    raise Refused")
        if self.flexible:
            self.tags(tagged, source)
        else:
            self.line(f"if {source}.unknown_tags:")
            self.line("    raise Refused")

    def is_set(self, field: Field, source: str) -> str:
        """A condition: the field holds something other than its default."""
        value = f"{source}.{field.name}"
        if field.absent_is_none:
            assert field.type.struct is not None
            return f"{value} is not None and {value} != {self.name('default', field.type.struct.cls())}"
        default = field.default
        if default is None:
            return f"{value} is not None"
        if default is False:
            return value
        if default is True:
            return f"not {value}"
        if isinstance(default, list | Struct) or not isinstance(default, int | str):
            return f"{value} != {self.name('default', default)}"
        return f"{value} != {default!r}"

    def field(self, field: Field, source: str) -> None:
        compact = field.is_compact(self.version, self.flexible)
        self.value(field.type, field.nullable.includes(self.version), compact, f"{source}.{field.name}")

    def value(self, kind: Type, nullable: bool, compact: bool, source: str) -> None:
        if kind.code:
            self.fixed(kind.code, source)
        elif kind.struct is not None:
            self.nested(kind.struct, nullable, source)
        elif kind.element is not None:
            self.array(kind.element, nullable, compact, source)
        else:
            self.text_or_bytes(kind, nullable, compact, source)

    def nested(self, schema: Schema, nullable: bool, source: str) -> None:
        item = source
        if not source.isidentifier():
            item = self.fresh("item")
            self.line(f"{item} = {source}")
        if not nullable:
            self.struct(schema, item)
            return
        self.flush()
        self.line(f"if {item} is None:")
        self.line(f"    {self.out}.append(255)")
        self.line("else:")
        self.indent += 1
        self.line(f"{self.out}.append(1)")
        self.struct(schema, item)
        self.flush()
        self.indent -= 1

    def length(self, code: str, count: str, compact: bool, longest: int | None) -> None:
        """Write the length in the variable `count`, in one piece with the run before it where it takes one byte."""
        if not compact:
            self.fixed(code, count)
            self.flush()
            return
        before = self.run
        self.line(f"if {count} < 127:")
        self.indent += 1
        if before:
            self.fixed("B", f"{count} + 1")
            self.flush()
        else:
            self.line(f"{self.out}.append({count} + 1)")
        self.indent -= 1
        if longest is not None:
            self.line(f"elif {count} > {longest}:")
            self.line("    raise Refused")
        self.line("else:")
        self.indent += 1
        self.run = before
        self.flush()
        self.line(f"{self.out} += uvarint({count} + 1)")
        self.indent -= 1

    def open_nullable(self, code: str, compact: bool, item: str) -> None:
        """Write the null of a value that is None, and open the block in which it is not."""
        self.flush()
        self.line(f"if {item} is None:")
        if compact:
            self.line(f"    {self.out}.append(0)")
        else:
            self.line(f"    {self.out} += {struct.pack('>' + code, -1)!r}")
        self.line("else:")
        self.indent += 1

    def text_or_bytes(self, kind: Type, nullable: bool, compact: bool, source: str) -> None:
        is_text = kind.kind == "string"
        code = "h" if is_text else "i"
        item, count = self.fresh("item"), self.fresh("n")
        self.line(f"{item} = {source}")
        if nullable:
            self.open_nullable(code, compact, item)
        if is_text:
            self.line(f"{item} = {item}.encode()")
        self.line(f"{count} = len({item})")
        self.length(code, count, compact, STRING_MAX if is_text else None)
        # A tagged field is written aside first, so it has no place between two parts.
        if is_text or not self.to_parts or self.out != "out":
            self.line(f"{self.out} += {item}")
        else:
            # Only records may be somewhere else than in memory; appending anything else fails.
            joint = "and" if kind.kind == "records" else "or not"
            self.line(f"if {count} <= {COPIED_MAX} {joint} isinstance({item}, in_memory):")
            self.line(f"    out += {item}")
            self.line("else:")
            self.line("    parts.append(out)")
            self.line(f"    parts.append({item})")
            self.line("    out = bytearray()")
        if nullable:
            self.indent -= 1

    def array(self, element: Type, nullable: bool, compact: bool, source: str) -> None:
        items, count = self.fresh("items"), self.fresh("n")
        self.line(f"{items} = {source}")
        if nullable:
            self.open_nullable("i", compact, items)
        self.line(f"{count} = len({items})")
        self.length("i", count, compact, None)
        if element.kind == "uuid":
            joined = self.fresh("joined")
            self.line(f"{joined} = b''.join({items})")
            self.line(f"if len({joined}) != {count} * 16:")
            self.line("    raise Refused")
            self.line(f"{self.out} += {joined}")
        elif element.code:
            few = f"pack_few_{element.code.replace('?', '_')}"
            self.names.setdefault(few, _pack_few(element.code))
            self.line(f"if {count}:")
            many = f"pack_many({element.code!r}, {count})"
            self.line(f"    {self.out} += ({few}[{count}] if {count} < {_SMALL} else {many})(*{items})")
        else:
            item = self.fresh("item")
            self.line(f"for {item} in {items}:")
            self.indent += 1
            self.value(element, False, compact, item)
            self.flush()
            self.indent -= 1
        if nullable:
            self.indent -= 1

    def tags(self, tagged: list[Field], source: str) -> None:
        unknown = f"{source}.unknown_tags"
        if not tagged:
            before = self.run
            self.line(f"if {unknown}:")
            self.indent += 1
            self.flush()
            self.line(f"write_tags({self.out}, (), {unknown})")
            self.indent -= 1
            self.line("else:")
            self.indent += 1
            if before:
                self.run = [*before, ("x", "")]  # a byte that is 0
                self.flush()
            else:
                self.line(f"{self.out}.append(0)")
            self.indent -= 1
            return
        self.flush()
        if len(tagged) == 1 and tagged[0].type.code and not tagged[0].nullable.includes(self.version):
            self.only_tag(tagged[0], source)
            return
        known = self.fresh("known")
        self.line(f"{known} = []")
        for field in tagged:
            self.line(f"if {self.is_set(field, source)}:")
            self.indent += 1
            self.tagged_field(field, source, known)
            self.indent -= 1
        self.line(f"if {known} or {unknown}:")
        self.line(f"    write_tags({self.out}, {known}, {unknown})")
        self.line("else:")
        self.line(f"    {self.out}.append(0)")

    def only_tag(self, field: Field, source: str) -> None:
        """The tags of a struct that knows one, of a fixed size: everything but its value is the same every time."""
        assert field.tag is not None
        code = field.type.code
        size = struct.calcsize(f">{code}")
        head = uvarint(1) + uvarint(field.tag) + uvarint(size)
        pack, pack_one = f"pack_tag_{len(head)}s{code}".replace("?", "_"), f"pack_{code}".replace("?", "_")
        self.names.setdefault(pack, struct.Struct(f">{len(head)}s{code}").pack)
        self.names.setdefault(pack_one, struct.Struct(f">{code}").pack)
        value, unknown = f"{source}.{field.name}", f"{source}.unknown_tags"
        self.line(f"if {unknown}:")
        self.line(f"    known = [({field.tag}, {pack_one}({value}))] if {self.is_set(field, source)} else ()")
        self.line(f"    write_tags({self.out}, known, {unknown})")
        self.line(f"elif {self.is_set(field, source)}:")
        self.line(f"    {self.out} += {pack}({head!r}, {value})")
        self.line("else:")
        self.line(f"    {self.out}.append(0)")

    def tagged_field(self, field: Field, source: str, known: str) -> None:
        """Write a tagged field aside, since its size comes before it."""
        outside, self.out = self.out, self.fresh("aside")
        self.line(f"{self.out} = bytearray()")
        if field.type.struct is not None and field.nullable.includes(self.version):
            # In a tag, the presence of a nullable struct is a varint: 0 for null, 1 before a struct.
            self.line(f"if {source}.{field.name} is None:")
            self.line(f"    {self.out}.append(0)")
            self.line("else:")
            self.indent += 1
            self.line(f"{self.out}.append(1)")
            self.nested(field.type.struct, False, f"{source}.{field.name}")
            self.flush()
            self.indent -= 1
        else:
            self.field(field, source)
            self.flush()
        self.line(f"{known}.append(({field.tag}, {self.out}))")
        self.out = outside


# What the compiled functions call.


def _write_tags(out: bytearray, known: Sequence[tuple[int, bytes | bytearray]], unknown: Sequence[UnknownTag]) -> None:
    """Write the tag section: known and unknown fields in the order of their tags."""
    fields: Sequence[tuple[int, bytes | bytearray]] = known
    if unknown or len(known) > 1:
        fields = sorted([*known, *unknown], key=lambda field: field[0])
    out += uvarint(len(fields))
    last = -1
    for tag, content in fields:
        if tag <= last:
            raise Refused(f"tag {tag} is given twice")
        last = tag
        out += uvarint(tag)
        out += uvarint(len(content))
        out += content


_few: dict[str, list[Callable[..., bytes]]] = {}


def _pack_few(code: str) -> list[Callable[..., bytes]]:
    """Packers of arrays of up to `_SMALL` elements, by length."""
    made = _few.get(code)
    if made is None:
        made = _few[code] = [struct.Struct(f">{count}{code}").pack for count in range(_SMALL)]
    return made


def _pack_many(code: str, count: int) -> Callable[..., bytes]:
    return struct.Struct(f">{count}{code}").pack

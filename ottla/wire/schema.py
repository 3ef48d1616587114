"""How a message is declared: one typed class for all its versions.

    class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
        \"\"\"Read records from partitions, waiting until enough have arrived.\"\"\"

        max_wait_ms: Int32 = field()
        isolation_level: Int8 = field("4+", default=0)
        topics: list[FetchTopic] = field()

A class is slotted and mutable. Every field may be left out of the constructor, because some version always lacks some
field; it then has its default, which is Kafka's. `| None` says that a field may be null, in the versions of `nullable`
(all, unless told). A tagged struct that Kafka declares as not nullable is `| None` here too: `None` is its absence.

Making a class costs microseconds: types are resolved, and `__init__` and the codecs compiled, on first use.

Message and struct are base classes and not decorators, so that a type checker knows what every message has (its schema,
its unknown tags), and so that the class is made once, with its slots.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias, dataclass_transform

from ottla.types import ZERO_UUID, Buffer

Bool: TypeAlias = bool
Int8: TypeAlias = int
Int16: TypeAlias = int
Int32: TypeAlias = int
Int64: TypeAlias = int
Uint16: TypeAlias = int
Uint32: TypeAlias = int
Float64: TypeAlias = float
Bytes: TypeAlias = Buffer
"""Decodes to a view of the frame, not to a copy."""
Records: TypeAlias = Buffer
"""Record batches, which `ottla.records` reads. Decodes to a view of the frame."""


class Slice(Protocol):
    """Bytes that are somewhere else, such as a part of a file; a link that sends it knows how. `len()` is its size."""

    def __len__(self) -> int: ...


SentRecords: TypeAlias = Buffer | Slice
"""Record batches that a broker sends, perhaps from a file (`encode_parts`). Decodes to a view of the frame."""

UnknownTag: TypeAlias = tuple[int, bytes]
"""A tagged field that this version of Ottla has no name for: tag and content."""


class Versions(NamedTuple):
    """A range of versions, both ends included; `none` is empty."""

    first: int
    last: int

    @staticmethod
    @cache
    def parse(text: str) -> Versions:
        """Read Kafka's notation: `3`, `4-18`, `12+` or `none`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return Versions(int(text[:-1]), VERSION_MAX)
        first, _, last = text.partition("-")
        return Versions(int(first), int(last or first))

    def includes(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == VERSION_MAX:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


VERSION_MAX = 0x7FFF
NO_VERSIONS = Versions(0, -1)


class Type(NamedTuple):
    """What a field holds. `kind` is Kafka's word for it, or `array` or `struct`."""

    kind: str
    code: str = ""
    """The letter of the `struct` module; empty when the size varies."""
    size: int = 0
    element: Type | None = None
    struct: Schema | None = None

    def __str__(self) -> str:
        if self.element is not None:
            return f"[]{self.element}"
        return self.struct.name if self.struct is not None else self.kind


_TYPES = {
    "Bool": Type("bool", "?", 1),
    "Int8": Type("int8", "b", 1),
    "Int16": Type("int16", "h", 2),
    "Int32": Type("int32", "i", 4),
    "Int64": Type("int64", "q", 8),
    "Uint16": Type("uint16", "H", 2),
    "Uint32": Type("uint32", "I", 4),
    "Float64": Type("float64", "d", 8),
    "Uuid": Type("uuid", "16s", 16),
    "str": Type("string"),
    "Bytes": Type("bytes"),
    "Records": Type("records"),
    "SentRecords": Type("records"),
}
_ZEROS = {"bool": False, "float64": 0.0, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": None}
UNSET: Any = object()


def field(
    versions: str | None = None,
    *,
    nullable: str | None = None,
    default: Any = UNSET,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    map_key: bool = False,
    entity: str | None = None,
    flexible: str | None = None,
    doc: str | None = None,
) -> Any:
    """Declare a field of a `Message` or `Struct`; its type is its annotation.

    `versions` that carry it (those of `tagged`, or all, unless told); `nullable` versions of a field that is `| None`;
    `tag` and the versions in which it is `tagged`; `flexible` versions where they are not the message's. A value that
    is not the default, in a version without the field, is an error unless it is `ignorable`. `map_key` and `entity`
    say what the field means (Kafka's words) and change no byte. `doc` is for readers.
    """
    return Field(versions, nullable, default, tag, tagged, ignorable, map_key, entity, flexible, doc)


class Field:
    """A declared field. What depends on the class around it is filled in when `Schema.fields` is first read."""

    name: str
    type: Type
    nullable: Versions
    optional: bool
    """The annotation says `| None`: null on the wire, or the absence of a tagged struct."""

    def __init__(
        self,
        versions: str | None,
        nullable: str | None,
        default: Any,
        tag: int | None,
        tagged: str | None,
        ignorable: bool,
        map_key: bool,
        entity: str | None,
        flexible: str | None,
        doc: str | None,
    ) -> None:
        self.versions = Versions.parse(versions or tagged or "0+")
        self.default = default
        self.tag = tag
        self.tagged = NO_VERSIONS if tag is None else Versions.parse(tagged) if tagged else self.versions
        self.ignorable = ignorable
        self.map_key = map_key
        self.entity = entity
        self.flexible = None if flexible is None else Versions.parse(flexible)
        self.doc = doc
        self._nullable = nullable

    def resolve(self, name: str, annotation: str, module: str) -> None:
        """Fill in the name, the type, when it may be null, and the default."""
        text = annotation.removesuffix(" | None")
        self.name = name
        self.optional = text != annotation
        self.type = _type_of(text, module)
        if self._nullable is not None:
            self.nullable = Versions.parse(self._nullable)
        elif self.optional and not (self.type.kind == "struct" and self.tag is not None):
            self.nullable = self.versions
        else:
            self.nullable = NO_VERSIONS
        if self.default is UNSET:
            self.default = None if self.absent_is_none else _zero(self.type)

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON form: lower camel case."""
        head, *tail = self.name.split("_")
        return head + "".join(word.capitalize() for word in tail)

    @property
    def absent_is_none(self) -> bool:
        """A tagged struct that the wire cannot null: `None` stands for one that is not there."""
        return self.optional and self.type.kind == "struct" and self.nullable == NO_VERSIONS

    def is_default(self, value: object) -> bool:
        """Whether a version without the field loses nothing, or a tagged field need not be written."""
        if self.absent_is_none:
            assert self.type.struct is not None
            return value is None or value == self.type.struct.cls()
        return bool(value == self.default)

    def is_compact(self, version: int, flexible: bool) -> bool:
        """Whether its length is a varint, in a message that is `flexible` in this version."""
        return flexible if self.flexible is None else self.flexible.includes(version)


def _type_of(text: str, module: str) -> Type:
    if text.startswith("list["):
        return Type("array", element=_type_of(text[5:-1], module))
    found = _TYPES.get(text)
    if found is None:
        struct = getattr(sys.modules[module], text, None)
        assert isinstance(struct, StructType), f"{module}: {text} is neither a wire type nor a struct of this module"
        found = Type("struct", struct=struct.schema)
    return found


def _zero(kind: Type) -> object:
    if kind.struct is not None:
        return kind.struct.cls()
    return [] if kind.element is not None else _ZEROS.get(kind.kind, 0)


class Schema:
    """What a class declares: its name, versions and fields; and the codecs compiled for it so far, by version."""

    def __init__(self, cls: type[Any], declared: dict[str, Field], options: dict[str, Any]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.api_key: int | None = options.pop("api_key", None)
        self.versions = Versions.parse(options.pop("versions", "none"))
        self.flexible = Versions.parse(options.pop("flexible", "none"))
        assert not options, f"{self.name}: unknown options {sorted(options)}"
        self._declared = declared
        self._fields: tuple[Field, ...] | None = None
        self.decoders: dict[int, Callable[[Buffer, int], tuple[Any, int]]] = {}
        self.encoders: dict[int, Callable[[Any, bytearray], None]] = {}
        self.part_encoders: dict[int, Callable[[Any, list[SentRecords], bytearray], bytearray]] = {}

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields in wire order, of every version."""
        if self._fields is None:
            # A class without fields would show the annotations of its base.
            annotations = self.cls.__annotations__ if self._declared else {}
            assert list(annotations) == list(self._declared), f"{self.name}: a field needs a type and `field(...)`"
            for name, declared in self._declared.items():
                declared.resolve(name, annotations[name], self.cls.__module__)
            self._fields = tuple(self._declared.values())
        return self._fields


RESERVED = frozenset({"schema", "unknown_tags"})


class StructType(type):
    """Makes a declared class: takes the `field(...)` values out of its body and gives it slots for them."""

    schema: Schema

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> StructType:
        declared = {key: value for key, value in namespace.items() if type(value) is Field}
        assert not declared.keys() & RESERVED, f"{name}: {sorted(declared.keys() & RESERVED)} cannot be fields"
        for key in declared:
            del namespace[key]
        namespace.setdefault("__slots__", tuple(declared))
        cls = super().__new__(mcs, name, bases, namespace)
        cls.schema = Schema(cls, declared, options)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        super().__init__(name, bases, namespace)


@dataclass_transform()
class Struct(metaclass=StructType):
    """A part of a message that is declared by its fields."""

    __slots__ = ("unknown_tags",)

    schema: ClassVar[Schema]
    unknown_tags: Sequence[UnknownTag]
    """Tagged fields of a newer peer, kept on decode and written back on encode."""

    if not TYPE_CHECKING:  # a type checker derives the constructor from the fields

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            cls = type(self)
            cls.__init__ = _constructor(cls.schema)
            cls.__init__(self, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.schema.fields) and list(
            self.unknown_tags
        ) == list(other.unknown_tags)

    __hash__ = None  # type: ignore[assignment]  # a message may change

    def __repr__(self) -> str:
        shown = [f"{field.name}={_show(getattr(self, field.name))}" for field in self.schema.fields]
        if self.unknown_tags:
            shown.append(f"unknown_tags={self.unknown_tags!r}")
        return f"{self.schema.name}({', '.join(shown)})"


class Message(Struct):
    """A request, response, header or record: what a codec reads and writes as a whole."""

    __slots__ = ()


def _show(value: object) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview) else repr(value)


def _constructor(schema: Schema) -> Callable[..., None]:
    """Compile `__init__`: every field optional, in declared order, a fresh list or struct for each new object."""
    names: dict[str, Any] = {"UNSET": UNSET}
    parameters, stores = [], []
    for index, declared in enumerate(schema.fields):
        name, default = declared.name, declared.default
        if isinstance(default, list | Struct):
            names[f"new{index}"] = type(default)
            parameters.append(f"{name}=UNSET")
            stores.append(f" self.{name} = new{index}() if {name} is UNSET else {name}")
        else:
            names[f"default{index}"] = default
            parameters.append(f"{name}=default{index}")
            stores.append(f" self.{name} = {name}")
    source = f"def __init__(self, {', '.join(parameters)}):\n" + "\n".join([*stores, " self.unknown_tags = ()"])
    exec(compile(source, f"<{schema.name}.__init__>", "exec"), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{schema.name}.__init__"
    return made

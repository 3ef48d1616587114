"""The JSON form of a message, as Kafka's own tools print and read it.

Names are lower camel case, bytes and records base64, uuids URL-safe base64; an infinite or undefined float is a string;
a tagged field is there only when it is not at its default; a field that the version lacks is not there at all. Tagged
fields without a name, which Kafka's form drops, are kept under `unknownTaggedFields`.

Promises: `from_json(cls, version, to_json(message, version))` equals `message` in that version; what is missing, not
known, of the wrong type or out of range raises `JsonFormError` with the path of the field.
Called by the `wire` and `dump-log` commands, and for files that Kafka keeps as JSON.
"""

from __future__ import annotations

import binascii
from typing import Any, NoReturn, TypeVar

from ottla.errors import UnsupportedVersion
from ottla.types import Uuid
from ottla.wire.schema import Field, Message, Schema, Struct, Type

M = TypeVar("M", bound=Message)

UNKNOWN_TAGS = "unknownTaggedFields"

_RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class JsonFormError(Exception):
    """JSON that is not the form of the message: `path` names the field, `reason` says what is wrong."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def to_json(message: Message, version: int) -> dict[str, Any]:
    """What `json.dumps` takes; `UnsupportedVersion` when the version cannot carry a field that is set."""
    return _struct_to_json(message.schema, message, version, message.schema.name)


def from_json(cls: type[M], version: int, form: object) -> M:
    """The message of a parsed JSON form. All fields that the version has must be there, except tagged ones."""
    made: M = _struct_from_json(cls.schema, form, version, cls.schema.name)
    return made


def _struct_to_json(schema: Schema, value: Struct, version: int, path: str) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for field in schema.fields:
        held = getattr(value, field.name)
        if not field.versions.includes(version):
            if not field.ignorable and not field.is_default(held):
                raise UnsupportedVersion(f"{path}.{field.name} is set, and version {version} has no such field.")
        elif not (field.tagged.includes(version) and field.is_default(held)):
            form[field.json_name] = _to_json(field.type, held, version, f"{path}.{field.name}")
    if value.unknown_tags:
        form[UNKNOWN_TAGS] = [{"tag": tag, "data": _base64(content)} for tag, content in value.unknown_tags]
    return form


def _to_json(kind: Type, value: Any, version: int, path: str) -> Any:
    if value is None:
        return None
    if kind.struct is not None:
        return _struct_to_json(kind.struct, value, version, path)
    if kind.element is not None:
        return [_to_json(kind.element, item, version, f"{path}[{index}]") for index, item in enumerate(value)]
    if kind.kind == "uuid":
        return str(value)
    if kind.kind in ("bytes", "records"):
        return _base64(value)
    if kind.kind == "float64" and value - value != 0:  # NaN and the infinities have no JSON number
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _struct_from_json(schema: Schema, form: object, version: int, path: str) -> Any:
    if not isinstance(form, dict):
        _fail(path, f"expected an object, found {_describe(form)}")
    values = {}
    rest = dict(form)
    for field in schema.fields:
        if not field.versions.includes(version):
            continue
        if field.json_name in rest:
            values[field.name] = _field_from_json(field, rest.pop(field.json_name), version, f"{path}.{field.name}")
        elif not field.tagged.includes(version):
            _fail(f"{path}.{field.name}", f"`{field.json_name}` is missing, which version {version} requires")
    tags = rest.pop(UNKNOWN_TAGS, [])
    if rest:
        _fail(path, f"version {version} has no field {', '.join(f'`{name}`' for name in rest)}")
    made = schema.cls(**values)
    made.unknown_tags = _tags_from_json(tags, path)
    return made


def _tags_from_json(form: object, path: str) -> tuple[tuple[int, bytes], ...]:
    path = f"{path}.{UNKNOWN_TAGS}"
    if not isinstance(form, list):
        _fail(path, f"expected an array, found {_describe(form)}")
    tags = []
    for index, item in enumerate(form):
        if not isinstance(item, dict) or set(item) != {"tag", "data"}:
            _fail(f"{path}[{index}]", "expected an object with `tag` and `data`")
        tag = _from_json(Type("uint32"), item["tag"], 0, f"{path}[{index}]")
        tags.append((tag, _from_json(Type("bytes"), item["data"], 0, f"{path}[{index}]")))
    return tuple(tags)


def _field_from_json(field: Field, form: object, version: int, path: str) -> Any:
    if form is None:
        if field.nullable.includes(version):
            return None
        _fail(path, f"null is not allowed in version {version}")
    return _from_json(field.type, form, version, path)


def _from_json(kind: Type, form: Any, version: int, path: str) -> Any:
    if kind.struct is not None:
        return _struct_from_json(kind.struct, form, version, path)
    if kind.element is not None:
        if not isinstance(form, list):
            _fail(path, f"expected an array, found {_describe(form)}")
        return [_from_json(kind.element, item, version, f"{path}[{index}]") for index, item in enumerate(form)]
    if kind.kind in _RANGES:
        first, last = _RANGES[kind.kind]
        if not isinstance(form, int) or isinstance(form, bool):
            _fail(path, f"expected an integer, found {_describe(form)}")
        if not first <= form <= last:
            _fail(path, f"{form} does not fit in an {kind.kind}")
        return form
    if kind.kind == "bool":
        if not isinstance(form, bool):
            _fail(path, f"expected true or false, found {_describe(form)}")
        return form
    if kind.kind == "float64":
        if isinstance(form, int | float) and not isinstance(form, bool):
            return float(form)
        if isinstance(form, str) and form in _FLOATS:
            return _FLOATS[form]
        _fail(path, f"expected a number, found {_describe(form)}")
    if not isinstance(form, str):
        _fail(path, f"expected a string, found {_describe(form)}")
    return _text_from_json(kind, form, path)


def _text_from_json(kind: Type, form: str, path: str) -> Any:
    if kind.kind == "string":
        return form
    if kind.kind == "uuid":
        try:
            return Uuid.parse(form)
        except ValueError as error:
            _fail(path, str(error))
    try:
        return binascii.a2b_base64(form, strict_mode=True)
    except ValueError as error:  # also what a character outside ASCII raises
        _fail(path, f"expected base64: {error}")


def _base64(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode("ascii")


def _describe(form: object) -> str:
    text = repr(form)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _fail(path: str, reason: str) -> NoReturn:
    raise JsonFormError(path, reason)

"""Round trips of random messages: whatever a message holds comes back, with unknown tags, in every kind of version."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.types import Uuid
from ottla.wire import decode, encode, encode_parts, message_class
from ottla.wire.explain import slow_encode
from ottla.wire.json_form import from_json, to_json
from ottla.wire.schema import Field, Schema, Type
from tests.unit.wire.samples import Everything, Tagged

INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)
SPOKEN = (
    (Everything, 0), (Everything, 1), (Everything, 2), (Tagged, 0), (Tagged, 1),
    (message_class("FetchResponse"), 17), (message_class("FetchRequest"), 18), (message_class("ProduceResponse"), 13),
    (message_class("MetadataResponse"), 12), (message_class("PartitionChangeRecord"), 2),
    (message_class("ConsumerGroupMemberMetadataValue"), 0), (message_class("StreamsGroupHeartbeatRequest"), 0),
    (message_class("JoinGroupResponse"), 5), (message_class("RequestHeader"), 2),
)  # fmt: skip


def values(kind: Type, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if kind.struct is not None:
        return structs(kind.struct, version, flexible)
    if kind.element is not None:
        return st.lists(values(kind.element, version, flexible), max_size=3)
    if kind.kind in INTEGERS:
        return st.integers(*INTEGERS[kind.kind])
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16).map(Uuid),
        "string": TEXT,
        "bytes": st.binary(max_size=700),
        "records": st.binary(max_size=700),
    }
    return simple[kind.kind]


def structs(schema: Schema, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    fields = {
        field.name: field_values(field, version, flexible)
        for field in schema.fields
        if field.versions.includes(version)
    }
    known = {field.tag for field in schema.fields}
    tags = st.dictionaries(st.integers(0, 5000).filter(lambda tag: tag not in known), st.binary(max_size=9), max_size=2)

    def build(held: dict[str, Any], unknown: dict[int, bytes]) -> Any:
        made = schema.cls(**held)
        made.unknown_tags = tuple(sorted(unknown.items())) if flexible else ()
        return made

    return st.builds(build, st.fixed_dictionaries(fields), tags)


def field_values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    held = values(field.type, version, flexible)
    if field.nullable.includes(version) or field.absent_is_none:
        return st.none() | held
    return held


def messages() -> st.SearchStrategy[tuple[Any, int]]:
    found = [
        st.tuples(structs(cls.schema, version, cls.schema.flexible.includes(version)), st.just(version))
        for cls, version in SPOKEN
    ]
    return st.one_of(*found)


def normal(message: Any, version: int) -> Any:
    """A tagged struct that is there but holds only defaults is not written, and so comes back as absent."""
    for field in message.schema.fields:
        held = getattr(message, field.name)
        if field.absent_is_none and field.is_default(held):
            setattr(message, field.name, None)
        element = field.type.element or field.type
        if element.struct is not None:
            for item in held if isinstance(held, list) else [held]:
                if item is not None:
                    normal(item, version)
    return message


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages())
def test_a_message_comes_back_as_it_was(sample: tuple[Any, int]) -> None:
    message, version = sample
    data = encode(message, version)
    again = decode(type(message), version, data)
    assert again == normal(message, version)
    assert encode(again, version) == data
    assert slow_encode(message.schema, version, message) == data
    assert b"".join(encode_parts(message, version)) == data  # type: ignore[arg-type]
    assert from_json(type(message), version, to_json(message, version)) == again

"""The declarations are Kafka's: every message, field and attribute is compared with kafka-facts, both ways.

A difference is named in full: message, field, attribute, what the facts say, what is declared.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ottla.types import ZERO_UUID
from ottla.wire import Message, Struct, Versions, message_class, message_names
from ottla.wire.schema import NO_VERSIONS, Field, Schema
from tests.support.golden import GOLDEN

FAMILIES = ("requests", "data", "metadata-records", "coordinator-records")
COUNTS = {"requests": 186, "data": 13, "metadata-records": 26, "coordinator-records": 50}


def facts(family: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((GOLDEN / "kafka-facts" / f"{family}.json").read_text())
    return rows


ALL_FACTS = [row for family in FAMILIES for row in facts(family)]


def snake(name: str) -> str:
    """`MaxWaitMs` -> `max_wait_ms`, `KRaftVersion` -> `k_raft_version`."""
    spaced = "".join(f" {letter}" if letter.isupper() else letter for letter in name)
    return "_".join(word.lower() for word in spaced.split())


def differences(message: dict[str, Any], schema: Schema) -> list[str]:
    """Everything in which a declared message differs from the facts about it, one line each."""
    found = []
    for attribute, expected, actual in (
        ("apiKey", message.get("apiKey"), schema.api_key),
        ("validVersions", versions(message["validVersions"]), schema.versions),
        ("flexibleVersions", versions(message.get("flexibleVersions")), schema.flexible),
    ):
        if expected != actual:
            found.append(f"{message['name']}: {attribute}: expected {expected}, found {actual}")
    common = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    return found + field_differences(message["name"], message["name"], message["fields"], schema, common)


def field_differences(
    message: str, path: str, expected_fields: list[dict[str, Any]], schema: Schema, common: dict[str, Any]
) -> list[str]:
    found = []
    declared = {field.name: field for field in schema.fields}
    expected_names = [snake(field["name"]) for field in expected_fields]
    found += [f"{path}.{name}: in the facts, not declared" for name in expected_names if name not in declared]
    found += [f"{path}.{name}: declared, not in the facts" for name in declared if name not in expected_names]
    if not found and expected_names != list(declared):
        found.append(f"{path}: the order of fields: expected {expected_names}, found {list(declared)}")
    for fact in expected_fields:
        name = snake(fact["name"])
        if name not in declared:
            continue
        expected, actual = expected_attributes(fact), declared_attributes(declared[name], message, fact["type"])
        for attribute, value in expected.items():
            if actual[attribute] != value:
                found.append(f"{path}.{name}: {attribute}: expected {value}, found {actual[attribute]}")
        struct = fact["type"].removeprefix("[]")
        nested = fact.get("fields", common.get(struct))
        element = declared[name].type.element or declared[name].type
        if nested is not None and element.struct is not None:
            found += field_differences(message, f"{path}.{name}", nested, element.struct, common)
    return found


def expected_attributes(fact: dict[str, Any]) -> dict[str, object]:
    tagged = versions(fact.get("taggedVersions"))
    return {
        "type": fact["type"],
        # A field of which the facts tell only the tagged versions has no others.
        "versions": versions(fact.get("versions")) if "versions" in fact else tagged,
        "nullableVersions": versions(fact.get("nullableVersions")),
        "tag": fact.get("tag"),
        "taggedVersions": tagged,
        "default": expected_default(fact),
        "ignorable": fact.get("ignorable", False),
        "mapKey": fact.get("mapKey", False),
        "entityType": fact.get("entityType"),
        "flexibleVersions": versions(fact["flexibleVersions"]) if "flexibleVersions" in fact else None,
    }


def declared_attributes(field: Field, message: str, expected_type: str) -> dict[str, object]:
    default = field.default
    kind = str(field.type)
    # Of two structs in one module that share a Kafka name, each carries the name of its message as well.
    if kind == f"[]{message}{expected_type[2:]}":
        kind = expected_type
    return {
        "type": kind,
        "versions": field.versions,
        "nullableVersions": field.nullable,
        "tag": field.tag,
        "taggedVersions": field.tagged,
        "default": f"a new {type(default).__name__}" if isinstance(default, Struct) else default,
        "ignorable": field.ignorable,
        "mapKey": field.map_key,
        "entityType": field.entity,
        "flexibleVersions": field.flexible,
    }


def expected_default(fact: dict[str, Any]) -> object:
    kind = fact["type"]
    text = fact.get("default")
    if text == "null":
        return None
    if text is not None:
        if kind == "bool":
            return str(text).lower() == "true"
        return text if kind == "string" else int(str(text), 0)
    # Kafka takes a JSON null for no default at all; only the word "null" makes the default null.
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        absent = "tag" in fact and "nullableVersions" not in fact
        return None if absent else f"a new {kind}"
    zeros = {"bool": False, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": None, "float64": 0.0}
    return zeros.get(kind, 0)


def versions(text: str | None) -> Versions:
    return NO_VERSIONS if text is None else Versions.parse(text)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_of_every_message_is_as_kafka_declares_it(family: str) -> None:
    rows = facts(family)
    assert len(rows) == COUNTS[family]
    found = [line for row in rows for line in differences(row, message_class(row["name"]).schema)]
    assert not found, "\n".join(found)


def test_no_message_is_declared_that_kafka_does_not_have() -> None:
    assert sorted(message_names()) == sorted(row["name"] for row in ALL_FACTS)
    assert len(message_names()) == 275


def test_every_message_says_what_it_is_for() -> None:
    for name in message_names():
        cls = message_class(name)
        assert issubclass(cls, Message)
        assert cls.__name__ == name
        doc = cls.__doc__ or ""
        assert doc != Message.__doc__, name
        assert doc.endswith("."), name
        assert "\n" not in doc, name


def test_json_names_are_kafkas_names() -> None:
    for row in ALL_FACTS:
        names = [field.json_name for field in message_class(row["name"]).schema.fields]
        assert names == [fact["name"][0].lower() + fact["name"][1:] for fact in row["fields"]], row["name"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("MaxWaitMs", "type", "int64"), "FetchRequest.max_wait_ms: type: expected int64, found int32"),
        (("MaxBytes", "default", "5"), "FetchRequest.max_bytes: default: expected 5, found 2147483647"),
        (("MaxBytes", "ignorable", False), "FetchRequest.max_bytes: ignorable: expected False, found True"),
        (("ClusterId", "tag", 7), "FetchRequest.cluster_id: tag: expected 7, found 0"),
        (("RackId", "versions", "12+"), "FetchRequest.rack_id: versions: expected 12+, found 11+"),
        (("RackId", "nullableVersions", "12+"), "FetchRequest.rack_id: nullableVersions: expected 12+, found none"),
        (("ReplicaId", "entityType", None), "FetchRequest.replica_id: entityType: expected None, found brokerId"),
        (("MinBytes", "name", "MinBites"), "FetchRequest.min_bites: in the facts, not declared"),
    ],
)
def test_a_difference_is_named_in_full(change: tuple[str, str, object], line: str) -> None:
    """The comparison itself is tested: facts that are changed in one place are reported in that place."""
    name, attribute, value = change
    row = copy.deepcopy(next(row for row in ALL_FACTS if row["name"] == "FetchRequest"))
    next(field for field in row["fields"] if field["name"] == name)[attribute] = value
    assert line in differences(row, message_class("FetchRequest").schema)


def test_a_field_that_kafka_does_not_have_is_named() -> None:
    row = copy.deepcopy(next(row for row in ALL_FACTS if row["name"] == "FetchResponse"))
    topic = next(field for field in row["fields"] if field["name"] == "Responses")
    partition = next(field for field in topic["fields"] if field["name"] == "Partitions")
    partition["fields"] = [field for field in partition["fields"] if field["name"] != "HighWatermark"]
    found = differences(row, message_class("FetchResponse").schema)
    assert found == ["FetchResponse.responses.partitions.high_watermark: declared, not in the facts"]

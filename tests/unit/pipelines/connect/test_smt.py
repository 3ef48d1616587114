"""Transforms of Kafka Connect in files: every name and form they have there, and what is refused with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.connect import Pipeline, SpecError, load
from ottla.pipelines.connect.smt_check import header_text, names, steps
from ottla.pipelines.connect.smt_kinds import PREDICATES, SMTS
from ottla.pipelines.connect.spec import Condition

TOPIC = {"type": "topic", "topic": "in", "bootstrap.servers": "none:1", "value": "string"}
FILES = {"type": "json", "path": "out"}
TO_TOPIC = {"type": "topic", "bootstrap.servers": "none:1"}
HEAD = """\
name: p
source: {type: topic, topic: in, bootstrap.servers: "none:1", value: string}
sink: {type: topic, bootstrap.servers: "none:1"}
"""


def pipeline(
    *transforms: dict[str, Any], source: dict[str, Any] = TOPIC, sink: dict[str, Any] = FILES, **more: Any
) -> Pipeline:
    return Pipeline("p", source=source, sink=sink, transforms=transforms, **more)


def wrong(*transforms: dict[str, Any], **more: Any) -> list[str]:
    """What is wrong, without what every line begins with."""
    with pytest.raises(SpecError) as caught:
        pipeline(*transforms, **more)
    return [line.removeprefix("pipeline p: ") for line in str(caught.value).splitlines()]


@pytest.mark.parametrize("name", ["Cast", "Cast$Value", "org.apache.kafka.connect.transforms.Cast$Value"])
@pytest.mark.parametrize("spec", ["a:int8, b:string", ["a:int8", "b:string"], {"a": "int8", "b": "string"}])
def test_a_transform_has_each_of_its_names_and_an_option_each_of_its_forms(name: str, spec: Any) -> None:
    (part,) = pipeline({name: {"spec": spec}}).transforms
    assert (part.kind, part.options["spec"]) == ("Cast$Value", {"a": "int8", "b": "string"})
    assert part.is_connect


def test_a_connectors_flat_properties_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        HEAD
        + """\
transforms: "route, hide"
transforms.route.type: org.apache.kafka.connect.transforms.RegexRouter
transforms.route.regex: (.*)
transforms.route.replacement: new-$1
transforms.hide.type: org.apache.kafka.connect.transforms.MaskField$Value
transforms.hide.fields: a,b
transforms.hide.predicate: gone
transforms.hide.negate: "true"
predicates: gone
predicates.gone.type: org.apache.kafka.connect.transforms.predicates.RecordIsTombstone
"""
    )
    route, hide = load(file).transforms
    assert (route.kind, dict(route.options)) == ("RegexRouter", {"regex": "(.*)", "replacement": "new-$1"})
    assert hide.options["fields"] == ("a", "b")
    assert hide.condition == Condition("RecordIsTombstone", {}, negate=True)
    assert hide.condition.is_for_values_only


def test_what_is_wrong_with_flat_properties_has_the_line_of_the_property(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        HEAD
        + """\
transforms: a,b
transforms.a.type: Cast$Value
transforms.a.spec: x:int9
transforms.c.type: Cast$Value
"""
    )
    with pytest.raises(SpecError) as caught:
        load(file)
    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "p.yaml:4: transforms has b, and there is no transforms.b.type",
        "p.yaml:6: transform Cast$Value: spec: x cannot be int9: there is int8, int16, int32, int64, float32, float64, "
        "boolean and string; the transform `cast` takes Spark's types",
        "p.yaml:7: transforms.c.type belongs to none of `transforms:`, which lists the names of this pipeline's",
    ]


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"SetSchemaMetadata$Value": {"schema.name": "a"}},
        "SetSchemaMetadata has no meaning here, where a record's schema has no name: "
        "`subject` and `schema-file` of a sink topic say which schema its values are written by",
    ),
    ({"Filter": {}}, "Filter without a predicate leaves no record: say which by `predicate`"),
    (
        {"TimestampConverter": {"field": "a", "target.type": "Time"}},
        "target.type: a time of day has no type here: "
        "`target.type: string` with `format: HH:mm:ss.SSS` writes it as text",
    ),
    ({"TimestampConverter": {"field": "a", "target.type": "string"}}, "format: a time as text needs a format"),
    ({"TimestampConverter": {"target.type": "unix", "format": "yyyy-ww"}}, "the letter w is not known here"),
    ({"TimestampConverter": {"target.type": "unix", "format": "yyyy'T"}}, "a quote begins and does not end"),
    ({"ReplaceField": {"blacklist": "a"}}, "blacklist went with Kafka 4.0, and exclude is its name now"),
    ({"RegexRouter": {"regex": "(a)b", "replacement": "$2"}}, "replacement: there is no group 2 in (a)b"),
    ({"RegexRouter": {"regex": "(?<x>a)", "replacement": "${y}"}}, "replacement: there is no group y"),
    ({"RegexRouter": {"regex": "a", "replacement": "$"}}, "a dollar begins a group such as $1"),
    (
        {"HeaderFrom": {"fields": "a,b", "headers": "x", "operation": "copy"}},
        "there have to be as many headers as fields",
    ),
    (
        {"HeaderFrom": {"fields": "a", "headers": "x", "operation": "take"}},
        "operation is one of move and copy, and not take",
    ),
    ({"InsertField": {}}, "InsertField needs one of topic.field"),
    ({"InsertField": {"static.field": "a"}}, "InsertField takes static.field and static.value together"),
    ({"InsertHeader": {"header": "a", "value.literal": "[1]"}}, "Connect would read '[1]' as a value"),
    (
        {"ExtractField": {"field": "`a.b", "field.syntax.version": "V2"}},
        "a backtick of `a.b begins a name that no backtick ends",
    ),
    ({"Cast": {"spec": "int8,a:int8"}}, "a type alone is for all of the key or value"),
    ({"Cast": {"spec": "a:b:c"}}, "spec takes a map, or text such as `a:b,c:d`, and not 'a:b:c'"),
    ({"MaskField": {"fields": "a", "predicate": "p"}}, "there is no predicate p: there is no `predicates:` with it"),
    ({"MaskField": {"fields": "a", "negate": True}}, "negate turns a predicate round, and there is none"),
    ({"DropHeaders$Key": {"headers": "a"}}, "there is no transform DropHeaders$Key: did you mean DropHeaders?"),
    ({"org.apache.kafka.connect.transforms.Casts$Value": {}}, "Kafka has no transform"),
    (
        {"io.confluent.connect.transforms.Drop": {}},
        "is a class of others: a transform `python` or `dataframe` takes its place",
    ),
]


@pytest.mark.parametrize(("transform", "said"), REFUSED, ids=[said[:60] for _, said in REFUSED])
def test_what_is_not_supported_says_what_is_right(transform: dict[str, Any], said: str) -> None:
    (line,) = wrong(transform)
    assert said in line


def test_what_only_records_of_topics_have_is_refused_for_others() -> None:
    files = {"type": "json", "path": "in", "schema": "id BIGINT"}
    insert = {"InsertField": {"offset.field": "o"}}
    assert wrong(insert, source=files) == [
        "InsertField$Value: offset.field is for records of a topic, and the source is json"
    ]
    (line,) = wrong({"TimestampRouter": {}}, source=files, sink=TO_TOPIC)
    assert line.startswith("TimestampRouter goes by the time of a topic's record, and the source is json")
    router = {"RegexRouter": {"regex": "a", "replacement": "b"}}
    assert wrong(router) == ["RegexRouter chooses a topic, and the sink is json"]
    assert wrong(router, sink={**TO_TOPIC, "topic": "t"}) == [
        "a sink with a topic leaves nothing to RegexRouter: leave out the one or the other"
    ]


def test_keys_are_made_once_and_read_as_the_source_says() -> None:
    to_key = {"ValueToKey": {"fields": "a"}}
    assert wrong(to_key, sink={**TO_TOPIC, "key": "a"}) == [
        "a sink with a key leaves nothing to ValueToKey: leave out the one or the other"
    ]
    assert wrong(source={**TOPIC, "key": "json"}) == [
        "source topic: keys of json need a key-schema, and no others take one"
    ]


def test_predicates_are_checked() -> None:
    assert wrong(predicates={"a": {"type": "IsTombstone"}}) == [
        "there is no predicate IsTombstone: did you mean RecordIsTombstone?"
    ]
    assert wrong(predicates={"a": {"type": "HasHeaderKey"}}) == ["predicate HasHeaderKey needs name: Which header."]


def test_what_spark_parses_has_the_expressions_of_java() -> None:
    one = pipeline(
        {"Filter": {"predicate": "p"}}, {"RegexRouter": {"regex": "(a)*+", "replacement": "b"}},
        predicates={"p": {"type": "TopicNameMatches", "pattern": "[a"}}, sink=TO_TOPIC,
    )  # fmt: skip
    assert [(sql.kind, sql.text) for sql in one.sql()] == [("pattern", "[a"), ("pattern", "(a)*+")]


def test_steps_of_a_field_are_those_of_kip_821() -> None:
    assert steps("a.b", "V1") == ("a.b",)
    for text, wanted in {
        "a.b.c": ["a", "b", "c"], "`a.b`.c": ["a.b", "c"], "a.`b.c`": ["a", "b.c"], "a": ["a"], "a.": ["a", ""],
        "`a`b`.c": ["a`b", "c"], "`a\\`.b`": ["a`.b"],
    }.items():  # fmt: skip
        assert list(steps(text, "V2")) == wanted, text


def test_a_literal_of_a_header_is_what_connect_writes_of_it_or_refused() -> None:
    assert [header_text(text) for text in ("007", "-0", "1.50", "2.00", "text", "null", "")] == [
        "7", "0", "1.5", "2", "text", None, "",
    ]  # fmt: skip
    for text in ('"quoted"', "{a", "3.14159", "12:00:00.000Z", "9" * 20, " text"):
        with pytest.raises(ValueError, match="Connect would read"):
            header_text(text)


def test_the_page_has_every_transform_and_option_of_connect() -> None:
    page = (Path(__file__).parents[4] / "docs" / "pipelines" / "connect.md").read_text(encoding="utf-8")
    for name, kind in {**{name: smt.kind for name, smt in SMTS.items()}, **PREDICATES}.items():
        assert f"`{name}`" in page, name
        for option in kind.options:
            assert f"`{option}`" in page, f"{name}: {option}"
    assert len(names()) == 26

"""Transforms of Kafka Connect in pipelines from topic to topic: what is written of keys, headers, topics and values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Producer
from ottla.pipelines.connect import Pipeline, SpecError
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import once, received, sent
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id BIGINT, name STRING, amount STRING, place STRUCT<city: STRING>"
GONE = {"gone": {"type": "RecordIsTombstone"}}


def value(number: int, amount: str = "5") -> dict[str, Any]:
    return {"id": number, "name": "é", "amount": amount, "place": {"city": "Brno"}}


def headers(record: Any) -> list[tuple[str, str | None]]:
    return [(name, None if text is None else text.decode()) for name, text in record.headers]


def test_a_connectors_transforms_make_keys_headers_topics_and_dead_letters(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A tombstone goes on with its own key; a dead letter is the record as it came, with Connect's names of classes."""
    servers, topic = cluster.bootstrap_servers, cluster.create_topic(new_topic("raw"))
    routed, letters = cluster.create_topic(f"clean-{topic}"), cluster.create_topic(new_topic("raw-dead"))
    sent(servers, topic, [json.dumps(value(1)).encode(), None, json.dumps(value(2, "x")).encode()])
    values_only = {"predicate": "gone", "negate": True}
    pipeline = Pipeline(
        "moved",
        source={"type": "topic", "topic": topic, "bootstrap.servers": servers, "schema": SCHEMA},
        transforms=[
            {"ValueToKey": {"fields": "id,name", **values_only}},
            {"InsertHeader": {"header": "by", "value.literal": "ottla"}},
            {"HeaderFrom$Value": {"fields": "name,place", "headers": "n,p", "operation": "move", **values_only}},
            {"RegexRouter": {"regex": "(raw.*)", "replacement": "clean-$1"}},
            {"org.apache.kafka.connect.transforms.Cast$Value": {"spec": "amount:int32"}},
            {"InsertField": {"topic.field": "topic", "offset.field": "offset"}},
        ],
        predicates=GONE,
        sink={"type": "topic", "bootstrap.servers": servers},
        errors="dead-letter",
        dead_letter={"topic": letters},
    )
    state = once(pipeline, spark, tmp_path)
    assert (state.records, state.bad) == (3, 1)
    first, gone = received(servers, routed, 2)
    assert json.loads(first.key or b"") == {"id": 1, "name": "é"}
    assert json.loads(first.value or b"") == {"id": 1, "amount": 5, "topic": routed, "offset": 0}
    assert headers(first) == [("from", "test"), ("by", "ottla"), ("n", "é"), ("p", '{"city":"Brno"}')]
    assert [gone.key, gone.value, headers(gone)] == [b"k1", None, [("from", "test"), ("by", "ottla")]]
    (dead,) = received(servers, letters, 1)
    assert (dead.key, json.loads(dead.value or b"")) == (b"k2", value(2, "x"))
    assert headers(dead)[0] == ("from", "test")
    said = {name.removeprefix("__connect.errors."): text for name, text in headers(dead)}
    assert said["class.name"] == "org.apache.kafka.connect.transforms.Cast$Value"
    assert said["exception.class.name"] == "org.apache.kafka.connect.errors.DataException"
    assert said["exception.message"] == "amount is no int32: x"
    assert "by" not in said


@pytest.mark.parametrize(
    ("transform", "options", "written"),
    [
        ({"ExtractField$Value": {"field": "id"}}, {}, [b"1", None, None]),
        ({"ExtractField$Value": {"field": "name"}}, {}, ["é".encode(), None, b'q"']),
        ({"ExtractField$Value": {"field": "name"}}, {"value": "json"}, ['"é"'.encode(), None, b'"q\\""']),
        ({"ExtractField$Value": {"field": "place"}}, {}, [b'{"city":"Brno"}', None, b'{"city":null}']),
        ({"HoistField$Value": {"field": "value"}}, {}, None),
    ],
)
def test_a_value_that_is_no_record_is_written_as_it_is(
    spark: SparkSession,
    cluster: Cluster,
    tmp_path: Path,
    transform: Any,
    options: Any,
    written: list[bytes | None] | None,
) -> None:
    """A field that is null makes a tombstone of its record, as in Connect."""
    servers, topic, out = (
        cluster.bootstrap_servers,
        cluster.create_topic(new_topic("in")),
        cluster.create_topic(new_topic("o")),
    )
    second = {"id": None, "name": 'q"', "place": {"city": None}}
    sent(servers, topic, [json.dumps(value(1)).encode(), None, json.dumps(second).encode()])
    pipeline = Pipeline(
        out,
        source={"type": "topic", "topic": topic, "bootstrap.servers": servers, "schema": SCHEMA},
        transforms=[transform],
        sink={"type": "topic", "topic": out, "bootstrap.servers": servers, **options},
    )
    once(pipeline, spark, tmp_path)
    found = [record.value for record in sorted(received(servers, out, 3), key=lambda record: record.key or b"")]
    if written is None:
        assert [json.loads(one or b"")["value"] for one in found] == [value(1), None, second | {"amount": None}]
    else:
        assert found == written


def test_keys_are_read_changed_and_written_and_bad_ones_are_bad_records(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    servers, topic, out = (
        cluster.bootstrap_servers,
        cluster.create_topic(new_topic("in")),
        cluster.create_topic(new_topic("o")),
    )
    with Producer(bootstrap_servers=servers) as producer:
        for key in (b'{"id":1,"more":2}', b"not JSON", None, b'{"id":"x"}', b""):
            producer.send(topic, b"v", key=key, partition=0)
    pipeline = Pipeline(
        out,
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": servers, "value": "bytes", "key": "json",
            "key-schema": "id BIGINT",
        },
        transforms=[{"ReplaceField$Key": {"renames": "id:no"}}],
        sink={"type": "topic", "topic": out, "bootstrap.servers": servers},
        errors="skip",
    )  # fmt: skip
    assert once(pipeline, spark, tmp_path).bad == 3
    assert [(record.key, record.value) for record in received(servers, out, 2)] == [(b'{"no":1}', b"v"), (None, b"v")]


def test_what_only_spark_can_see_is_told_before_the_first_record(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("in"))

    def wrong(transform: dict[str, Any]) -> str:
        brokers = {"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers}
        pipeline = Pipeline(
            "wrong", source={**brokers, "schema": SCHEMA}, transforms=[transform],
            predicates={"has": {"type": "HasHeaderKey", "name": "a"}},
            sink={"type": "json", "path": str(tmp_path / "out")},
        )  # fmt: skip
        with pytest.raises(SpecError) as caught:
            once(pipeline, spark, tmp_path)
        return str(caught.value).removeprefix("pipeline wrong: transforms[0].")

    assert wrong({"ValueToKey": {"fields": "amout"}}) == "ValueToKey: there is no field amout: did you mean amount?"
    assert wrong({"InsertField": {"topic.field": "name"}}) == "InsertField$Value: there is a field name already"
    assert wrong({"MaskField$Key": {"fields": "a"}}) == (
        "MaskField$Key: the key is binary, and has no fields: `key: json` and `key-schema` of the source say how a key "
        "is read"
    )
    assert wrong({"Cast": {"spec": "place:int8"}}) == (
        "Cast$Value: place is struct<city:string>, which Connect casts to no int8"
    )
    assert wrong({"Cast": {"spec": "id:string", "predicate": "has"}}) == (
        "Cast$Value: under this predicate id would be bigint in some records and string in others: a column has one "
        "type, so leave the predicate out"
    )

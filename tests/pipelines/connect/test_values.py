"""Values by a schema, through pipelines on a real Spark and a real node, with a registry that answers over HTTP.

What goes in is written, and what comes out read, by the clients' own serializers, which are held against Confluent's.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.serialization import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
)
from ottla.pipelines.connect import Pipeline, SpecError, load, run
from ottla.pipelines.connect.progress import Batch
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.state import Home, State
from ottla.pipelines.schemas.proto_files import message_class, of_text
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import once, received, sent
from tests.support.clients import eventually, new_topic
from tests.support.schema_registry import FakeRegistry, fake_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "connect.md"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "card", "type": ["null", "string"]},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
NARROW = {
    "type": "record",
    "name": "Narrow",
    "fields": [{"name": "id", "type": "long"}, {"name": "card", "type": "string"}, {"name": "twice", "type": "long"}],
}
PROTO = """\
syntax = "proto3";
package shop;
message Other { string nothing = 1; }
message Order { int64 id = 1; string card = 2; optional string note = 3; }
message Narrow { int32 id = 1; string card = 2; int64 twice = 3; }
"""
WIDE = 2**40
"""An order that the sinks' schemas cannot take: its id has no room in Protobuf's, and no card is none in Avro's."""
TRANSFORMS = [
    {"mask": {"fields": "card", "with": "****"}},
    {"insert": {"field": "twice", "sql": "id * 2"}},
    {"drop": {"fields": "note"}},
]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as served:
        yield served


def order(number: int) -> dict[str, Any]:
    card = None if number == WIDE else f"4111 {number}"
    return {"id": number, "card": card, "note": None if number % 2 else "é"}


def clean(number: int) -> dict[str, Any]:
    """What the transforms make of it."""
    return {"id": number, "card": "****", "twice": 2 * number}


Letter = tuple[bytes | None, bytes | None, list[str]]
"""Key, value, and stage, part, class and message of the error."""


def letters_of(servers: str, topic: str, count: int) -> dict[int, Letter]:
    """Dead letters by the offset that they had."""
    found: dict[int, Letter] = {}
    for letter in received(servers, topic, count):
        said = {name.removeprefix("__connect.errors."): (value or b"").decode() for name, value in letter.headers}
        assert said["from"] == "test", "their own headers are with them"
        why = [said[name] for name in ("stage", "class.name", "exception.class.name", "exception.message")]
        found[int(said["offset"])] = (letter.key, letter.value, why)
    return found


def test_avro_of_a_registry_comes_in_and_goes_out(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    """With poison, a number that nobody knows, a tombstone, and a record that the sink's schema cannot take."""
    servers, known = cluster.bootstrap_servers, SchemaRegistry(registry.url)
    topic, out, letters = (cluster.create_topic(new_topic(name)) for name in ("avro", "avro-out", "avro-dead"))
    writer = AvroSerializer(ORDER, known)
    good = [writer.serialize(topic, order(number), []) for number in range(3)]
    wide = writer.serialize(topic, order(WIDE), [])
    values = [good[0], b"poison", None, good[1], b"\0\0\0\x03\xe7\x02", wide, good[2], (good[0] or b"")[:-1]]
    sent(servers, topic, values)
    (tmp_path / "narrow.avsc").write_text(json.dumps(NARROW))
    pipeline = Pipeline(
        "avro",
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": servers, "value": "avro", "registry": registry.url,
            "registry-user": "etl", "registry-password": "secret",
        },
        transforms=TRANSFORMS,
        sink={
            "type": "topic", "topic": out, "bootstrap.servers": servers, "value": "avro", "registry": registry.url,
            "schema-file": str(tmp_path / "narrow.avsc"), "subject": "narrow-orders",
        },
        errors="dead-letter",
        dead_letter={"topic": letters},
    )  # fmt: skip
    registry.headers.clear()
    state = once(pipeline, spark, tmp_path)
    assert (state.records, state.bad) == (8, 4)
    assert "Basic ZXRsOnNlY3JldA==" in [headers.get("Authorization") for headers in registry.headers]
    assert [json.loads(registry.schemas[number]["schema"]) for number in registry.subjects["narrow-orders"]] == [NARROW]

    reader = AvroDeserializer(known)
    found = [(record.key, reader.deserialize(out, record.value, [])) for record in received(servers, out, 4)]
    assert found == [(b"k0", clean(0)), (b"k2", None), (b"k3", clean(1)), (b"k6", clean(2))]

    dead = letters_of(servers, letters, 4)
    assert {offset: (key, value) for offset, (key, value, _) in dead.items()} == {
        offset: (b"k%d" % offset, values[offset]) for offset in (1, 4, 5, 7)
    }
    assert {tuple(why[:3]) for _, _, why in dead.values()} == {("VALUE_CONVERTER", "avro", "DataException")}
    for offset, words in {1: "do not begin with a schema's number", 4: "Schema not found", 5: "is not Narrow"}.items():
        assert words in dead[offset][2][3]


@pytest.mark.parametrize("sink", ["topic", "parquet"])
def test_protobuf_of_a_file_comes_in_and_goes_out(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path, sink: str
) -> None:
    """Bare messages to a topic with a registry, in one transaction with the dead letters; and to files."""
    servers = cluster.bootstrap_servers
    topic, out, letters = (cluster.create_topic(new_topic(name)) for name in ("proto", "proto-out", "proto-dead"))
    files = of_text(PROTO)
    order_type, narrow_type = message_class(files, "Order"), message_class(files, "shop.Narrow")
    values: list[bytes | None] = [order_type(**order(number)).SerializeToString() for number in (0, 1, WIDE)]
    values += [None, b"\xff poison"]
    sent(servers, topic, values)
    (tmp_path / "order.proto").write_text(PROTO)
    (tmp_path / "order.desc").write_bytes(files)
    pipeline = Pipeline(
        f"protobuf-{sink}",
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": servers, "value": "protobuf",
            "schema-file": str(tmp_path / "order.proto"), "message": "Order",
        },
        transforms=TRANSFORMS,
        sink={
            "type": "topic", "topic": out, "bootstrap.servers": servers, "value": "protobuf", "registry": registry.url,
            "schema-file": str(tmp_path / "order.desc"), "message": "shop.Narrow",
        } if sink == "topic" else {"type": "parquet", "path": str(tmp_path / "out")},
        errors="dead-letter",
        dead_letter={"topic": letters},
    )  # fmt: skip
    state = once(pipeline, spark, tmp_path)
    dead_at = (2, 4) if sink == "topic" else (4,)
    assert (state.records, state.bad) == (5, len(dead_at))
    dead = letters_of(servers, letters, len(dead_at))
    assert {offset: value for offset, (_, value, _) in dead.items()} == {offset: values[offset] for offset in dead_at}
    assert {tuple(why[:3]) for _, _, why in dead.values()} == {("VALUE_CONVERTER", "protobuf", "DataException")}
    assert "are no shop.Order" in dead[4][2][3]
    if sink == "parquet":
        rows = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
        assert [row.asDict() for row in rows] == [clean(0), clean(1), clean(WIDE)]
        return
    assert "the value is no shop.Narrow: " in dead[2][2][3]
    read = ProtobufDeserializer(narrow_type).deserialize
    found = [(record.key, read(out, record.value, [])) for record in received(servers, out, 3)]
    assert found == [(b"k0", narrow_type(**clean(0))), (b"k1", narrow_type(**clean(1))), (b"k3", None)]


def test_protobuf_of_a_registry_comes_in_and_goes_out(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    """No file on either side: the message of the subject in, and that of another out."""
    servers, known = cluster.bootstrap_servers, SchemaRegistry(registry.url)
    topic, out = (cluster.create_topic(new_topic(name)) for name in ("known", "known-out"))
    files = of_text(PROTO)
    order_type, narrow_type = message_class(files, "Order"), message_class(files, "Narrow")
    sent(servers, topic, [ProtobufSerializer(order_type, known).serialize(topic, order_type(**order(1)), []), None])
    registry.register(f"{out}-value", {"schema": PROTO, "schemaType": "PROTOBUF"})
    at = {"type": "topic", "bootstrap.servers": servers, "value": "protobuf", "registry": registry.url}
    pipeline = Pipeline(
        "known",
        source={**at, "topic": topic, "message": "Order"},
        transforms=TRANSFORMS,
        sink={**at, "topic": out, "message": "Narrow"},
    )
    assert once(pipeline, spark, tmp_path).records == 2
    read = ProtobufDeserializer(narrow_type).deserialize
    assert [read(out, record.value, []) for record in received(servers, out, 2)] == [narrow_type(**clean(1)), None]


def test_json_of_a_registry_comes_in_and_goes_out(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    servers, known = cluster.bootstrap_servers, SchemaRegistry(registry.url)
    topic, out = (cluster.create_topic(new_topic(name)) for name in ("json", "json-out"))
    schema = {
        "type": "object",
        "title": "Order",
        "properties": {
            "id": {"type": "integer"}, "card": {"type": "string"}, "note": {"type": ["null", "string"]},
        },
    }  # fmt: skip
    writer = JsonSchemaSerializer(json.dumps(schema), known)
    values = [writer.serialize(topic, order(number), []) for number in range(2)]
    frame = (values[0] or b"")[:5]
    sent(servers, topic, [*values, None, b'{"id": 1}', frame + b'{"id": "x"}', frame + b"null", frame])
    at = {"type": "topic", "bootstrap.servers": servers, "value": "json", "registry": registry.url}
    letters = cluster.create_topic(new_topic("json-dead"))
    pipeline = Pipeline(
        "json",
        source={**at, "topic": topic},
        transforms=TRANSFORMS,
        sink={**at, "topic": out},
        errors="dead-letter",
        dead_letter={"topic": letters},
    )
    state = once(pipeline, spark, tmp_path)
    assert (state.records, state.bad) == (7, 4)
    reader = JsonSchemaDeserializer(known)
    found = [reader.deserialize(out, record.value, []) for record in received(servers, out, 3)]
    assert found == [clean(0), clean(1), None]
    dead = letters_of(servers, letters, 4)
    assert {offset: value for offset, (_, value, _) in dead.items()} == {
        3: b'{"id": 1}', 4: frame + b'{"id": "x"}', 5: frame + b"null", 6: frame
    }  # fmt: skip
    assert [dead[offset][2][3].partition(";")[0] for offset in sorted(dead)] == [
        "the value does not begin with a schema's number",
        "the value is JSON, but not struct<id:bigint,card:string,note:string>",
        "the value is null, and no record",
        "the value does not begin with a schema's number",
    ]


def test_a_value_that_cannot_be_read_or_written_stops_with_one_line_or_is_skipped(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    servers, known = cluster.bootstrap_servers, SchemaRegistry(registry.url)
    topic, out = (cluster.create_topic(new_topic(name)) for name in ("stops", "stops-out"))
    writer = AvroSerializer(ORDER, known)
    (tmp_path / "narrow.avsc").write_text(json.dumps(NARROW))
    source = {
        "type": "topic", "topic": topic, "bootstrap.servers": servers, "value": "avro", "registry": registry.url,
    }  # fmt: skip
    sink = {
        "type": "topic", "topic": out, "bootstrap.servers": servers, "value": "avro",
        "schema-file": str(tmp_path / "narrow.avsc"),
    }  # fmt: skip
    sent(servers, topic, [writer.serialize(topic, order(WIDE), [])])
    with pytest.raises(PipelineFailed, match=rf"^{topic}-0@0: avro: the value is not Narrow: .*\(DataException\)\. `"):
        once(Pipeline("stops-writing", source=source, transforms=TRANSFORMS, sink=sink), spark, tmp_path)
    sent(servers, topic, [b"poison"])
    with pytest.raises(PipelineFailed, match=rf"^{topic}-0@1: avro: the bytes do not begin with a schema's number"):
        once(
            Pipeline("stops-reading", source=source, sink={"type": "json", "path": str(tmp_path / "out")}),
            spark,
            tmp_path,
        )
    sent(servers, topic, [writer.serialize(topic, order(7), [])])
    skips = Pipeline("skips", source=source, transforms=TRANSFORMS, sink=sink, errors="skip")
    state = once(skips, spark, tmp_path)
    assert (state.records, state.bad) == (3, 2)
    (record,) = received(servers, out, 1)
    assert AvroDeserializer(schema=NARROW).deserialize(out, record.value, []) == clean(7)


def test_a_schema_that_evolves_while_the_pipeline_runs_and_when_it_starts_again(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    """A run has the fields of the schema that was the latest when it began; the next has the new one's."""
    servers, known = cluster.bootstrap_servers, SchemaRegistry(registry.url)
    topic, out = (cluster.create_topic(new_topic(name)) for name in ("evolves", "evolves-out"))
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "country", "type": "string", "default": "cz"}]}
    old = AvroSerializer(ORDER, known)
    sent(servers, topic, [old.serialize(topic, order(0), [])])
    at = {"type": "topic", "bootstrap.servers": servers, "value": "avro", "registry": registry.url}
    pipeline = Pipeline(
        "evolves", source={**at, "topic": topic}, transforms=[{"drop": {"fields": "note"}}], sink={**at, "topic": out}
    )
    home = Home("evolves", tmp_path)
    batches: list[Batch] = []
    states: list[State] = []
    thread = threading.Thread(
        target=lambda: states.append(run(pipeline, spark, home=home, on_batch=batches.append)), daemon=True
    )
    thread.start()
    try:
        eventually(lambda: len(batches) == 1, "the first version's record", 60)
        new = AvroSerializer(newer, known)
        sent(servers, topic, [new.serialize(topic, {**order(1), "country": "at"}, [])])
        eventually(lambda: len(batches) == 2, "the second version's record", 60)
    finally:
        if home.is_running:
            home.ask_to_stop()
        thread.join(60)
    assert [state.status for state in states] == ["stopped"]
    sent(servers, topic, [old.serialize(topic, order(2), []), new.serialize(topic, {**order(3), "country": "de"}, [])])
    assert once(pipeline, spark, tmp_path).records == 2, "it goes on where it was"

    reader = AvroDeserializer(known)
    found = [reader.deserialize(out, record.value, []) for record in received(servers, out, 4)]
    assert found == [
        {"id": 0, "card": "4111 0"},
        {"id": 1, "card": "4111 1"},
        {"id": 2, "card": "4111 2", "country": "cz"},
        {"id": 3, "card": "4111 3", "country": "de"},
    ]
    assert len(registry.subjects[f"{out}-value"]) == 2, "what was written has two versions too"


def test_what_is_wrong_with_a_schema_is_told_before_the_first_record(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("wrong"))
    text = f"""\
name: wrong
source:
  type: topic
  topic: {topic}
  bootstrap.servers: {cluster.bootstrap_servers}
  value: avro
  registry: {registry.url}
transforms:
  - insert: {{field: extra, value: 1}}
sink:
  type: topic
  topic: {topic}-out
  bootstrap.servers: {cluster.bootstrap_servers}
  value: protobuf
  schema-file: order.proto
"""
    (tmp_path / "wrong.yaml").write_text(text)
    (tmp_path / "order.proto").write_text(PROTO)

    def told() -> str:
        with pytest.raises(SpecError) as caught:
            once(load(tmp_path / "wrong.yaml"), spark, tmp_path / "home")
        (line,) = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
        return line

    assert re.fullmatch(rf"wrong\.yaml:2: source: subject {topic}-value: .* not found\.", told())
    registry.register(f"{topic}-value", {"schema": PROTO, "schemaType": "PROTOBUF"})
    assert told() == f"wrong.yaml:2: source: subject {topic}-value has schemas of kind PROTOBUF, and not AVRO"
    registry.register(f"{topic}-value", {"schema": json.dumps(ORDER)})
    assert told() == "wrong.yaml:10: sink: value.id is not in the Protobuf message shop.Other"
    (tmp_path / "wrong.yaml").write_text(text + "  message: Nobody\n")
    assert told().startswith("wrong.yaml:10: sink: the Protobuf schema has no message Nobody; it has shop.Other, ")
    (tmp_path / "order.proto").write_text("message {")
    assert told().startswith("wrong.yaml:10: sink: the Protobuf schema cannot be read: schema.proto:1:")


def test_a_registry_that_does_not_answer_stops_the_pipeline_and_costs_no_record(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = cluster.bootstrap_servers
    topic, letters = cluster.create_topic(new_topic("silent")), cluster.create_topic(new_topic("silent-dead"))
    sent(servers, topic, [AvroSerializer(ORDER, SchemaRegistry(registry.url)).serialize(topic, order(1), [])])
    pipeline = Pipeline(
        "silent",
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": servers, "value": "avro", "registry": registry.url,
        },
        sink={"type": "json", "path": str(tmp_path / "out")},
        errors="dead-letter",
        dead_letter={"topic": letters},
    )  # fmt: skip
    answer = registry.answer

    def trouble(method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path.startswith("/schemas/ids/"):
            return 503, {"error_code": 50301, "message": "not now"}
        return answer(method, path, body)

    with monkeypatch.context() as patched:
        patched.setattr(registry, "answer", trouble)
        with pytest.raises(PipelineFailed, match=r"the schema registry refused /schemas/ids/1 with 50301: not now$"):
            once(pipeline, spark, tmp_path)
    assert once(pipeline, spark, tmp_path).status == "done"
    assert [row.id for row in spark.read.json(str(tmp_path / "out")).collect()] == [1]
    assert received(servers, letters, 0) == []


def test_values_that_are_no_records_are_the_field_value(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic(new_topic("plain"))
    sent(cluster.bootstrap_servers, topic, [b"\x02a", None, b"\x04\xc3\xa9"])
    (tmp_path / "text.avsc").write_text('"string"')
    pipeline = Pipeline(
        "plain",
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "value": "avro",
            "schema-file": str(tmp_path / "text.avsc"),
        },
        sink={"type": "text", "path": str(tmp_path / "out")},
    )  # fmt: skip
    once(pipeline, spark, tmp_path)
    assert sorted(row.value for row in spark.read.text(str(tmp_path / "out")).collect()) == ["a", "é"]


def test_the_pages_example_runs(
    spark: SparkSession, registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "secret")
    examples = re.findall(r"^```(yaml|proto)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (text,) = [text for kind, text in examples if kind == "yaml" and "registry:" in text]
    (proto,) = [text for kind, text in examples if kind == "proto"]
    schema = {
        "type": "record",
        "name": "Payment",
        "fields": [{"name": "id", "type": "long"}, {"name": "amount", "type": "double"}],
    }
    with Cluster(processes=True) as node:
        for topic in ("payments", "payments-clean", "payments-dead"):
            node.create_topic(topic)
        text = text.replace("localhost:9092", node.bootstrap_servers).replace("http://localhost:8081", registry.url)
        (tmp_path / "payments.yaml").write_text(text)
        (tmp_path / "payment.proto").write_text(proto)
        writer = AvroSerializer(schema, SchemaRegistry(registry.url))
        amounts = (1.5, -1.0, 2.5)
        values = [writer.serialize("payments", {"id": id_, "amount": one}, []) for id_, one in enumerate(amounts)]
        sent(node.bootstrap_servers, "payments", [*values, b"poison"])
        state = once(load(tmp_path / "payments.yaml"), spark, tmp_path / "home")
        assert (state.records, state.bad) == (4, 1)
        kind = message_class(of_text(proto), "Payment")
        read = [kind.FromString(record.value) for record in received(node.bootstrap_servers, "payments-clean", 2)]
        assert [(message.id, message.amount) for message in read] == [(0, 1.5), (2, 2.5)]
        (dead,) = received(node.bootstrap_servers, "payments-dead", 1)
        assert dead.value == b"poison"

"""Pipeline files: what is right is read with defaults filled in, what is wrong is told with its line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.connect import Pipeline, SpecError, load
from ottla.pipelines.connect.capture import slot_of
from ottla.pipelines.connect.kinds import RESTART, SINKS, SOURCES, TRANSFORMS
from ottla.pipelines.connect.spec import DeadLetter, interval_s

RIGHT = """\
name: orders
source:
  type: topic
  topic: orders
  bootstrap.servers: localhost:9092
  schema: id BIGINT, card STRING
  kafka.security.protocol: SSL
transforms:
  - mask: {fields: card}
  - rename:
      fields:
        id: order_id
errors: dead-letter
dead-letter:
  topic: orders-dead
sink:
  type: parquet
  path: /lake/orders
"""


def written(directory: Path, text: str, name: str = "p.yaml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def problems(directory: Path, text: str, name: str = "p.yaml") -> list[str]:
    """What is wrong with a file, as lines without the directory in front."""
    with pytest.raises(SpecError) as caught:
        load(written(directory, text, name))
    return str(caught.value).replace(f"{directory}/", "").splitlines()


def test_a_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path, RIGHT))
    assert pipeline.name == "orders"
    assert pipeline.source.kind == "topic"
    assert pipeline.source.options["topic"] == ("orders",)
    assert pipeline.source.options["starting-offsets"] == "earliest"
    assert pipeline.source.options["max-records-per-batch"] == 2_000_000
    assert pipeline.source.passed("kafka.") == {"kafka.security.protocol": "SSL"}
    assert [(part.kind, dict(part.options)) for part in pipeline.transforms] == [
        ("mask", {"fields": ("card",)}),
        ("rename", {"fields": {"id": "order_id"}}),
    ]
    assert pipeline.dead_letter == DeadLetter("orders-dead", "localhost:9092")
    assert not pipeline.has_shared_outcome
    assert pipeline.directory == str(tmp_path)


def test_a_limit_is_a_number_or_none(tmp_path: Path) -> None:
    def limited(text: str) -> object:
        path = written(
            tmp_path, RIGHT.replace("  topic: orders\n", f"  topic: orders\n  max-records-per-batch: {text}\n")
        )
        return load(path).source.options["max-records-per-batch"]

    assert (limited("none"), limited("5")) == ("none", 5)
    for wrong in ("0", "some", "true"):
        with pytest.raises(SpecError, match="takes a whole number, or none, and not"):
            limited(wrong)


def test_dead_letters_share_the_transaction_of_a_sink_topic_of_the_same_brokers(tmp_path: Path) -> None:
    sink = "  type: topic\n  topic: out\n  bootstrap.servers: {}\n"
    text = RIGHT.partition("sink:\n")[0] + "sink:\n"
    assert load(written(tmp_path, text + sink.format("localhost:9092"))).has_shared_outcome
    elsewhere = load(written(tmp_path, text + sink.format("other:9092")))
    assert elsewhere.dead_letter == DeadLetter("orders-dead", "other:9092")
    away = text.replace("orders-dead", "orders-dead\n  bootstrap.servers: third:9092")
    assert not load(written(tmp_path, away + sink.format("other:9092"))).has_shared_outcome


def test_every_problem_has_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    text = """\
nme: orders
source:
  type: topik
transforms:
  - msk: {fields: a}
  - cast: {field: a}
  - mask:
      fields: [1]
  - filter
sink:
  type: parquet
  path: 7
  partition-by: id
errors: sometimes
trigger: now and then
"""
    assert problems(tmp_path, text) == [
        "p.yaml:1: there is no nme in a pipeline: did you mean name?",
        "p.yaml:1: a pipeline has a name, and this one has none",
        "p.yaml:3: there is no source topik: did you mean topic?",
        "p.yaml:5: there is no transform msk: did you mean mask?",
        "p.yaml:6: transform cast has no option field: did you mean fields?",
        "p.yaml:6: transform cast needs fields: Field and Spark type: `{amount: 'DECIMAL(10,2)'}`.",
        "p.yaml:8: transform mask: fields takes a name or a list of names, and not a list",
        "p.yaml:9: a transform is one name with its options, such as `- mask: {fields: [card]}`",
        "p.yaml:12: sink parquet: path takes text, and not 7",
        "p.yaml:14: errors is one of stop, skip and dead-letter, and not sometimes",
        "p.yaml:15: a trigger is available-now or a time such as 10 seconds, and not now and then",
    ]


WRONG = {
    ("  schema: id BIGINT, card STRING\n", ""): (
        "2: source topic needs a schema for values of json, or a registry that has it"
    ),
    (
        "  topic: orders\n",
        "  topic: orders\n  pattern: o.*\n",
    ): "2: source topic takes one of topic and pattern, and only one",
    (
        "  topic: orders\n",
        "  topic: orders\n  value: xml\n",
    ): "5: source topic: value is one of json, avro, protobuf, string and bytes, and not xml",
    ("  topic: orders\n", "  topic: orders\n  topic: again\n"): "5: topic is here twice; the first is on line 4",
    (
        "errors: dead-letter",
        "errors: skip",
    ): "14: a dead-letter topic is for `errors: dead-letter`, and errors is skip",
    ("dead-letter:\n  topic: orders-dead\n", ""): "13: `errors: dead-letter` needs `dead-letter: {topic: ...}`",
    (
        "  - mask: {fields: card}\n",
        "  - route: {field: card}\n",
    ): "8: route chooses a topic, and the sink is parquet",
    (
        "name: orders",
        "name: ../orders",
    ): "1: a name is up to 100 letters, digits, '.', '_' and '-', and begins with a letter or digit",
    (
        "/lake/orders",
        "${env:OTTLA_NOT_SET}",
    ): "18: the environment has no OTTLA_NOT_SET, and ${env:OTTLA_NOT_SET} asks for it",
    ("sink:\n", "sink: [\n"): "18: not YAML: did not find expected ',' or ']'",
    (
        "  type: parquet",
        "  type: topic\n  bootstrap.servers: localhost:9092",
    ): "19: sink topic has no option path: there is topic, bootstrap.servers, value, registry, registry-user, "
    "registry-password, subject, schema-file, message, key and delivery",
}
"""A change to a file that is right, and the line that it earns."""


@pytest.mark.parametrize("change", WRONG, ids=WRONG.values())
def test_what_does_not_fit_together_is_told(tmp_path: Path, change: tuple[str, str]) -> None:
    assert change[0] in RIGHT
    assert f"p.yaml:{WRONG[change]}" in problems(tmp_path, RIGHT.replace(*change, 1))


BY_SCHEMA = """\
name: orders
source:
  type: topic
  topic: orders
  bootstrap.servers: localhost:9092
  value: avro
  registry: http://localhost:8081
sink:
  type: topic
  topic: out
  bootstrap.servers: localhost:9092
  value: protobuf
  schema-file: order.proto
  message: shop.Order
"""
FROM = "  value: avro\n  registry: http://localhost:8081\n"
TO = "  value: protobuf\n  schema-file: order.proto\n  message: shop.Order\n"
WRONG_SCHEMAS = {
    (FROM, "  value: avro\n"): "6: source topic: values of avro need a `registry` or a `schema-file`",
    (TO, "  value: protobuf\n"): "12: sink topic: values of protobuf need a `registry` or a `schema-file`",
    (
        FROM,
        FROM + "  schema: id BIGINT\n",
    ): "8: source topic: schema is for values of json, and value is avro, which takes `schema-file` or `registry`",
    (FROM, FROM + "  message: Order\n"): "8: source topic: message is for values of protobuf, and value is avro",
    (
        FROM,
        "  registry: http://localhost:8081\n  schema-file: order.json\n",
    ): "7: source topic: schema-file is for values of avro or protobuf, and value is json, which takes `schema` or "
    "`registry`",
    (
        TO,
        "  value: json\n  registry: http://localhost:8081\n  schema-file: order.json\n",
    ): "14: sink topic: schema-file is for values of avro or protobuf, and value is json, which takes `registry`",
    (
        FROM,
        "  value: bytes\n  registry: http://localhost:8081\n",
    ): "7: source topic: registry is for values of json, avro or protobuf, and value is bytes",
    (
        TO,
        "  registry: http://localhost:8081\n",
    ): "12: sink topic: registry is for values of json, avro or protobuf, and value is not said",
    (TO, TO + "  subject: o\n"): "15: sink topic: subject is for a `registry`, and there is none",
    (TO, TO + "  registry-user: o\n"): "15: sink topic: registry-user is for a `registry`, and there is none",
    (FROM, FROM + "  registry-password: o\n"): "8: source topic: registry-password needs `registry-user`",
    (
        "http://localhost:8081",
        "localhost:8081",
    ): "7: source topic: a registry's address begins with http:// or https://, and not as 'localhost:8081'",
    (
        "  topic: orders\n",
        "  topic: [orders, more]\n",
    ): "7: source topic: several topics have no one subject in the registry: say it by `subject`, or give "
    "`schema-file`",
    (
        "  topic: orders\n",
        "  pattern: o.*\n",
    ): "7: source topic: several topics have no one subject in the registry: say it by `subject`, or give "
    "`schema-file`",
    (
        FROM,
        FROM + "  subject: o\n  schema-file: order.avsc\n",
    ): "8: source topic: its schema-file is the schema, and leaves nothing to subject: leave out one of them",
    (
        "  topic: out\n  bootstrap.servers: localhost:9092\n  value: protobuf\n",
        "  bootstrap.servers: localhost:9092\n  value: protobuf\n  registry: http://localhost:8081\n",
    ): "12: sink topic without a topic has no one subject in the registry: say it by `subject`",
}


@pytest.mark.parametrize("change", WRONG_SCHEMAS, ids=WRONG_SCHEMAS.values())
def test_what_does_not_fit_together_in_values_by_a_schema_is_told(tmp_path: Path, change: tuple[str, str]) -> None:
    assert change[0] in BY_SCHEMA
    for name in ("order.proto", "order.avsc"):
        written(tmp_path, "{}", name)
    assert problems(tmp_path, BY_SCHEMA.replace(*change, 1)) == [f"p.yaml:{WRONG_SCHEMAS[change]}"]


def test_a_schema_file_stands_beside_the_pipelines_file(tmp_path: Path) -> None:
    path = written(tmp_path, BY_SCHEMA)
    missing = f"p.yaml:13: sink.schema-file: {tmp_path}/order.proto cannot be read: No such file or directory"
    with pytest.raises(SpecError) as caught:
        load(path)
    assert str(caught.value) == f"{tmp_path}/{missing}"
    written(tmp_path, "message Order {}", "order.proto")
    pipeline = load(path)
    assert (pipeline.schema_file("source"), pipeline.schema_file("sink")) == (None, "message Order {}")
    (tmp_path / "order.desc").write_bytes(b"\xff")
    assert load(written(tmp_path, BY_SCHEMA.replace("order.proto", "order.desc"))).schema_file("sink") == b"\xff"

    text = BY_SCHEMA.replace(FROM, f"  value: avro\n  schema-file: {tmp_path}/order.avsc\n")
    written(tmp_path, "record Order", "order.avsc")
    assert problems(tmp_path, text) == [
        "p.yaml:7: source.schema-file: order.avsc is no Avro schema, which is JSON: "
        "Expecting value: line 1 column 1 (char 0)"
    ]
    written(tmp_path, '"string"', "order.avsc")
    assert load(written(tmp_path, text)).schema_file("source") == '"string"'


def test_several_topics_have_one_subject_or_one_schema_file(tmp_path: Path) -> None:
    for name, content in (("order.avsc", "{}"), ("order.proto", "")):
        written(tmp_path, content, name)
    several = BY_SCHEMA.replace("  topic: orders\n", "  topic: [orders, more]\n")
    for more in ("subject: orders", "schema-file: order.avsc"):
        pipeline = load(written(tmp_path, several.replace(FROM, f"{FROM}  {more}\n")))
        assert pipeline.source.options["registry"] == ("http://localhost:8081",)


GROWING = """\
name: rows
source:
  type: jdbc
  url: jdbc:h2:mem:shop
  driver: org.h2.Driver
  table: orders
sink:
  type: json
  path: out
"""


def test_a_table_ends_unless_it_is_read_as_it_grows(tmp_path: Path) -> None:
    assert load(written(tmp_path, GROWING)).is_bounded
    for option in ("incrementing: id", "timestamp: at", "timestamp: at\n  incrementing: id"):
        grows = GROWING.replace("  table: orders\n", f"  table: orders\n  {option}\n")
        assert not load(written(tmp_path, grows)).is_bounded
    assert problems(tmp_path, GROWING.replace("  table: orders\n", "  table: orders\n  spool: rows\n")) == [
        "p.yaml:7: source jdbc: spool is for a table that grows, by incrementing or timestamp"
    ]
    grows = GROWING.replace("  table: orders\n", "  table: orders\n  incrementing: id\n")
    dead = "errors: dead-letter\ndead-letter: {topic: dead, bootstrap.servers: 'localhost:9092'}\n"
    assert problems(tmp_path, grows + dead) == [
        "p.yaml:12: a growing source jdbc can have a dead-letter topic only beside a sink topic of the same brokers"
    ]


@pytest.mark.parametrize(
    ("trigger", "seconds"), [("250 milliseconds", 0.25), ("1 second", 1), ("2 minutes", 120), ("1 hours", 3600)]
)
def test_a_trigger_is_a_time(trigger: str, seconds: float) -> None:
    assert interval_s(trigger) == seconds


def test_a_variable_of_the_environment_stands_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "/mnt/lake")
    pipeline = load(written(tmp_path, RIGHT.replace("/lake/orders", "${env:LAKE}/orders")))
    assert pipeline.sink.options["path"] == "/mnt/lake/orders"


def test_a_function_has_to_be_there(tmp_path: Path) -> None:
    written(tmp_path, "from os.path import join\n\ndef clean(record):\n    return record\n", "clean.py")
    written(tmp_path, "def clean(record)\n    return record\n", "broken.py")
    written(tmp_path, "from os.path import *\n", "starred.py")
    wrong = {
        "clean.py:clean": None,
        "clean:clean": None,
        "clean:join": None,
        "starred:join": None,
        "os.path:join": None,
        "xml.dom.minidom:parse": None,
        "clean.py:claen": f"{tmp_path}/clean.py has no function claen: did you mean clean?",
        "none.py:clean": f"there is no file {tmp_path}/none.py",
        "broken.py:clean": f"{tmp_path}/broken.py:1: not Python: expected ':'",
        "no_such.module:f": "there is no module no_such.module, neither beside the pipeline's file nor installed",
        "clean": "a function is module:function or file.py:function, and not clean",
    }
    lines = [f'  - python: {{function: "{function}"}}\n' for function in wrong]
    with pytest.raises(SpecError) as caught:
        load(written(tmp_path, RIGHT.replace("  - mask: {fields: card}\n", "".join(lines))))
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (9 + index, f"transforms[{index}].python.function: {message}")
        for index, message in enumerate(wrong.values())
        if message is not None
    ]


def test_a_file_that_is_not_there_or_not_a_map_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "none.yaml")
    assert problems(tmp_path, "- a\n") == [
        "p.yaml:1: a pipeline file is a map that begins with `name:`, `source:` and `sink:`"
    ]
    assert problems(tmp_path, "") == [
        "p.yaml: a pipeline file is a map that begins with `name:`, `source:` and `sink:`"
    ]


PYTHON = """\
from ottla.pipelines.connect import Pipeline

def clean(record):
    return record

def wide(df: "DataFrame"):
    return df

pipeline = Pipeline(
    "orders",
    source={"type": "json", "path": "in", "schema": "id BIGINT"},
    transforms=[{"drop": {"fields": "id"}}, clean, wide],
    sink={"type": "%s", "path": "out"},
)
"""


def test_a_python_file_describes_a_pipeline_with_the_same_words(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path, PYTHON % "csv", "p.py"))
    assert [part.kind for part in pipeline.transforms] == ["drop", "python", "dataframe"]
    assert pipeline.transforms[1].function is not None
    assert pipeline.transforms[1].function({"id": 1}) == {"id": 1}
    assert pipeline.sink.options == {"path": "out", "header": True, "delimiter": ","}


def test_what_is_wrong_in_a_python_file_has_the_line_that_said_it(tmp_path: Path) -> None:
    assert problems(tmp_path, PYTHON % "cvs", "p.py") == ["p.py:9: there is no sink cvs: did you mean csv?"]
    assert problems(tmp_path, "a = 1\nb = a / 0\n", "p.py") == ["p.py:2: ZeroDivisionError: division by zero"]
    assert problems(tmp_path, "a = = 1\n", "p.py") == ["p.py:1: not Python: invalid syntax"]
    assert problems(tmp_path, "a = 1\n", "p.py") == ["p.py: has no `pipeline = Pipeline(...)`"]


def test_a_pipeline_in_python_is_checked_when_it_is_made() -> None:
    with pytest.raises(SpecError, match="pipeline orders: source json needs path: A directory"):
        Pipeline("orders", source={"type": "json", "schema": "id BIGINT"}, sink={"type": "json", "path": "out"})


def test_the_page_has_every_source_sink_transform_and_option() -> None:
    page = (Path(__file__).parents[4] / "docs" / "pipelines" / "connect.md").read_text(encoding="utf-8")
    for kinds in (SOURCES, SINKS, TRANSFORMS):
        for name, kind in kinds.items():
            assert f"`{name}`" in page, name
            for option, told in kind.options.items():
                assert f"`{option}`" in page, f"{name}: {option}"
                for inner in told.of or ():
                    assert f"`{inner}`" in page, f"{name}: {option}.{inner}"
    for option in RESTART:
        assert f"`{option}`" in page, f"restart: {option}"


def test_reading_a_file_loads_no_spark(tmp_path: Path) -> None:
    path = written(tmp_path, RIGHT)
    script = (
        "import sys; from ottla.pipelines.connect import load; load(sys.argv[1]);"
        "assert not {'pyspark', 'pyarrow', 'pandas', 'numpy', 'ottla.client'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


JDBC: dict[str, object] = {
    "type": "jdbc",
    "url": "jdbc:postgresql://here/shop",
    "driver": "org.postgresql.Driver",
    "table": "t",
}
KEYLESS: dict[str, object] = {"type": "json", "path": "in", "schema": "id BIGINT"}
KEYED: dict[str, object] = {"type": "topic", "topic": "t", "bootstrap.servers": "here:1", "schema": "id BIGINT"}
WRONG_KEYS: list[tuple[dict[str, object], dict[str, object], str]] = [
    (KEYED, {"insert-mode": "upsert"}, "upsert goes by a key: `pk-mode: record_key` or `record_value` says where"),
    (KEYED, {"pk-fields": "id"}, "pk-fields needs a `pk-mode`, which says where the fields are"),
    (KEYED, {"pk-mode": "record_value"}, "record_value needs pk-fields, which of the fields are the key"),
    (KEYLESS, {"pk-mode": "kafka"}, "kafka is for records of a topic, and the source is json"),
    (KEYED, {"pk-mode": "kafka", "pk-fields": ["a", "b"]}, "kafka has three columns of the key"),
    (KEYLESS, {"pk-mode": "record_key"}, "records of a source json have no key: `record_value` goes by a field"),
    (KEYED, {"pk-mode": "record_value", "pk-fields": "id", "insert-mode": "upsert", "delete-enabled": True},
     "rows are deleted by `pk-mode: record_key`, in `insert-mode` upsert or update"),
    (KEYED, {"pk-mode": "record_key", "delete-enabled": True}, "rows are deleted by `pk-mode: record_key`"),
    (KEYED, {"url": "jdbc:h2:mem:a", "auto-create": True},
     "tables are made in jdbc:postgresql: and jdbc:sqlite:, and elsewhere by yourself"),
    (KEYED, {"pk-mode": "record_header"}, "pk-mode is one of none, record_key, record_value and kafka"),
    (KEYED, {"insert.mode": "upsert"}, "has no option insert.mode: did you mean insert-mode?"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "options", "said"), WRONG_KEYS, ids=[said for *_, said in WRONG_KEYS])
def test_a_sink_jdbc_by_key_is_checked(source: dict[str, object], options: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        Pipeline("p", source=source, sink={**JDBC, **options})
    (line,) = str(caught.value).splitlines()
    assert said in line


def test_a_key_may_be_made_on_the_way_to_a_sink_jdbc() -> None:
    made = Pipeline(
        "p", source=KEYLESS, transforms=[{"ValueToKey": {"fields": "id"}}],
        sink={**JDBC, "insert-mode": "upsert", "pk-mode": "record_key"},
    )  # fmt: skip
    assert (made.sink.options["pk-mode"], made.sink.options["delete-enabled"]) == ("record_key", False)


CAPTURED: dict[str, object] = {
    "type": "postgresql-cdc",
    "database-hostname": "localhost",
    "database-dbname": "shop",
    "database-user": "etl",
    "table-include-list": "public.orders, public.lines",
}


def test_a_captured_database_is_read_with_its_defaults() -> None:
    """And its records have topics and keys of their own, which a sink may go by."""
    to_topics = Pipeline("Shop.2", source=CAPTURED, sink={"type": "topic", "bootstrap.servers": "localhost:9092"})
    options = to_topics.source.options
    assert options["table-include-list"] == ("public.orders", "public.lines")
    assert (options["database-port"], options["snapshot-mode"], options["skipped-operations"]) == (
        5432, "initial", ("t",),
    )  # fmt: skip
    assert slot_of(to_topics) == "ottla_shop_2"
    by_key = Pipeline(
        "rows",
        source=CAPTURED,
        transforms=[{"io.debezium.transforms.ExtractNewRecordState": {"add.fields": "op, source.lsn"}}],
        sink={**JDBC, "insert-mode": "upsert", "pk-mode": "record_key", "delete-enabled": True},
    )
    assert by_key.transforms[0].kind == "ExtractNewRecordState"
    assert by_key.transforms[0].options["add.fields"] == ("op", "source.lsn")


def test_what_is_wrong_with_a_captured_database_is_told() -> None:
    wrong = {
        "slot-name": "My-Slot", "skipped-operations": "c, x", "table-include-list": "public.(", "topic-prefix": "a b",
        "database-sslkey": "k.pem", "snapshot-mode": "always", "database-portt": 1,
    }  # fmt: skip
    told = []
    for name, value in wrong.items():
        with pytest.raises(SpecError) as caught:
            Pipeline("p", source={**CAPTURED, name: value}, sink={"type": "json", "path": "out"})
        told.append(str(caught.value).removeprefix("pipeline p: ").removeprefix("source postgresql-cdc"))
    assert told == [
        ": a slot's name is up to 63 small letters, digits and '_', and not My-Slot",
        ": an operation is one of c, u, d and t, or there are none, and not x",
        ": table-include-list: public.( is no regular expression: missing ), unterminated subpattern at position 7",
        ": 'a b' cannot begin a topic's name",
        ": database-sslkey needs `database-sslcert`",
        ": snapshot-mode is one of initial, no_data and never, and not always",
        " has no option database-portt: did you mean database-port?",
    ]

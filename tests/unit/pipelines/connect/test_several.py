"""Several sources and sinks in one file: which sink reads what, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.pipeline import command
from ottla.pipelines.connect import Pipeline, load
from ottla.pipelines.connect.progress import Batch
from ottla.pipelines.connect.state import Home, State
from ottla.pipelines.errors import PipelineError
from tests.unit.pipelines.connect.test_spec import problems, written

SEVERAL = """\
name: shop
sources:
  orders: {type: topic, topic: orders, bootstrap.servers: "localhost:9092", schema: "id BIGINT, customer BIGINT"}
  refunds: {type: topic, topic: refunds, bootstrap.servers: "localhost:9092", schema: "id BIGINT, customer BIGINT"}
  customers: {type: csv, path: customers, schema: "id BIGINT, name STRING", static: true}
transforms:
  - filter: {where: id > 0}
  - sql: {as: named, query: "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id"}
sinks:
  lake: {type: parquet, path: lake, from: named}
  all: {type: topic, topic: all, bootstrap.servers: "localhost:9092"}
errors: dead-letter
dead-letter: {topic: dead}
"""


def test_each_sink_reads_what_it_names_or_every_source(tmp_path: Path) -> None:
    pipeline = load(written(tmp_path, SEVERAL))
    assert dict(pipeline.graph.reads) == {"lake": ("named",), "all": ("orders", "refunds")}
    assert dict(pipeline.graph.sources) == {"lake": ("orders",), "all": ("orders", "refunds")}
    assert pipeline.streams == ["orders", "refunds"]
    assert (pipeline.has_names, pipeline.is_straight, pipeline.has_shared_outcome) == (True, False, False)
    assert pipeline.of_sink("lake").sink.options["path"] == "lake"
    assert pipeline.of_source("refunds").source.options["topic"] == ("refunds",)
    assert str(pipeline.of_sink("lake").wrong(("sink", "path"), "is full")).endswith(":10: sinks.lake.path: is full")


def test_a_query_without_a_name_takes_the_place_of_all_records(tmp_path: Path) -> None:
    text = SEVERAL.replace("as: named, ", "").replace(", from: named", "")
    text = text.replace("customers c ON o.customer = c.id", "customers c ON o.customer = c.id JOIN refunds USING (id)")
    pipeline = load(written(tmp_path, text))
    assert dict(pipeline.graph.reads) == {"lake": ("records",), "all": ("records",)}
    assert pipeline.graph.sources["all"] == ("orders", "refunds")


def test_a_lone_source_and_sink_are_as_they_were(tmp_path: Path) -> None:
    text = """\
name: one
source: {type: topic, topic: orders, bootstrap.servers: "localhost:9092", schema: "id BIGINT"}
transforms: [{TRANSFORM}]
sink: {type: topic, topic: all, bootstrap.servers: "localhost:9092"}
errors: dead-letter
dead-letter: {topic: dead}
"""
    straight = load(written(tmp_path, text.replace("TRANSFORM", "filter: {where: id > 0}")))
    assert (straight.is_straight, straight.has_shared_outcome, straight.has_names) == (True, True, False)
    queried = load(written(tmp_path, text.replace("TRANSFORM", "sql: SELECT id FROM records")))
    assert (queried.is_straight, queried.has_shared_outcome, queried.has_names) == (False, False, False)
    assert queried.transforms[0].options == {"query": "SELECT id FROM records"}
    assert [(sql.kind, sql.text) for sql in queried.sql()] == [
        ("schema", "id BIGINT"), ("query", "SELECT id FROM records"),
    ]  # fmt: skip


CHANGES = {
    (", from: named", ", from: nmed"): "p.yaml:10: from: nmed is not there: did you mean named?",
    (", from: named", ", from: customers"):
        "p.yaml:10: from: customers is static, for queries to read: there is orders, refunds and named",
    (", from: named", ""): "p.yaml:8: nothing reads named",
    ("JOIN customers c", "JOIN custmers c"): "p.yaml:8: sql: there is no table custmers: did you mean customers?",
    ("FROM orders o JOIN", "FROM"): "p.yaml:8: sql: the query reads no stream: there is orders and refunds",
    ("as: named", "as: refunds"): "p.yaml:8: sql: there are records refunds already",
    ("  all: {type: topic, topic: all, bootstrap.servers: \"localhost:9092\"}", "  more: {type: json, path: lake}"):
        "p.yaml:11: lake writes there too: two sinks would take each other's place",
    ("  orders: {type", "  records: {type"): "p.yaml:3: records is the name of all records: call the source by another",
    ("  refunds: {type", "  re-funds: {type"):
        "p.yaml:4: the name of a source is letters, digits and '_', and not 're-funds'",
    ("sinks:\n", "sink: {type: json, path: a}\nsinks:\n"): "a pipeline has a sink or sinks, and this one has both",
    ("schema: \"id BIGINT, customer BIGINT\"}\n  customers", "value: avro}\n  customers"):
        "p.yaml:4: source topic: values of avro need a `registry` or a `schema-file`",
    ("{topic: dead}", "{topic: all}"): "p.yaml:13: dead letters cannot go to all, which is the sink's topic",
    ("  refunds: {type: topic, topic: refunds, bootstrap.servers: \"localhost:9092\"",
     "  refunds: {type: http, listen: \"127.0.0.1:0\""):
        "p.yaml:13: a source http can have a dead-letter topic only beside a sink topic of the same brokers, "
        "without `sql` and names of sources and sinks",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_wrong_with_several_is_told_with_its_line(tmp_path: Path, change: tuple[str, str]) -> None:
    text = SEVERAL.replace(*change, 1)
    assert text != SEVERAL
    found = problems(tmp_path, text)
    assert any(CHANGES[change] in line for line in found), found


def test_what_a_spool_keeps_is_for_one_sink() -> None:
    posted = {"type": "http", "listen": "127.0.0.1:0", "schema": "id BIGINT"}
    sinks = {name: {"type": "json", "path": name} for name in ("a", "b")}
    with pytest.raises(PipelineError, match="a source http can have one sink, and 2 read it: a topic between them"):
        Pipeline("posted", source=posted, sinks=sinks)
    with pytest.raises(PipelineError, match="static is for one of several sources"):
        Pipeline("static", source={"type": "text", "path": "x", "static": True}, sink={"type": "json", "path": "y"})
    with pytest.raises(PipelineError, match="all sources are static: one at least is a stream"):
        Pipeline("static", sources={"a": {"type": "text", "path": "x", "static": True}}, sinks=sinks)


def test_a_captured_database_is_no_part_of_several(tmp_path: Path) -> None:
    """Told in one line, by `validate` and by `run`; a query over it alone is not several."""
    text = """\
name: shop
sources:
  changes:
    type: postgresql-cdc
    database-hostname: localhost
    database-dbname: shop
    database-user: etl
    table-include-list: public.people
  lines: {type: text, path: lines}
sinks:
  all: {type: parquet, path: all}
"""
    line = (
        "a source postgresql-cdc is the only one, as `source` with one `sink`: write its changes to a topic, which "
        "pipelines with several sources or sinks can read"
    )
    file = written(tmp_path, text)
    for words in (["validate", str(file)], ["run", str(file)]):
        told = CliRunner().invoke(command, words)
        assert told.exit_code != 0
        assert told.stderr.splitlines()[-1].endswith(f"p.yaml:3: {line}"), told.output
    lone = """\
name: shop
source: {type: postgresql-cdc, database-hostname: a, database-dbname: b, database-user: c, table-include-list: d.e}
SINK
"""
    sink = "{type: parquet, path: all, partition-by-time: {pattern: \"'y='yyyy\"}}"
    assert problems(tmp_path, lone.replace("SINK", f"sinks: {{all: {sink}, more: {{type: json, path: more}}}}")) == [
        f"p.yaml:2: {line}"
    ]
    query = 'transforms: [{sql: "SELECT after.id FROM records"}]'
    assert not load(written(tmp_path, lone.replace("SINK", f"{query}\nsink: {sink}"))).has_names


def test_a_table_that_is_read_to_its_end_may_have_several_sinks() -> None:
    table = {"type": "jdbc", "url": "jdbc:sqlite:x", "driver": "org.sqlite.JDBC", "table": "t"}
    sinks = {name: {"type": "json", "path": name} for name in ("a", "b")}
    assert Pipeline("once", source=table, sinks=sinks).is_bounded
    text = {"type": "text", "path": "x"}
    joined = Pipeline(
        "joined", sources={"lines": text, "t": table}, sinks=sinks,
        transforms=[{"sql": "SELECT * FROM lines JOIN t ON lines.value = t.id"}],
    )  # fmt: skip
    assert (joined.is_bounded, joined.is_table("t"), joined.streams) == (False, True, ["lines"])


def test_the_pages_example_of_several_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "pipelines" / "connect.md").read_text(encoding="utf-8")
    (text,) = (block for block in page.split("```") if block.startswith("yaml\n# shop.yaml"))
    pipeline = load(written(tmp_path, text.removeprefix("yaml\n")))
    assert dict(pipeline.graph.reads) == {"lake": ("named",), "everything": ("orders", "refunds")}


def test_the_state_of_several_is_their_sum_and_survives_the_file(tmp_path: Path) -> None:
    state = State("shop", "f", 1, 0.0)
    state.add(Batch(0, 10, 1.0, 2.0, 5, 100, bad=1), "lake")
    state.add(Batch(3, 20, 1.0, 2.0, 7, 50), "all")
    state.add(Batch(1, 0, 0.0, 0.0, 0, 1), "lake")
    assert (state.records, state.bad, state.lag, state.in_per_s, state.batch) == (30, 1, 7, 2.0, 3)
    home = Home("shop", tmp_path)
    home.path.mkdir()
    home.write(state)
    read = home.read()
    assert read is not None
    assert read.sinks == state.sinks
    assert json.loads((home.path / "state.json").read_text())["sinks"]["lake"]["records"] == 10


def test_a_checkpoint_with_other_sources_is_refused(tmp_path: Path) -> None:
    home = Home("shop", tmp_path)
    home.path.mkdir()
    home.require_sources({"sinks/all": ("orders", "refunds")})
    home.require_sources({"sinks/all": ("orders", "refunds"), "sinks/new": ("refunds",)})
    with pytest.raises(PipelineError, match="sinks/all was made of orders, refunds so far, and is of refunds now"):
        home.require_sources({"sinks/all": ("refunds",)})
    home.sources.unlink()
    home.require_sources({"sinks/all": ("refunds",)})

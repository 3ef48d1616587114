"""Several sources and sinks in one file, and queries over them, on a real Spark and a real node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipelines.connect import Pipeline, SpecError, load, run
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.state import Home
from ottla.pipelines.errors import PipelineError
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import once, received, sent
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON = os.environ.get("OTTLA_SOAK") == "1"
FILE = """\
name: shop
sources:
  orders: {{type: topic, topic: {orders}, bootstrap.servers: "{servers}", schema: "id BIGINT, customer BIGINT"}}
  refunds: {{type: json, path: "{base}/refunds", schema: "customer BIGINT, id BIGINT"}}
  customers: {{type: csv, path: "{base}/customers", schema: "id BIGINT, name STRING", static: true}}
transforms:
  - dead-letter: {{where: id = 66}}
  - sql: {{as: named, query: "SELECT o.id, upper(c.name) AS name FROM orders o JOIN customers c ON o.customer = c.id"}}
  - filter: {{where: id < 90}}
sinks:
  lake: {{type: parquet, path: "{base}/lake"}}
  names: {{type: topic, topic: {names}, bootstrap.servers: "{servers}", from: named}}
errors: dead-letter
dead-letter: {{topic: {dead}}}
"""


def ottla(tmp_path: Path, *words: str) -> str:
    """What `ottla pipeline` answers."""
    told = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", "pipeline", *words], capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
    )  # fmt: skip
    return told.stdout + told.stderr


def shop(cluster: Cluster, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The pipeline's file and its topics, with what the sources have in the beginning."""
    servers = cluster.bootstrap_servers
    topics = {name: cluster.create_topic(new_topic(name)) for name in ("orders", "names", "dead")}
    for name in ("refunds", "customers"):
        (tmp_path / name).mkdir()
    (tmp_path / "customers" / "a.csv").write_text("id,name\n1,ann\n2,bob\n")
    (tmp_path / "refunds" / "a.json").write_text('{"id": 50, "customer": 1}\nrotten\n{"id": 66, "customer": 1}\n')
    values = [{"id": 10, "customer": 1}, {"id": 11, "customer": 2}, {"id": 12, "customer": 7}, {"id": 66}, {"id": 95}]
    sent(servers, topics["orders"], [*(json.dumps(value).encode() for value in values), b"poison", None])
    file = tmp_path / "shop.yaml"
    file.write_text(FILE.format(servers=servers, base=tmp_path, **topics))
    return file, topics


def test_two_streams_and_a_table_go_to_two_sinks(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    file, topics = shop(cluster, tmp_path)
    file.write_text(file.read_text().partition("errors:")[0] + "errors: skip\n")
    state = once(load(file), spark, tmp_path)
    told = {name: (one.records, one.bad) for name, one in state.sinks.items()}
    assert told == {"lake": (10, 4), "names": (7, 2)}, "orders and refunds have two bad records each"
    assert (state.status, state.records, state.bad) == ("done", 17, 6)
    lake = spark.read.parquet(str(tmp_path / "lake")).collect()
    assert sorted((row.id, row.customer) for row in lake) == [(10, 1), (11, 2), (12, 7), (50, 1)]
    names = received(cluster.bootstrap_servers, topics["names"], 2)
    assert [(record.key, json.loads(record.value or b"")) for record in names] == [
        (b"k0", {"id": 10, "name": "ANN"}), (b"k1", {"id": 11, "name": "BOB"}),
    ]  # fmt: skip
    checkpoints = {str(path.parent.relative_to(tmp_path)) for path in tmp_path.glob("**/metadata")}
    assert checkpoints == {"shop/checkpoint/sinks/lake", "shop/checkpoint/sinks/names"}


@pytest.mark.skipif(not ON, reason="OTTLA_SOAK=1 runs four queries twice, and the commands beside them")
@pytest.mark.timeout(600)
def test_several_sources_go_to_several_sinks_and_each_bad_record_is_one_dead_letter(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Two streams, a table beside them, a query, two sinks, and what the commands tell of them."""
    servers = cluster.bootstrap_servers
    file, topics = shop(cluster, tmp_path)
    assert ottla(tmp_path, "validate", str(file)).splitlines()[0] == (
        f"{file}: shop is right: orders (topic) + refunds (json) + customers (csv) -> dead-letter -> sql -> filter -> "
        "lake (parquet) + names (topic)"
    )

    home = Home("shop", tmp_path / "ottla" / "pipelines")
    state = run(load(file), spark, once=True, home=home, file=str(file))
    assert state.status == "done"
    assert {name: one.records for name, one in state.sinks.items()} == {"lake": 10, "names": 7}
    assert (state.records, state.source, state.sink) == (17, "topic + json + csv", "parquet + topic")

    def lake() -> list[tuple[int, int]]:
        return sorted((row.id, row.customer) for row in spark.read.parquet(str(tmp_path / "lake")).collect())

    assert lake() == [(10, 1), (11, 2), (12, 7), (50, 1)]
    names = received(servers, topics["names"], 2)
    assert [(record.key, json.loads(record.value or b"")) for record in names] == [
        (b"k0", {"id": 10, "name": "ANN"}), (b"k1", {"id": 11, "name": "BOB"}),
    ]  # fmt: skip
    assert [list(record.headers) for record in names] == [[("from", b"test")]] * 2, "a row goes on as its record"
    dead = received(servers, topics["dead"], 4)
    assert sorted((record.key, record.value) for record in dead if record.key) == [
        (b"k3", b'{"id": 66}'), (b"k5", b"poison"),
    ]  # fmt: skip
    assert sorted(record.value or b"" for record in dead if not record.key) == [
        b"rotten", b'{"id": 66, "customer": 1}',
    ]  # fmt: skip

    # Another run has only what is new, in each sink.
    sent(servers, topics["orders"], [b'{"id": 13, "customer": 2}', b"rotten"])
    state = run(load(file), spark, once=True, home=home, file=str(file))
    assert {name: one.records for name, one in state.sinks.items()} == {"lake": 2, "names": 2}
    assert lake() == [(10, 1), (11, 2), (12, 7), (13, 2), (50, 1)]
    assert len(received(servers, topics["names"], 3)) == 3
    assert len(received(servers, topics["dead"], 5)) == 5

    rows = ottla(tmp_path, "status", "shop").splitlines()
    assert [row.split()[0] for row in rows] == ["NAME", "shop", "shop/lake", "shop/names"]
    file.write_text(file.read_text().replace("  names:", "  renamed:").replace("from: named}", "from: [named]}"))
    told = ottla(tmp_path, "reset", "shop", "--yes")
    queries = ["sinks/lake", "sinks/names", "dead-letters/orders-to-named", "dead-letters/refunds"]
    for query in queries:
        assert f"  the checkpoint {home.checkpoint / query}\n" in told, told
    assert told.count(f"on {servers}: what the sink has written") == 2, "of the dead letters; the sink is gone"
    assert not home.sources.exists()
    assert not list(home.checkpoint.glob("*/*/metadata"))


def test_a_query_over_one_source_sees_good_records_and_keeps_their_keys(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    servers = cluster.bootstrap_servers
    source, sink, dead = (cluster.create_topic(new_topic(name)) for name in ("asked", "answered", "unanswered"))
    sent(servers, source, [b'{"id": 1, "name": "a"}', b"poison", b'{"id": 2, "name": "b"}', b'{"id": 3}'])

    def pipeline(query: str, **errors: Any) -> Pipeline:
        return Pipeline(
            "asked",
            source={"type": "topic", "topic": source, "bootstrap.servers": servers, "schema": "id BIGINT, name STRING"},
            transforms=[{"sql": {"query": query, "as": "asked"}}, {"dead-letter": {"where": "who = 'b'"}}],
            sink={"type": "topic", "topic": sink, "bootstrap.servers": servers, "from": "asked"},
            **errors,
        )

    query = "SELECT id, coalesce(name, 'none') AS who FROM records WHERE id > 0"
    state = once(pipeline(query, errors="dead-letter", dead_letter={"topic": dead}), spark, tmp_path)
    assert (state.records, state.bad) == (4, 2)
    assert [(record.key, record.value) for record in received(servers, sink, 2)] == [
        (b"k0", b'{"id":1,"who":"a"}'), (b"k3", b'{"id":3,"who":"none"}'),
    ]  # fmt: skip
    assert sorted(record.value or b"" for record in received(servers, dead, 2)) == [
        b"poison", b'{"id": 2, "name": "b"}',
    ]  # fmt: skip
    assert (Home("asked", tmp_path).checkpoint / "main" / "metadata").is_file()
    with pytest.raises(PipelineFailed, match=f"^{source}-0@1: json: the value is not JSON"):
        once(pipeline(query), spark, tmp_path / "stop")
    with pytest.raises(SpecError, match=r"transforms\[0\].sql.query: .*`nam`.* cannot be resolved"):
        once(pipeline("SELECT nam FROM records"), spark, tmp_path / "wrong")
    with pytest.raises(PipelineError, match="aggregations without watermark"):
        once(pipeline("SELECT count(*) AS id, 'a' AS who FROM records", errors="skip"), spark, tmp_path / "count")
    with pytest.raises(SpecError, match=r"transforms\[0\].sql.query: two fields are named id: give one another name"):
        once(pipeline("SELECT id, id FROM records"), spark, tmp_path / "twice")
    assert not spark.catalog.tableExists("records")

"""The pages about the sink and about pipelines in files: every example runs, from top to bottom."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import Producer
from ottla.pipelines.connect import load, run
from ottla.pipelines.connect.state import Home
from ottla.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

DOCS = Path(__file__).parents[3] / "docs" / "pipelines"
TOPICS = ("orders", "orders-copy", "order-counts", "orders-clean", "orders-dead")


@pytest.fixture
def node() -> Iterator[Cluster]:
    """A node of its own, where the topics have the names of the pages."""
    with Cluster(processes=True) as running:
        for topic in TOPICS:
            running.create_topic(topic, 2)
        yield running


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """The page's examples in a language, each with the number of lines before it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, one.start(1)), one[1]) for one in found]


def rows(spark: SparkSession, node: Cluster, topic: str) -> list[Row]:
    """What a reader of committed records finds in a topic."""
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.bootstrap_servers)
    frame = reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load()
    return frame.selectExpr("cast(key as string) as key", "cast(value as string) as value").collect()


@pytest.mark.timeout(300)  # Spark on a busy machine
def test_the_sinks_examples_write_what_the_page_says(spark: SparkSession, node: Cluster, tmp_path: Path) -> None:
    names: dict[str, object] = {}
    for line, code in blocks("sink.md", "python"):
        code = code.replace("localhost:9092", node.bootstrap_servers).replace("/tmp/", f"{tmp_path}/")
        tree = ast.parse(code)
        ast.increment_lineno(tree, line)
        exec(compile(tree, str(DOCS / "sink.md"), "exec"), names)
    assert names["spark"] is spark
    wanted = sorted((f"k{number}", f"order {number}") for number in range(100))
    assert sorted(map(tuple, rows(spark, node, "orders"))) == wanted
    assert sorted(map(tuple, rows(spark, node, "order-counts"))) == sorted((key, "1") for key, _ in wanted)
    twice = sorted(wanted * 2)
    assert sorted(map(tuple, rows(spark, node, "orders-copy"))) == twice, "once by the stream, once by the batch job"


@pytest.mark.timeout(300)
def test_the_pipelines_in_files_run_and_have_the_answers_of_the_page(
    spark: SparkSession, node: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = node.bootstrap_servers
    orders = [
        {"id": number, "card": "4111", "amount": number - 0.5, "country": "cz" if number % 2 else "at"}
        for number in range(10)
    ]
    with Producer(bootstrap_servers=servers) as producer:
        for order in orders:
            producer.send("orders", json.dumps(order).encode())
        producer.send("orders", b"poison")
    (_, text), *_ = blocks("connect.md", "yaml")
    # The Java of this session has begun elsewhere, and a relative path is one from there.
    text = text.replace("localhost:9092", servers).replace("lake/", f"{tmp_path}/lake/")
    (tmp_path / "orders.yaml").write_text(text)
    (tmp_path / "orders.py").write_text(blocks("connect.md", "python")[-1][1].replace("localhost:9092", servers))
    monkeypatch.chdir(tmp_path)

    ((_, console),) = blocks("connect.md", "console")
    asked, answer = console.splitlines()[:2]
    command = [sys.executable, "-m", "ottla.cli.main", *asked.split()[2:]]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (asked.split()[:2], told.stdout) == (["$", "ottla"], f"{answer}\n"), told.stderr

    state = run(load("orders.yaml"), spark, once=True, home=Home("orders", tmp_path / "home"))
    assert (state.status, state.records, state.bad) == ("done", len(orders) + 1, 1)
    written = spark.read.parquet(str(tmp_path / "lake" / "orders"))
    assert {(row.id, row.card, str(row.amount), row.country) for row in written.collect()} == {
        (order["id"], "****", f"{order['amount']:.2f}", order["country"]) for order in orders[1:]
    }
    assert [row.value for row in rows(spark, node, "orders-dead")] == ["poison"]

    state = run(load("orders.py"), spark, once=True, home=Home("orders-clean", tmp_path / "home"))
    assert (state.records, state.bad) == (len(orders) + 1, 2)
    assert sorted((row.key, json.loads(row.value)["amount"]) for row in rows(spark, node, "orders-clean")) == sorted(
        (str(order["country"]).upper(), order["amount"]) for order in orders[1:]
    )
    assert sorted(row.value for row in rows(spark, node, "orders-dead")) == sorted(
        [json.dumps(orders[0]), "poison", "poison"]
    )

"""Tables as they grow, in a real database, through pipelines on a real Spark to a real node."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipelines.connect import Pipeline, SpecError, load, run
from ottla.pipelines.connect.growing import GrowingTable, Spool
from ottla.pipelines.connect.jdbc import JdbcTable
from ottla.pipelines.connect.progress import Batch
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.spec import Part
from ottla.pipelines.connect.state import Home
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import h2, once, received
from tests.pipelines.connect.test_restart import Running
from tests.support.clients import new_topic
from tests.support.maven import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java
KILLED = """\
name: killed-table
source:
  type: jdbc
  url: {url}
  driver: org.h2.Driver
  user: sa
  table: orders
  incrementing: id
trigger: 100 milliseconds
sink:
  type: topic
  topic: {topic}
  bootstrap.servers: {servers}
  key: ID
"""
DRIVER = "spark: {{spark.jars: {jar}}}\n"
"""For a Spark of its own, which does not have the database's driver yet."""
Run = Callable[..., None]


def h2_jar() -> Path:
    (jar,) = Path(jars("h2-2.3.232", ("com.h2database", "h2", "2.3.232"))).parent.glob("*.jar")
    return jar


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> dict[str, str]:
    """How a new database is reached."""
    h2(spark)
    return {"url": f"jdbc:h2:{tmp_path / 'shop'};DB_CLOSE_DELAY=0", "driver": "org.h2.Driver", "user": "sa"}


@pytest.fixture
def sql(spark: SparkSession, database: dict[str, str]) -> Run:
    """Statements, run one by one on a connection of their own."""
    table = JdbcTable(Part("jdbc", {**database, "table": "orders"}))

    def run_all(*statements: str) -> None:
        with closing(table._connect(spark)) as connection:
            for statement in statements:
                table._run(connection, statement)

    return run_all


def grown(cluster: Cluster, database: dict[str, str], name: str, **options: Any) -> tuple[Pipeline, str]:
    """A pipeline from the table to a new topic."""
    topic = cluster.create_topic(new_topic(name))
    trigger = options.pop("trigger", None)
    pipeline = Pipeline(
        name,
        source={"type": "jdbc", "table": "orders", **database, **options},
        sink={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "key": "ID"},
        trigger=trigger,
    )
    return pipeline, topic


def ids(cluster: Cluster, topic: str, count: int) -> list[int]:
    return [int(record.key or b"") for record in received(cluster.bootstrap_servers, topic, count)]


def test_new_rows_of_an_incrementing_column_come_once(
    spark: SparkSession,
    cluster: Cluster,
    database: dict[str, str],
    sql: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over runs, over a micro-batch that is done again, and over a look that was cut short before it was shown."""
    sql(
        "CREATE TABLE orders (id BIGINT, name VARCHAR(9), price DECIMAL(9,2))",
        "INSERT INTO orders VALUES (1, 'a', 1.50), (3, 'é', NULL), (NULL, 'nobody', 0)",
    )
    pipeline, topic = grown(cluster, database, "incrementing", incrementing="id")
    home = Home(pipeline.name, tmp_path)
    assert once(pipeline, spark, tmp_path).records == 2
    assert once(pipeline, spark, tmp_path).records == 0
    sql("INSERT INTO orders VALUES (4, 'c', 2), (2, 'too late', 2)")
    assert once(pipeline, spark, tmp_path).records == 1

    # As after a crash between the topic's commit and Spark's own: the micro-batch is done again.
    for name in ("1", ".1.crc"):
        (home.checkpoint / "main" / "commits" / name).unlink()
    sql("INSERT INTO orders VALUES (5, 'd', 2)")
    once(pipeline, spark, tmp_path)

    sql("INSERT INTO orders VALUES (6, 'e', 2)")
    with monkeypatch.context() as cut:
        table = GrowingTable(spark, pipeline, home.spool)
        cut.setattr(Spool, "publish", lambda self: None)
        assert table.poll() == 1
    sql("INSERT INTO orders VALUES (7, 'f', 2)")
    assert once(pipeline, spark, tmp_path).records == 2

    assert ids(cluster, topic, 6) == [1, 3, 4, 5, 6, 7]
    values = [json.loads(record.value or b"") for record in received(cluster.bootstrap_servers, topic, 6)]
    assert values[:2] == [{"ID": 1, "NAME": "a", "PRICE": 1.5}, {"ID": 3, "NAME": "é", "PRICE": None}]
    assert len(list(home.spool.glob("*.parquet"))) <= 2, "what was read is removed"


def test_new_and_changed_rows_of_a_column_of_times_come_once(
    spark: SparkSession, cluster: Cluster, database: dict[str, str], sql: Run, tmp_path: Path
) -> None:
    """Times with more digits than Spark's, several rows of one time, and one that is not yet."""
    sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, at TIMESTAMP(9))",
        "INSERT INTO orders VALUES (1, '2026-01-01 00:00:00.123456789'), (2, '2026-01-01 00:00:00.123456789')",
        "INSERT INTO orders VALUES (9, DATEADD(HOUR, 1, CURRENT_TIMESTAMP))",
    )
    by_time, topic = grown(cluster, database, "by-time", timestamp="at")
    both, topic_of_both = grown(cluster, database, "by-both", timestamp="AT", incrementing="id")
    for pipeline in (by_time, both):
        assert once(pipeline, spark, tmp_path).records == 2
        assert once(pipeline, spark, tmp_path).records == 0, "a row is not above itself by digits that Spark cuts"
    sql(
        "INSERT INTO orders VALUES (3, '2026-01-01 00:00:00.123456')",
        "UPDATE orders SET at = '2026-01-02 00:00:00' WHERE id = 1",
    )
    assert once(by_time, spark, tmp_path).records == 1
    assert once(both, spark, tmp_path).records == 2
    assert ids(cluster, topic, 3) == [1, 2, 1]
    assert ids(cluster, topic_of_both, 4)[2:] in ([3, 1], [1, 3])


def test_a_table_is_looked_at_while_the_pipeline_runs(
    spark: SparkSession, cluster: Cluster, database: dict[str, str], sql: Run, tmp_path: Path
) -> None:
    sql("CREATE TABLE orders (id DECIMAL(20) PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    pipeline, topic = grown(cluster, database, "looking", incrementing="id", trigger="200 milliseconds")
    home = Home(pipeline.name, tmp_path)
    batches: list[Batch] = []

    def add(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) <= 3:  # a micro-batch that ran when the stop was asked for is told of too
            sql(f"INSERT INTO orders VALUES ({10 ** (6 * len(batches))})")

    # All in one thread: the driver of the database is known to the session of this one alone.
    state = run(pipeline, spark, home=home, on_batch=add, is_asked_to_stop=lambda: len(batches) >= 3)
    assert state.status == "stopped"
    once(pipeline, spark, tmp_path)
    assert ids(cluster, topic, 4) == [1, 10**6, 10**12, 10**18]


@pytest.fixture
def server(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A database in a process of its own, which outlives the pipelines that read it."""
    h2(spark)
    command = ["java", "-cp", str(h2_jar()), "org.h2.tools.Server", "-tcp", "-tcpPort", "0", "-ifNotExists"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+) ", process.stdout.readline())
            assert found is not None, "it says where it listens"
            yield {
                "url": f"jdbc:h2:tcp://127.0.0.1:{found[1]}/{tmp_path}/shop",
                "driver": "org.h2.Driver",
                "user": "sa",
            }
        finally:
            process.kill()


@pytest.mark.timeout(400)
def test_a_pipeline_of_a_growing_table_that_is_killed_goes_on_where_it_was(
    spark: SparkSession, cluster: Cluster, server: dict[str, str], tmp_path: Path
) -> None:
    """Killed with -9 while rows come in, and more come while nobody looks. Another driver goes on, which finds what the
    first has left: its checkpoint and its spool."""
    table = JdbcTable(Part("jdbc", {**server, "table": "orders"}))
    topic = cluster.create_topic(new_topic("killed-table"))
    file = tmp_path / "killed.yaml"
    text = KILLED.format(url=server["url"], topic=topic, servers=cluster.bootstrap_servers)
    file.write_text(text + DRIVER.format(jar=h2_jar()))
    with closing(table._connect(spark)) as connection:
        table._run(connection, "CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9))")

        def insert(count: int) -> None:
            for _ in range(count):
                table._run(connection, "INSERT INTO orders (name) VALUES ('a')")

        insert(10)
        first = Running(file, tmp_path)
        try:
            for _ in range(3):
                first.next()
                insert(10)
            insert(50)
            first.process.kill()
        finally:
            first.close()
        file.write_text(text)
        home = Home("killed-table", tmp_path / "ottla" / "pipelines")
        for _ in range(2):
            insert(10)
            assert run(load(file), spark, once=True, home=home).status == "done"
    found = ids(cluster, topic, 110)
    assert sorted(found) == list(range(1, 111))


def test_what_is_wrong_with_a_growing_table_is_one_line(
    spark: SparkSession, cluster: Cluster, database: dict[str, str], sql: Run, tmp_path: Path
) -> None:
    sql("CREATE TABLE orders (id INT, name VARCHAR(9), at TIMESTAMP)", "INSERT INTO orders VALUES (1, 'a', NULL)")

    def told(**options: str) -> str:
        pipeline, _ = grown(cluster, database, "wrong", **options)
        with pytest.raises(SpecError) as caught:
            once(pipeline, spark, tmp_path)
        return str(caught.value)

    begin = "pipeline wrong: source."
    assert told(incrementing="ident") == f"{begin}incrementing: there is no column ident: there is ID, NAME and AT"
    assert told(incrementing="name") == f"{begin}incrementing: name is string, and whole numbers are needed"
    assert told(timestamp="id") == f"{begin}timestamp: id is int, and times are needed"
    pipeline, _ = grown(cluster, database, "wrong", incrementing="id")
    once(pipeline, spark, tmp_path)
    spool = Home("wrong", tmp_path).spool
    assert told(timestamp="at") == (
        f"pipeline wrong: source: {spool} was read by other columns so far: another spool begins anew"
    )
    sql("DROP TABLE orders")
    with pytest.raises((PipelineFailed, SpecError), match=r"Table \"orders\" not found|Table \"ORDERS\" not found"):
        once(pipeline, spark, tmp_path)


def test_of_two_looks_in_one_micro_batch_the_later_one_gives_the_row(
    spark: SparkSession, database: dict[str, str], sql: Run, tmp_path: Path
) -> None:
    """Spark takes the larger file first, which is that of the second look."""
    sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(9), at TIMESTAMP)",
        "CREATE TABLE copy (id BIGINT PRIMARY KEY, name VARCHAR(9), at TIMESTAMP)",
        "INSERT INTO orders VALUES (1, 'old', '2026-01-01 00:00:00')",
    )
    pipeline = Pipeline(
        "two-looks",
        source={"type": "jdbc", "table": "orders", **database, "timestamp": "at"},
        sink={
            "type": "jdbc", "table": "copy", **database, "insert-mode": "upsert", "pk-mode": "record_value",
            "pk-fields": "ID",
        },
    )  # fmt: skip
    table = GrowingTable(spark, pipeline, Home(pipeline.name, tmp_path).spool)
    assert table.poll() == 1
    sql(
        "UPDATE orders SET name = 'new', at = '2026-01-02 00:00:00' WHERE id = 1",
        "INSERT INTO orders SELECT x, 'more' || x, '2026-01-02 00:00:00' FROM SYSTEM_RANGE(2, 500)",
    )
    assert table.poll() == 500
    assert once(pipeline, spark, tmp_path).records == 501
    sql(
        "CREATE TABLE counts AS SELECT COUNT(*) AS n, MAX(CASE WHEN id = 1 THEN name END) AS name FROM copy",
        "ALTER TABLE counts ADD CHECK (n = 500 AND name = 'new')",
    )

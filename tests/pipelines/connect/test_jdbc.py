"""Rows by key in real databases: SQLite by its driver, H2, which gets the standard's SQL, and a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Producer
from ottla.pipelines.connect import Pipeline, SpecError
from ottla.pipelines.connect.jdbc import JdbcTable
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.spec import Part
from ottla.pipelines.connect.state import Home
from ottla.pipelines.errors import PipelineError
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import add_driver, h2, once, received
from tests.support import postgresql
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java
SCHEMA = "id BIGINT, group STRING, price DECIMAL(9,2), rate DOUBLE, is_new BOOLEAN, at TIMESTAMP"
COLUMNS = "id, group, price, is_new"
Rows = list[tuple[Any, ...]]


class Database:
    """A database, and statements on connections of their own."""

    def __init__(self, spark: SparkSession, kind: str, options: dict[str, str]) -> None:
        self.kind = kind
        self.options = options
        self._spark = spark
        self._table = JdbcTable(Part("jdbc", {**options, "table": "order"}))

    def run(self, *statements: str) -> None:
        with closing(self._table._connect(self._spark)) as connection:
            for statement in statements:
                self._table._run(connection, statement)

    def rows(self, query: str) -> Rows:
        with (
            closing(self._table._connect(self._spark)) as connection,
            closing(connection.createStatement()) as statement,
        ):
            found = statement.executeQuery(query)
            count = found.getMetaData().getColumnCount()
            rows = []
            while found.next():
                rows.append(tuple(found.getString(index + 1) for index in range(count)))
            return rows


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql", "h2"])
def database(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Database:
    """A database without the tables of this file."""
    match request.param:
        case "sqlite":
            add_driver(spark, "org.xerial", "sqlite-jdbc", "3.46.1.3")
            options = {"url": f"jdbc:sqlite:{tmp_path / 'shop.db'}", "driver": "org.sqlite.JDBC"}
        case "postgresql":
            add_driver(spark, *postgresql.DRIVER)
            url = request.getfixturevalue("server")
            options = {"url": url, "driver": "org.postgresql.Driver", "user": postgresql.USER}
        case _:
            h2(spark)
            url = f"jdbc:h2:{tmp_path / 'shop'};DB_CLOSE_DELAY=0"
            options = {"url": url, "driver": "org.h2.Driver", "user": "sa"}
    found = Database(spark, request.param, options)
    if request.param == "postgresql":
        found.run(*(f'DROP TABLE IF EXISTS "{name}"' for name in ("order", "order_ottla", "ottla_pipelines", "plain")))
    return found


def send(cluster: Cluster, topic: str, *records: tuple[bytes | None, dict[str, Any] | None]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(topic, None if value is None else json.dumps(value).encode(), key=key, partition=0)


def key(number: int | None) -> bytes:
    return b'{"id": %s}' % (b"null" if number is None else b"%d" % number)


def order(number: int, group: str, price: float = 1.5) -> dict[str, Any]:
    return {"id": number, "group": group, "price": price, "rate": 0.1, "is_new": True, "at": "2026-01-01T00:00:00.123Z"}


def forget_the_last_commit(home: Home) -> None:
    """As after a crash between the database's commit and Spark's own: the micro-batch is done again."""
    for path in (home.checkpoint / "main" / "commits").iterdir():
        path.unlink()


def test_rows_are_added_changed_and_deleted_by_the_records_key(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """In a table that is named as a word of SQL, over micro-batches of which one is tried again."""
    topic, letters = cluster.create_topic(new_topic("rows")), cluster.create_topic(new_topic("rows-dead"))
    creates = database.kind != "h2"
    if not creates:
        database.run(
            'CREATE TABLE "order" ("id" BIGINT PRIMARY KEY, "group" VARCHAR(20), "price" DECIMAL(9,2), '
            '"rate" DOUBLE PRECISION, "is_new" BOOLEAN, "at" TIMESTAMP)'
        )
    name = f"rows-{database.kind}"
    pipeline = Pipeline(
        name,
        source={
            "type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "schema": SCHEMA,
            "key": "json", "key-schema": "id BIGINT",
        },
        sink={
            "type": "jdbc", "table": "order", **database.options, "insert-mode": "upsert", "pk-mode": "record_key",
            "delete-enabled": True, "auto-create": creates,
        },
        errors="dead-letter",
        dead_letter={"topic": letters, "bootstrap.servers": cluster.bootstrap_servers},
    )  # fmt: skip
    table = 'SELECT "id", "group", "price" FROM "order" ORDER BY 1'
    send(
        cluster, topic, (key(1), order(1, "first")), (key(2), order(2, "two")), (key(1), order(1, "é'last", 2.25)),
        (key(3), order(3, "gone")), (key(3), None), (None, order(4, "no key")), (b"x", order(5, "bad key")),
        (key(None), order(6, "null key")), (key(7), None), (key(7), order(7, "back")),
    )  # fmt: skip
    state = once(pipeline, spark, tmp_path)
    assert (state.records, state.bad) == (10, 3)
    prices = {"sqlite": ("2.25", "1.5"), "h2": ("2.25", "1.50"), "postgresql": ("2.25", "1.50")}[database.kind]
    first: Rows = [("1", "é'last", prices[0]), ("2", "two", prices[1]), ("7", "back", prices[1])]
    assert database.rows(table) == first

    # Somebody else changes a row; a micro-batch that is tried again does not change it back.
    database.run('UPDATE "order" SET "group" = \'theirs\' WHERE "id" = 2')
    forget_the_last_commit(Home(name, tmp_path))
    send(cluster, topic, (key(1), None), (key(8), order(8, "new")), (key(9), None))
    once(pipeline, spark, tmp_path)
    assert [row[:2] for row in database.rows(table)] == [("2", "theirs"), ("7", "back"), ("8", "new")]

    said = {}
    for letter in received(cluster.bootstrap_servers, letters, 3):
        headers = dict(letter.headers)
        stage, message = (headers[f"__connect.errors.{name}"] for name in ("stage", "exception.message"))
        said[json.loads(letter.value or b"")["id"]] = stage, message
    null = (b"TASK_PUT", b"a row needs a key, and it is null: id")
    assert said == {4: null, 5: (b"KEY_CONVERTER", b"the key is not as the key-schema says"), 6: null}


def test_rows_are_changed_by_fields_of_the_value_and_never_added(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    lines = [{"no": 1, "name": "a"}, {"no": 2, "name": "b"}, {"no": 1, "name": "last"}]
    (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, lines)))
    database.run("CREATE TABLE plain (no BIGINT, name VARCHAR(20), note VARCHAR(20))",
                 "INSERT INTO plain VALUES (1, 'old', 'kept'), (3, 'old', 'kept')")  # fmt: skip
    pipeline = Pipeline(
        f"update-{database.kind}",
        source={"type": "json", "path": str(tmp_path / "in"), "schema": "no BIGINT, name STRING"},
        sink={
            "type": "jdbc", "table": "plain", **database.options, "insert-mode": "update", "pk-mode": "record_value",
            "pk-fields": "no",
        },
    )  # fmt: skip
    once(pipeline, spark, tmp_path)
    assert database.rows("SELECT * FROM plain ORDER BY no") == [("1", "last", "kept"), ("3", "old", "kept")]


def test_a_record_is_one_row_by_where_it_stood(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    if database.kind == "h2":
        database.run(
            'CREATE TABLE "order" ("t" VARCHAR(99), "p" INT, "o" BIGINT, "id" BIGINT, PRIMARY KEY ("t", "p", "o"))'
        )
    topic = cluster.create_topic(new_topic("places"))
    pipeline = Pipeline(
        f"places-{database.kind}",
        source={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "schema": "id BIGINT"},
        transforms=[{"ValueToKey": {"fields": "id", "predicate": "gone", "negate": True}}],
        predicates={"gone": {"type": "RecordIsTombstone"}},
        sink={
            "type": "jdbc", "table": "order", **database.options, "insert-mode": "upsert", "pk-mode": "kafka",
            "pk-fields": ["t", "p", "o"], "auto-create": database.kind != "h2",
        },
    )  # fmt: skip
    send(cluster, topic, (None, {"id": 5}), (None, None), (None, {"id": 5}))
    once(pipeline, spark, tmp_path)
    assert database.rows('SELECT * FROM "order" ORDER BY 3') == [(topic, "0", "0", "5"), (topic, "0", "2", "5")]


def test_a_row_that_the_database_refuses_stops_the_pipeline_and_leaves_nothing_of_its_batch(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"no":1,"name":"a"}\n{"no":2,"name":null}\n')
    database.run("CREATE TABLE plain (no BIGINT PRIMARY KEY, name VARCHAR(20) NOT NULL)")
    pipeline = Pipeline(
        f"refused-{database.kind}",
        source={"type": "json", "path": str(tmp_path / "in"), "schema": "no BIGINT, name STRING"},
        sink={
            "type": "jdbc", "table": "plain", **database.options, "insert-mode": "upsert", "pk-mode": "record_value",
            "pk-fields": "no",
        },
    )  # fmt: skip
    with pytest.raises(PipelineFailed, match=r"(?i)NULL"):
        once(pipeline, spark, tmp_path)
    assert database.rows("SELECT * FROM plain") == []


def test_what_is_wrong_with_a_key_is_told_before_the_first_record(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("keys"))
    database.run("CREATE TABLE plain (id BIGINT, name VARCHAR(20))")

    def told(source: dict[str, Any], **sink: Any) -> str:
        pipeline = Pipeline(
            "wrong",
            source={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, **source},
            sink={"type": "jdbc", "table": "plain", **database.options, "insert-mode": "upsert", **sink},
        )
        with pytest.raises((SpecError, PipelineError)) as caught:
            once(pipeline, spark, tmp_path)
        return str(caught.value).removeprefix("pipeline wrong: sink")

    fields = {"schema": "id BIGINT, name STRING"}
    assert told(fields, **{"pk-mode": "record_key"}).startswith(".pk-mode: the key is bytes: `key: string`")
    text = {**fields, "key": "string"}
    assert told(text, **{"pk-mode": "record_key"}) == (
        ".pk-fields: the key is string, so pk-fields is the one column for it"
    )
    assert told(fields, **{"pk-mode": "record_value", "pk-fields": "ident"}).startswith(
        ".pk-fields: there is no field ident: "
    )
    nested = {"schema": "id BIGINT, place STRUCT<city: STRING>"}
    assert told(nested, **{"pk-mode": "record_value", "pk-fields": "id"}) == (
        ": place is struct<city:string>, for which a table has no column: flatten or drop it"
    )
    if database.kind != "h2":
        assert told(fields, **{"pk-mode": "record_value", "pk-fields": "id"}) == (
            "the table plain has no primary key or unique index of id"
        )


def test_of_rows_of_one_key_the_last_counts_by_offset_and_between_partitions_by_time(spark: SparkSession) -> None:
    """However the rows stand in the frame, with times that go back within a partition."""
    from pyspark.sql import functions as F

    from ottla.pipelines.connect.jdbc_rows import ORDER, last

    rows = [
        ("a", "late in time", 0, 1, 900), ("a", "last of 0", 0, 5, 100), ("a", "last of 1", 1, 2, 200),
        ("b", "only", 0, 2, 1), ("c", "same time, partition 1", 1, 0, 7), ("c", "same time, partition 0", 0, 9, 7),
    ]  # fmt: skip
    for ordered in (rows, rows[::-1]):
        df = spark.createDataFrame(ordered, "k STRING, v STRING, p INT, o BIGINT, ms BIGINT").repartition(2, "o")
        parts = {
            "topic": F.lit("t"),
            "partition": F.col("p"),
            "offset": F.col("o"),
            "timestamp": F.timestamp_millis("ms"),
        }
        order_of = F.struct(
            *(column.alias(name) for name, column in parts.items()), F.lit(None).cast("string").alias("file"),
        )  # fmt: skip
        found = last(df.select("k", "v", order_of.alias(ORDER)), ["k"]).collect()
        assert sorted(map(tuple, found)) == [("a", "last of 1"), ("b", "only"), ("c", "same time, partition 1")]

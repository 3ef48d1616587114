"""Pipelines on a real Spark and a real node: files to a topic and back, bad records, HTTP, other clusters."""

from __future__ import annotations

import http.client
import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.pipelines.connect import Pipeline, SpecError, run
from ottla.pipelines.connect.jdbc import JdbcTable
from ottla.pipelines.connect.progress import Batch
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.state import Home, State
from ottla.pipelines.errors import MissingDependency, PipelineError
from ottla.testing import Cluster
from tests.support.clients import eventually, new_topic
from tests.support.maven import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id BIGINT, card STRING, amount STRING, at STRING, place STRUCT<city STRING, zip INT>"
POISON = {
    b"poison": "the value is not JSON",
    b'{"id": "seven"}': "the value is not as the schema says: id is no bigint",
    b"": "the value is not JSON",
}
"""Values that cannot be read, and what is said of them."""


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "card": f"4111 {number}",
        "amount": f"{number}.50",
        "at": f"2026-01-01T00:00:{number % 60:02d}Z",
        "place": {"city": "Brno", "zip": number},
    }


def sent(servers: str, topic: str, values: Sequence[bytes | None]) -> None:
    """Records with a key and a header each, in partition 0 in this order."""
    with Producer(bootstrap_servers=servers) as producer:
        for index, value in enumerate(values):
            producer.send(topic, value, key=b"k%d" % index, partition=0, headers=[("from", b"test")])


def received(servers: str, topic: str, count: int, partitions: int = 1) -> list[ConsumerRecord[bytes, bytes]]:
    """What a reader of committed records finds in a topic: so many, and none after them."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    with Consumer[bytes, bytes](
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])

        def has_all() -> bool:
            found.extend(consumer.poll(0.2))
            return len(found) >= count

        eventually(has_all, f"{count} records in {topic}")
        found.extend(consumer.poll(0.3))
    return found


def once(pipeline: Pipeline, spark: SparkSession, base: Path) -> State:
    """Run a pipeline over what there is."""
    return run(pipeline, spark, once=True, home=Home(pipeline.name, base))


def shout(record: dict[str, Any]) -> dict[str, Any] | None:
    if record["order_id"] == 3:
        raise ValueError("three is not allowed")
    if record["order_id"] == 4:
        return None
    return record | {"place_city": record["place_city"].upper()}


def test_files_go_to_a_topic_and_by_transforms_to_parquet(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("orders"), 2)
    (tmp_path / "in").mkdir()
    for part in range(2):
        lines = [json.dumps(order(number)) for number in range(part * 10, part * 10 + 10)]
        (tmp_path / "in" / f"{part}.json").write_text("\n".join(lines))
    to_topic = {"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers}
    files = Pipeline(
        "files",
        source={"type": "json", "path": str(tmp_path / "in"), "schema": SCHEMA},
        sink=to_topic | {"key": "id"},
    )
    assert once(files, spark, tmp_path).records == 20
    records = received(cluster.bootstrap_servers, topic, 20, 2)
    assert sorted((int(record.key or b""), json.loads(record.value or b"")) for record in records) == [
        (number, order(number)) for number in range(20)
    ]
    (tmp_path / "in" / "2.json").write_text(json.dumps(order(20)))
    assert once(files, spark, tmp_path).records == 1, "what was written is not written again"

    lake = Pipeline(
        "lake",
        source=to_topic | {"schema": SCHEMA},
        transforms=[
            {"mask": {"fields": "card", "with": "****"}},
            {"cast": {"fields": {"amount": "DECIMAL(10,2)"}}},
            {"flatten": {"delimiter": "_"}},
            {"rename": {"fields": {"id": "order_id"}}},
            {"filter": {"where": "order_id < 6"}},
            {"timestamp": {"field": "at", "from": "iso"}},
            {"insert": {"field": "origin", "from": "topic"}},
            {"insert": {"field": "twice", "sql": "place_zip * 2"}},
            {"drop": {"fields": "place_zip"}},
            shout,
        ],
        sink={"type": "parquet", "path": str(tmp_path / "lake"), "partition-by": "origin"},
        errors="skip",
    )
    state = once(lake, spark, tmp_path)
    assert (state.records, state.bad, state.status) == (21, 1, "done")
    rows = spark.read.parquet(str(tmp_path / "lake")).orderBy("order_id").collect()
    assert [row.asDict() for row in rows] == [
        {
            "order_id": number,
            "card": "****",
            "amount": Decimal(f"{number}.50"),
            "at": datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC).astimezone().replace(tzinfo=None),
            "place_city": "BRNO",
            "origin": topic,
            "twice": number * 2,
        }
        for number in (0, 1, 2, 5)
    ]


def poisoned(cluster: Cluster) -> str:
    """A topic with good records at the even offsets and bad ones at the odd."""
    topic = cluster.create_topic(new_topic("poisoned"))
    values: list[bytes | None] = []
    for number, bad in enumerate(POISON):
        values += [json.dumps(order(number)).encode(), bad]
    sent(cluster.bootstrap_servers, topic, values)
    return topic


def test_a_bad_record_stops_the_pipeline_with_one_line(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic = poisoned(cluster)
    pipeline = Pipeline(
        "stopping",
        source={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "schema": SCHEMA},
        sink={"type": "json", "path": str(tmp_path / "out")},
    )
    with pytest.raises(PipelineFailed) as caught:
        once(pipeline, spark, tmp_path)
    assert str(caught.value) == (
        f"{topic}-0@1: json: the value is not JSON (DataException). "
        "`errors: skip` or `errors: dead-letter` would go on."
    )
    state = Home("stopping", tmp_path).read()
    assert state is not None
    assert (state.status, state.error) == ("failed", str(caught.value))


@pytest.mark.parametrize("sink", ["topic", "json"])
def test_bad_records_go_to_the_dead_letter_topic_with_their_errors(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, sink: str
) -> None:
    """In the sink's own transaction, and by a query of their own."""
    servers = cluster.bootstrap_servers
    topic, letters, fine = poisoned(cluster), cluster.create_topic(new_topic("letters")), new_topic("fine")
    cluster.create_topic(f"{fine}-Brno")
    pipeline = Pipeline(
        f"letters-{sink}",
        source={"type": "topic", "topic": topic, "bootstrap.servers": servers, "schema": SCHEMA},
        transforms=[
            {"flatten": {"delimiter": "_"}},
            {"cast": {"fields": {"amount": "DOUBLE"}}},
            {"dead-letter": {"where": "id = 2", "message": "two is refused"}},
            *([{"route": {"field": "place_city", "topic": fine + "-{value}"}}] if sink == "topic" else []),
        ],
        sink={"type": "topic", "bootstrap.servers": servers}
        if sink == "topic"
        else {"type": "json", "path": str(tmp_path / "out")},
        errors="dead-letter",
        dead_letter={"topic": letters, "bootstrap.servers": servers},
    )
    state = once(pipeline, spark, tmp_path)
    assert (state.records, state.bad) == (6, 4)

    expected = {
        2 * index + 1: ("VALUE_CONVERTER", "json", "DataException", said) for index, said in enumerate(POISON.values())
    }
    expected[4] = ("TRANSFORMATION", "dead-letter", "RecordRefused", "two is refused")
    dead = sorted(received(servers, letters, 4), key=lambda record: record.key or b"")
    assert [record.key for record in dead] == [b"k1", b"k3", b"k4", b"k5"]
    bad_values = list(POISON)
    assert [record.value for record in dead] == [bad_values[0], bad_values[1], json.dumps(order(2)).encode(), b""]
    for record, (offset, (stage, part, kind, message)) in zip(dead, sorted(expected.items()), strict=True):
        assert [(name, (value or b"").decode()) for name, value in record.headers] == [
            ("from", "test"),
            ("__connect.errors.topic", topic),
            ("__connect.errors.partition", "0"),
            ("__connect.errors.offset", str(offset)),
            ("__connect.errors.connector.name", f"letters-{sink}"),
            ("__connect.errors.stage", stage),
            ("__connect.errors.class.name", part),
            ("__connect.errors.exception.class.name", kind),
            ("__connect.errors.exception.message", message),
        ]
    if sink == "topic":
        good = [(record.key, json.loads(record.value or b"")) for record in received(servers, f"{fine}-Brno", 2)]
        assert [(key, value["id"], value["amount"]) for key, value in good] == [(b"k0", 0, 0.5), (b"k2", 1, 1.5)]
    else:
        assert [row.id for row in spark.read.json(str(tmp_path / "out")).orderBy("id").collect()] == [0, 1]


def test_another_cluster_gets_the_same_bytes_in_topics_of_the_same_names(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("copied"))
    values = [b"\xff\x00 raw", None, b"", b"last"]
    sent(cluster.bootstrap_servers, topic, values)
    with Cluster() as other:
        other.create_topic(topic)
        pipeline = Pipeline(
            "copy",
            source={
                "type": "topic", "pattern": f"{topic}$", "bootstrap.servers": cluster.bootstrap_servers,
                "value": "bytes", "group": "copiers",
            },
            sink={"type": "topic", "bootstrap.servers": other.bootstrap_servers},
        )  # fmt: skip
        once(pipeline, spark, tmp_path)
        copied = received(other.bootstrap_servers, topic, 4)
    assert [(record.key, record.value) for record in copied] == [
        (b"k%d" % at, value) for at, value in enumerate(values)
    ]
    assert [list(record.headers) for record in copied] == [[("from", b"test")]] * 4


def test_records_that_are_posted_reach_the_topic_and_leave_the_spool(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, letters = cluster.create_topic(new_topic("posted")), cluster.create_topic(new_topic("posted-dead"))
    pipeline = Pipeline(
        "http",
        source={"type": "http", "listen": "127.0.0.1:0", "path": "/orders", "schema": "id BIGINT", "token": "secret"},
        sink={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers},
        errors="dead-letter",
        dead_letter={"topic": letters},
    )
    home = Home("http", tmp_path)
    addresses: list[str] = []
    batches: list[Batch] = []
    states: list[State] = []
    thread = threading.Thread(
        target=lambda: states.append(
            run(pipeline, spark, home=home, on_ready=addresses.append, on_batch=batches.append)
        )
    )
    thread.start()
    try:
        eventually(lambda: bool(addresses), "it listens")
        assert addresses[0].endswith("/orders")
        connection = http.client.HTTPConnection(addresses[0].split("/")[2], timeout=20)
        for body in ('[{"id":0},{"id":1}]', '{"id":2}', '{"id":"x"}'):
            connection.request(
                "POST", "/orders", body, {"Content-Type": "application/json", "Authorization": "Bearer secret"}
            )
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"records": %d}' % (2 if body[0] == "[" else 1))
            before = len(batches)
            eventually(lambda before=before: len(batches) > before, "a micro-batch", 60)  # type: ignore[misc]
        connection.close()
    finally:
        if home.is_running:
            home.ask_to_stop()
        thread.join(60)
    assert states[0].status == "stopped"
    assert (states[0].records, states[0].bad) == (4, 1)
    assert [json.loads(record.value or b"") for record in received(cluster.bootstrap_servers, topic, 3)] == [
        {"id": 0}, {"id": 1}, {"id": 2},
    ]  # fmt: skip
    (dead,) = received(cluster.bootstrap_servers, letters, 1)
    assert dead.value == b'{"id":"x"}'
    assert b"/spool/" in (dict(dead.headers)["__ottla.errors.file"] or b"")


def test_a_field_that_is_not_there_is_told_before_the_first_record(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()

    def wrong(*transforms: Any, sink: str = "json") -> str:
        pipeline = Pipeline(
            "wrong",
            source={"type": "json", "path": str(tmp_path / "in"), "schema": "id BIGINT, name STRING"},
            transforms=transforms,
            sink={"type": sink, "path": str(tmp_path / "out")},
        )
        with pytest.raises(SpecError) as caught:
            once(pipeline, spark, tmp_path)
        return str(caught.value)

    begin = "pipeline wrong: transforms[0]."
    assert wrong({"mask": {"fields": "nam"}}) == f"{begin}mask: there is no field nam: did you mean name?"
    assert wrong({"rename": {"fields": {"id": "name"}}}) == f"{begin}rename: there is a field name already"
    assert wrong({"python": "no_such_module_here:f"}) == (
        f"{begin}python: there is no module no_such_module_here, neither beside the pipeline's file nor installed"
    )
    assert "transforms[0].cast: " in wrong({"cast": {"fields": {"id": "NUMBERISH"}}})
    assert "transforms[0].filter: " in wrong({"filter": {"where": "idd > 1"}})
    assert "a sink text takes one field of text" in wrong(sink="text")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_format_without_its_package_is_one_line(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    place = {"table": "a.b.c"} if kind == "iceberg" else {"path": str(tmp_path)}
    pipeline = Pipeline("lake", source={"type": kind, **place}, sink={"type": "json", "path": str(tmp_path / "out")})
    with pytest.raises(MissingDependency, match=f"^{kind} needs its package for this version of Spark: "):
        once(pipeline, spark, tmp_path)


def refuse(record: dict[str, Any]) -> dict[str, Any] | None:
    if record["id"] == 2:
        raise ValueError("two is not allowed")
    return record


def test_the_dead_letter_of_a_line_has_the_fields_that_were_read(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """A line of a CSV file has no bytes of its own, and a function that raises leaves no fields."""
    letters = cluster.create_topic(new_topic("letters"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,amount,note\n1,1.5,a\n2,2.5,\n3,x,c\nseven,1,d\n")
    pipeline = Pipeline(
        "lines",
        source={"type": "csv", "path": str(tmp_path / "in"), "schema": "id BIGINT, amount STRING, note STRING"},
        transforms=[{"cast": {"fields": {"amount": "DOUBLE"}}}, refuse],
        sink={"type": "json", "path": str(tmp_path / "out")},
        errors="dead-letter",
        dead_letter={"topic": letters, "bootstrap.servers": cluster.bootstrap_servers},
    )
    assert once(pipeline, spark, tmp_path).bad == 3
    assert sorted(record.value or b"" for record in received(cluster.bootstrap_servers, letters, 3)) == [
        b"seven,1,d",
        b'{"id":2,"amount":"2.5","note":null}',
        b'{"id":3,"amount":"x","note":"c"}',
    ]


def test_a_database_without_its_driver_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    database = {
        "type": "jdbc",
        "url": "jdbc:mysql://nowhere/shop",
        "driver": "com.mysql.cj.jdbc.Driver",  # no test of the session adds this one
        "table": "t",
    }
    file = {"type": "json", "path": str(tmp_path)}
    for pipeline in (
        Pipeline("from-table", source=database, sink=file),
        Pipeline("to-table", source={**file, "schema": "id BIGINT"}, sink=database),
    ):
        with pytest.raises(MissingDependency) as caught:
            once(pipeline, spark, tmp_path)
        assert str(caught.value) == (
            "Spark has no driver com.mysql.cj.jdbc.Driver: "
            '`spark: {spark.jars.packages: "com.mysql:mysql-connector-j:VERSION"}` in the file fetches it'
        )


def add_driver(spark: SparkSession, group: str, artifact: str, version: str) -> None:
    """The driver of a database, within reach of the session."""
    for jar in Path(jars(f"{artifact}-{version}", (group, artifact, version))).parent.glob("*.jar"):
        spark.sql(f"ADD JAR '{jar}'")


def h2(spark: SparkSession) -> None:
    """H2, a database in Java."""
    add_driver(spark, "com.h2database", "h2", "2.3.232")


@pytest.mark.java
def test_a_table_gets_each_micro_batch_once_and_is_read_back(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    h2(spark)
    database = {"url": f"jdbc:h2:{tmp_path / 'shop'};DB_CLOSE_DELAY=0", "driver": "org.h2.Driver", "user": "sa"}
    source = {"type": "json", "path": str(tmp_path / "in"), "schema": "id BIGINT, name STRING"}
    into = Pipeline("into", source=source, sink={"type": "jdbc", "table": "orders", **database})
    table = JdbcTable(into.sink)
    with closing(table._connect(spark)) as connection:
        table._run(connection, "CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR(100))")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id":1,"name":"a"}\n{"id":2,"name":"é"}\n')
    once(into, spark, tmp_path)
    # As after a crash between the database's commit and Spark's own: the micro-batch is done again.
    for path in (Home("into", tmp_path).checkpoint / "main" / "commits").iterdir():
        path.unlink()
    (tmp_path / "in" / "b.json").write_text('{"id":3,"name":null}\n')
    once(into, spark, tmp_path)
    topic = cluster.create_topic(new_topic("table"))
    out = Pipeline(
        "out-of",
        source={"type": "jdbc", "table": "orders", **database},
        transforms=[{"rename": {"fields": {"ID": "id", "NAME": "name"}}}],
        sink={"type": "topic", "topic": topic, "bootstrap.servers": cluster.bootstrap_servers, "key": "id"},
    )
    assert once(out, spark, tmp_path).status == "done"
    found = sorted(
        (record.key, json.loads(record.value or b"")) for record in received(cluster.bootstrap_servers, topic, 3)
    )
    assert found == [
        (b"1", {"id": 1, "name": "a"}), (b"2", {"id": 2, "name": "é"}), (b"3", {"id": 3, "name": None}),
    ]  # fmt: skip
    wrong = Pipeline(
        "wrong", source={**source, "schema": "nam STRING"}, sink={"type": "jdbc", "table": "orders", **database}
    )
    with pytest.raises(PipelineError, match="the table orders has no column nam: "):
        once(wrong, spark, tmp_path)


@pytest.mark.java
def test_sqlite_gets_each_micro_batch_once_and_says_why_it_refuses_one(spark: SparkSession, tmp_path: Path) -> None:
    """Spark has no dialect for SQLite, which has one writer at a time; two files are two tasks here."""
    add_driver(spark, "org.xerial", "sqlite-jdbc", "3.46.1.3")
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, name TEXT)")
    (tmp_path / "in").mkdir()
    for number in range(4):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number, "name": f"é{number}"}))
    pipeline = Pipeline(
        "sqlite",
        source={"type": "json", "path": str(tmp_path / "in"), "schema": "id BIGINT, name STRING"},
        sink={"type": "jdbc", "url": f"jdbc:sqlite:{file}", "driver": "org.sqlite.JDBC", "table": "events"},
    )
    once(pipeline, spark, tmp_path)
    # As after a crash between the database's commit and Spark's own: the micro-batch is done again.
    for path in (Home("sqlite", tmp_path).checkpoint / "main" / "commits").iterdir():
        path.unlink()
    (tmp_path / "in" / "4.json").write_text('{"id":4,"name":null}')
    once(pipeline, spark, tmp_path)
    with closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT id, name FROM events ORDER BY id").fetchall()
    assert rows == [*((number, f"é{number}") for number in range(4)), (4, None)]

    (tmp_path / "in" / "5.json").write_text('{"id":4,"name":"again"}')
    with pytest.raises(PipelineFailed) as caught:
        once(pipeline, spark, tmp_path)
    assert str(caught.value) == (
        "SQLiteException: [SQLITE_CONSTRAINT_PRIMARYKEY] A PRIMARY KEY constraint failed "
        "(UNIQUE constraint failed: events.id)"
    )
    assert "in _take_over" in Home("sqlite", tmp_path).failure.read_text()

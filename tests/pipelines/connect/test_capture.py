"""Change data capture from a real PostgreSQL, through pipelines on a real Spark, to a real node and to another table.

`OTTLA_SOAK=1` runs them all, and many kills at drawn moments under load.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Consumer
from ottla.pipelines.connect import Pipeline, SpecError, load, run
from ottla.pipelines.connect.capture import Capture
from ottla.pipelines.connect.change_spool import files
from ottla.pipelines.connect.progress import Batch
from ottla.pipelines.connect.reset import belongings
from ottla.pipelines.connect.runner import PipelineFailed
from ottla.pipelines.connect.state import Home
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.postgresql.connection import Address, Connection
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.pipelines.connect.test_pipelines import add_driver, once, received
from tests.pipelines.connect.test_restart import Running
from tests.support import postgresql
from tests.support.clients import eventually, new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java
PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "connect.md"
soak = pytest.mark.skipif(os.environ.get("OTTLA_SOAK") != "1", reason="a long run: OTTLA_SOAK=1 runs it")
LOGICAL = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}
EVERY_TYPE = """\
id int, small smallint, large bigint, price price, exact numeric, real real, double double precision, flag boolean,
note text, code varchar(9), fixed char(3), day date, at timestamp, at_zone timestamptz, moment time, span interval,
data bytea, doc json, docb jsonb, uid uuid, mood mood, address inet, bits bit(3), numbers int[], words text[],
grid int[][], moments timestamptz[]"""
ROW = r"""
1, -32768, 9223372036854775807, 12345.67, 0.10000000000000000000000000000000000000001, 0.1, 1e300, true,
E'a\tb\nc\\d "é" 𝄞', 'x', 'y', '2026-02-28', '2026-02-28 23:59:59.999999', '2026-02-28 23:59:59.999999+05:30',
'23:59:59.5', '1 year 2 days 3.5 s', '\xdeadbeef00', '{"a" : 1.0}', '{"b": [1, null]}',
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'it''s ok', '10.0.0.1/8', B'101', '{1,NULL,-3}',
'{"a,b",NULL,"NULL","q\"\\\\","it''s",""}', '{{1,2},{3,4}}', '{2026-01-01 00:00:00+00}'"""


@pytest.fixture(scope="module")
def server() -> Iterator[Address]:
    """A PostgreSQL whose WAL can be read logically."""
    with postgresql.running(LOGICAL) as url:
        yield address_of(url)


def address_of(url: str) -> Address:
    found = re.fullmatch(r"jdbc:postgresql://([^:]+):(\d+)/(\w+)", url)
    assert found is not None, url
    return Address(found[1], int(found[2]), found[3], postgresql.USER)


class Database:
    """A database of a test's own, and statements on one connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection = Connection(address)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._connection.rows(statement)

    def rows(self, sql: str) -> list[list[str | None]]:
        return self._connection.rows(sql)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://{self.address.host}:{self.address.port}/{self.address.database}"

    @property
    def source(self) -> dict[str, Any]:
        return {
            "type": "postgresql-cdc", "database-hostname": self.address.host, "database-port": self.address.port,
            "database-dbname": self.address.database, "database-user": self.address.user,
        }  # fmt: skip

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def database(server: Address) -> Iterator[Database]:
    with new_database(server) as found:
        yield found


@contextmanager
def new_database(server: Address) -> Iterator[Database]:
    """Dropped at the end, with the slots in it."""
    name = f"shop{random.randrange(10**9)}"
    with Connection(server) as admin:
        admin.rows(f"CREATE DATABASE {name}")
        found = Database(Address(server.host, server.port, name, server.user))
        try:
            yield found
        finally:
            found.close()
            slots = f"pg_replication_slots WHERE database = '{name}'"
            eventually(lambda: not admin.rows(f"SELECT 1 FROM {slots} AND active"), "nobody reads a slot", 30)
            admin.rows(f"SELECT pg_drop_replication_slot(slot_name) FROM {slots}")
            admin.rows(f"DROP DATABASE {name} WITH (FORCE)")


def to_topic(database: Database, cluster: Cluster, name: str, topic: str | None = None, **options: Any) -> Pipeline:
    """A pipeline from a database to a topic."""
    sink = {"type": "topic", "bootstrap.servers": cluster.bootstrap_servers}
    transforms = options.pop("transforms", [])
    errors = options.pop("errors", "stop")
    return Pipeline(
        name, source={**database.source, **options}, transforms=transforms,
        sink=sink if topic is None else {**sink, "topic": topic}, errors=errors,
    )  # fmt: skip


def values(cluster: Cluster, topic: str, count: int) -> list[Any]:
    return [
        None if one.value is None else json.loads(one.value)
        for one in received(cluster.bootstrap_servers, topic, count)
    ]


def folded(cluster: Cluster, topic: str, count: int) -> tuple[dict[Any, Any], list[Any]]:
    """What a topic of envelopes comes to: the rows by key, and all that is wrong on the way there."""
    rows: dict[Any, Any] = {}
    wrong = []
    for one in received(cluster.bootstrap_servers, topic, count):
        key = json.loads(one.key or b"null")["id"]
        if not one.value:
            if key in rows:
                wrong.append(f"a tombstone of {key}, which is there")
            continue
        envelope = json.loads(one.value)
        match envelope["op"]:
            case "r" | "c":
                if key in rows:
                    wrong.append(f"{envelope['op']} of {key}, which is there")
                rows[key] = envelope["after"]
            case "u":
                if key not in rows or envelope["after"]["v"] != rows[key]["v"] + 1:
                    wrong.append(f"{key} is {rows.get(key)} and becomes {envelope['after']}")
                rows[key] = envelope["after"]
            case "d":
                if rows.pop(key, None) is None:
                    wrong.append(f"{key} goes and is not there")
    return rows, wrong


def test_a_snapshot_and_the_changes_after_it_come_once_and_in_order(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a change of a key, a transaction that is rolled back, and a truncation; over runs that begin again, also
    after a micro-batch that is done again."""
    topic = cluster.create_topic(new_topic("changes"))
    database.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text)", "INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')",
        "CREATE TABLE others (id int)",
    )  # fmt: skip
    pipeline = to_topic(database, cluster, "changes", topic, **{"table-include-list": "public.people"})
    home = Home(pipeline.name, tmp_path)
    assert once(pipeline, spark, tmp_path).records == 2
    assert once(pipeline, spark, tmp_path).records == 0
    database.run(
        "BEGIN", "INSERT INTO people VALUES (3, 'gone')", "ROLLBACK",
        "BEGIN", "UPDATE people SET name = 'Bert' WHERE id = 2", "UPDATE people SET id = 9 WHERE id = 2", "COMMIT",
        "INSERT INTO others VALUES (1)", "DELETE FROM people WHERE id = 1",
    )  # fmt: skip
    with monkeypatch.context() as cut:
        cut.setattr(Capture, "confirm", lambda self, offset: None)
        assert once(pipeline, spark, tmp_path).records == 6

    # As after a crash between the topic's commit and Spark's own: the micro-batch is done again.
    for commit in ("1", ".1.crc"):
        (home.checkpoint / "main" / "commits" / commit).unlink()
    database.run("TRUNCATE people", "INSERT INTO people VALUES (4, NULL)")
    once(pipeline, spark, tmp_path)

    found = received(cluster.bootstrap_servers, topic, 9)
    told = [
        (json.loads(one.key or b"")["id"], *(_short(json.loads(one.value)) if one.value else (None,))) for one in found
    ]
    assert told == [
        (1, "r", None, "Ada"), (2, "r", None, "Bob"),
        (2, "u", None, "Bert"), (2, "d", None, None), (2, None), (9, "c", None, "Bert"),
        (1, "d", None, None), (1, None),
        (4, "c", None, None),
    ]  # fmt: skip
    first = json.loads(found[0].value or b"")
    assert first["source"]["snapshot"] == "true"
    last = json.loads(found[-1].value or b"")["source"]
    assert (last["connector"], last["name"], last["db"]) == ("postgresql", "changes", database.address.database)
    assert (last["schema"], last["table"], last["snapshot"]) == ("public", "people", "false")
    assert last["txId"] > 0
    assert last["lsn"] > first["source"]["lsn"]


def _short(envelope: dict[str, Any]) -> tuple[str, Any, Any]:
    before, after = envelope["before"], envelope["after"]
    return envelope["op"], before and before["name"], after and after["name"]


def test_types_come_as_they_are(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """The same row by the snapshot and by the stream, in Parquet with Spark's types."""
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')", "CREATE DOMAIN price AS numeric(9,2)",
        f"CREATE TABLE every ({EVERY_TYPE}, PRIMARY KEY (id))", f"INSERT INTO every VALUES ({ROW})",
        "INSERT INTO every (id) VALUES (3)",
    )  # fmt: skip
    pipeline = Pipeline(
        "types",
        source={**database.source, "table-include-list": "public.every"},
        transforms=[{"ExtractNewRecordState": {"add.fields": "op,table,source.lsn"}}],
        sink={"type": "parquet", "path": str(tmp_path / "out")},
    )
    once(pipeline, spark, tmp_path)
    database.run(f"INSERT INTO every VALUES ({ROW})".replace("1,", "2,", 1))
    once(pipeline, spark, tmp_path)
    df = spark.read.parquet(str(tmp_path / "out")).orderBy("id")
    assert {one.name: one.dataType.simpleString() for one in df.schema.fields} == {
        "id": "int", "small": "smallint", "large": "bigint", "price": "decimal(9,2)", "exact": "string",
        "real": "float", "double": "double", "flag": "boolean", "note": "string", "code": "string", "fixed": "string",
        "day": "date", "at": "timestamp_ntz", "at_zone": "timestamp", "moment": "string", "span": "string",
        "data": "binary", "doc": "string", "docb": "string", "uid": "string", "mood": "string", "address": "string",
        "bits": "string", "numbers": "array<int>", "words": "array<string>", "grid": "array<array<int>>",
        "moments": "array<timestamp>", "__op": "string", "__table": "string", "__source_lsn": "bigint",
    }  # fmt: skip
    texts = df.selectExpr("*", "CAST(at AS STRING) AS at_text", "unix_micros(at_zone) AS at_us").collect()
    snapshot, stream, nothing = (row.asDict() for row in texts)
    assert {snapshot["__op"], stream["__op"]} == {"r", "c"}
    for row in (snapshot, stream):
        assert (row["small"], row["large"], str(row["price"])) == (-32768, 2**63 - 1, "12345.67")
        assert row["exact"] == "0.10000000000000000000000000000000000000001"
        assert (round(row["real"], 6), row["double"], row["flag"]) == (0.1, 1e300, True)
        assert (row["note"], row["code"], row["fixed"]) == ('a\tb\nc\\d "é" 𝄞', "x", "y  ")
        assert (str(row["day"]), row["at_text"]) == ("2026-02-28", "2026-02-28 23:59:59.999999")
        assert row["at_us"] == 1772303399999999
        assert (row["moment"], row["span"], bytes(row["data"])) == ("23:59:59.5", "P1Y2DT3.5S", b"\xde\xad\xbe\xef\0")
        assert (row["doc"], row["docb"]) == ('{"a" : 1.0}', '{"b": [1, null]}')
        assert (row["uid"], row["mood"]) == ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "it's ok")
        assert (row["address"], row["bits"]) == ("10.0.0.1/8", "101")
        assert (row["numbers"], row["grid"]) == ([1, None, -3], [[1, 2], [3, 4]])
        assert row["words"] == ["a,b", None, "NULL", 'q"\\\\', "it's", ""]
        assert len(row["moments"]) == 1
        assert row["__table"] == "every"
    assert {value for name, value in nothing.items() if not name.startswith("__")} == {None, 3}


def test_rows_are_kept_equal_in_another_database(
    spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's example: an upsert with deletions, over changes of one row in one micro-batch and changes of keys."""
    add_driver(spark, *postgresql.DRIVER)
    database.run(
        "CREATE TABLE customers (id int PRIMARY KEY, name text, price numeric(9,2), born date, at timestamp)",
        "INSERT INTO customers SELECT x, 'n' || x, x / 3.0, '2000-01-01'::date + x, "
        "'2026-01-01'::timestamp + x * interval '1s' FROM generate_series(1, 500) x",
        "CREATE DATABASE " + database.address.database + "_copy",
    )
    copy = Database(Address(database.address.host, database.address.port, f"{database.address.database}_copy", "etl"))
    try:
        page = PAGE.read_text(encoding="utf-8")
        text = page[page.index("# customers.yaml") :].partition("```")[0]
        (tmp_path / "customers.yaml").write_text(
            text.replace("localhost/warehouse", f"{copy.url.partition('//')[2]}")
            .replace("localhost", database.address.host)
            .replace("database-port: 5432", f"database-port: {database.address.port}")
            .replace("dbname: shop", f"dbname: {database.address.database}")
        )
        monkeypatch.setenv("SHOP_PASSWORD", "not asked for")
        pipeline = load(tmp_path / "customers.yaml")
        table = "SELECT id, name, price, born, at FROM customers ORDER BY id"
        once(pipeline, spark, tmp_path)
        assert copy.rows(table) == database.rows(table)
        source = random.Random(7)
        for _ in range(200):
            one, other = source.randrange(1, 520), source.randrange(1, 520)
            database.run(
                source.choice(
                    (
                        f"UPDATE customers SET name = name || '+', price = price * 1.01 WHERE id = {one}",
                        f"DELETE FROM customers WHERE id = {one}",
                        f"INSERT INTO customers VALUES ({one}, 'new') ON CONFLICT DO NOTHING",
                        f"UPDATE customers SET id = {other} WHERE id = {one} "
                        f"AND NOT EXISTS (SELECT 1 FROM customers WHERE id = {other})",
                    )
                )
            )
        once(pipeline, spark, tmp_path)
        assert copy.rows(table) == database.rows(table)
    finally:
        copy.close()
        database.run(f"DROP DATABASE {copy.address.database} WITH (FORCE)")


@soak
def test_a_query_and_dead_letters_have_all_changes_before_postgresql_forgets_them(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the query reads its records twice, and a bad one goes around it."""
    dead = cluster.create_topic(new_topic("unasked"))
    database.run(
        "CREATE TABLE people (id int PRIMARY KEY, name text, price numeric(9,2))",
        "INSERT INTO people VALUES (1, 'Ada', 1.5), (2, 'Bob', 'NaN')",
    )

    def pipeline(name: str, query: str, **sink: Any) -> Pipeline:
        return Pipeline(
            name,
            source={**database.source, "table-include-list": "public.people"},
            transforms=[{"ExtractNewRecordState": {}}, {"sql": query}],
            sink={"type": "parquet", "path": str(tmp_path / name), **sink},
            errors="dead-letter",
            dead_letter={"topic": dead, "bootstrap.servers": cluster.bootstrap_servers},
        )

    confirmed: list[int] = []
    confirm = Capture.confirm

    def noted(self: Capture, offset: int) -> None:
        confirmed.append(offset)
        confirm(self, offset)

    monkeypatch.setattr(Capture, "confirm", noted)
    kept = "records WHERE id > 0"
    twice = pipeline("twice", f"SELECT id, name FROM {kept} UNION ALL SELECT -id, name FROM {kept}")
    once(twice, spark, tmp_path)
    database.run("DELETE FROM people WHERE id = 1", "INSERT INTO people VALUES (3, 'Cid', 3)")
    state = once(twice, spark, tmp_path)
    assert state.slot_lag_bytes is not None
    home = Home("twice", tmp_path)
    queries = sorted(path.parent.relative_to(home.checkpoint) for path in home.checkpoint.rglob("metadata"))
    assert queries == [Path("dead-letters/records-to-records"), Path("main")]
    assert confirmed[-1] == 5, "the deletion and its tombstone among them"
    assert not list(home.spool.glob("*.changes"))
    rows = spark.read.parquet(str(tmp_path / "twice")).collect()
    assert sorted((row.id, row.name) for row in rows) == [(-3, "Cid"), (-1, "Ada"), (1, "Ada"), (3, "Cid")]
    (letter,) = values(cluster, dead, 1)
    assert letter["after"]["name"] == "Bob"

    # And a row goes on as the record of a change, with its time.
    by_year = {"partition-by-time": {"pattern": "'year'=yyyy"}}
    once(pipeline("timed", "SELECT id FROM records WHERE name <> 'Bob'", **by_year), spark, tmp_path)
    (row,) = spark.read.parquet(str(tmp_path / "timed")).collect()
    assert (row.id, row.year) == (3, time.gmtime().tm_year)


KILLED = """\
name: killed-capture
source:
  type: postgresql-cdc
  database-hostname: {host}
  database-port: {port}
  database-dbname: {database}
  database-user: {user}
  table-include-list: public.numbers
sink:
  type: topic
  topic: {topic}
  bootstrap.servers: {servers}
"""


class Writer:
    """Changes rows in a thread of its own, transaction by transaction: `v` grows by one with each update of a row."""

    def __init__(self, database: Database, seed: int) -> None:
        self._database = Database(database.address)
        self._random = random.Random(seed)
        self._stops = threading.Event()
        self.transactions = 0
        self._thread = threading.Thread(target=self._write, name="writer")
        self._thread.start()

    def _write(self) -> None:
        while not self._stops.is_set():
            statements = []
            for _ in range(self._random.randrange(1, 6)):
                one = self._random.randrange(1, 400)
                statements.append(
                    self._random.choice(
                        (
                            f"UPDATE numbers SET v = v + 1 WHERE id = {one}",
                            f"UPDATE numbers SET v = v + 1 WHERE id % 40 = {one % 40}",
                            f"DELETE FROM numbers WHERE id = {one}",
                            f"INSERT INTO numbers VALUES ({one}, 0) ON CONFLICT DO NOTHING",
                        )
                    )
                )
            end = "ROLLBACK" if self._random.random() < 0.1 else "COMMIT"
            self._database.run("BEGIN; " + "; ".join(statements) + f"; {end}")
            self.transactions += 1
            time.sleep(0.01)

    def stop(self) -> None:
        self._stops.set()
        self._thread.join(30)
        self._database.close()


def everything(cluster: Cluster, topic: str, database: Database) -> None:
    """The topic comes to what the table has, each change once and in its order."""
    with Consumer[bytes, bytes](bootstrap_servers=cluster.bootstrap_servers) as consumer:
        (end,) = consumer.end_offsets([TopicPartition(topic, 0)]).values()
    count = 0
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while consumer.position(TopicPartition(topic, 0)) < end:
            count += len(consumer.poll(0.2))
    rows, wrong = folded(cluster, topic, count)
    assert not wrong
    assert sorted((row["id"], row["v"]) for row in rows.values()) == [
        (int(one or ""), int(v or "")) for one, v in database.rows("SELECT id, v FROM numbers ORDER BY id")
    ]


@pytest.mark.timeout(400)
def test_a_capture_that_is_killed_loses_and_repeats_nothing(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """Killed with -9 while rows change, and they go on changing while nobody looks. Another driver goes on, with what
    the first has left: its checkpoint, its spool, and the slot."""
    topic = cluster.create_topic(new_topic("killed-capture"))
    database.run(
        "CREATE TABLE numbers (id int PRIMARY KEY, v int)",
        "INSERT INTO numbers SELECT x, 0 FROM generate_series(1, 300) x",
    )
    file = tmp_path / "killed.yaml"
    where = database.address
    file.write_text(
        KILLED.format(
            host=where.host, port=where.port, database=where.database, user=where.user, topic=topic,
            servers=cluster.bootstrap_servers,
        )
    )  # fmt: skip
    home = Home("killed-capture", tmp_path / "ottla" / "pipelines")
    writer = Writer(database, seed=1)
    try:
        first = Running(file, tmp_path)
        try:
            told = [first.next() for _ in range(4)]
            first.process.kill()
        finally:
            first.close()
        assert sum(event["records"] for event in told) >= 300
        before = writer.transactions
        eventually(lambda: writer.transactions > before + 20, "more changes", 30)
        assert run(load(file), spark, once=True, home=home).status == "done"
    finally:
        writer.stop()
    assert run(load(file), spark, once=True, home=home).status == "done"
    everything(cluster, topic, database)


@soak
@pytest.mark.timeout(3000)
def test_a_capture_that_is_killed_again_and_again_loses_and_repeats_nothing(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    """At drawn moments: while Spark starts, in the snapshot, in micro-batches, and while the server ends walsenders."""
    seed = int(os.environ.get("OTTLA_SEED", "1"))
    source = random.Random(seed)
    topic = cluster.create_topic(new_topic("killed-often"))
    database.run(
        "CREATE TABLE numbers (id int PRIMARY KEY, v int)",
        "INSERT INTO numbers SELECT x, 0 FROM generate_series(1, 300) x",
    )
    file = tmp_path / "killed.yaml"
    where = database.address
    file.write_text(
        KILLED.format(
            host=where.host, port=where.port, database=where.database, user=where.user, topic=topic,
            servers=cluster.bootstrap_servers,
        )
    )  # fmt: skip
    home = Home("killed-capture", tmp_path / "ottla" / "pipelines")
    writer = Writer(database, seed)
    active = f"pg_replication_slots WHERE database = '{where.database}' AND active"
    ended = f"SELECT pg_terminate_backend(active_pid) FROM {active}"
    try:
        for _ in range(10):
            running = Running(file, tmp_path)
            try:
                deadline = time.monotonic() + source.uniform(3, 35)
                while time.monotonic() < deadline and running.process.poll() is None:
                    time.sleep(source.uniform(0.2, 3))
                    if source.random() < 0.2:
                        database.run(ended)
                assert running.process.poll() is None, (tmp_path / "run.log").read_text()[-3000:]
                running.process.kill()
            finally:
                running.close()
        assert run(load(file), spark, once=True, home=home).status == "done"
    finally:
        writer.stop()
    assert run(load(file), spark, once=True, home=home).status == "done"
    everything(cluster, topic, database)


@soak
def test_several_tables_go_to_topics_of_their_own(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    database.run(
        'CREATE TABLE one (id int PRIMARY KEY, price numeric(5,2)); CREATE SCHEMA "odd name";'
        'CREATE TABLE "odd name".two (a int, b text, PRIMARY KEY (b, a)); CREATE TABLE three (v int)',
        "INSERT INTO one VALUES (1, 1.50); INSERT INTO \"odd name\".two VALUES (1, 'x'); INSERT INTO three VALUES (5)",
    )
    name = new_topic("several")
    topics = [cluster.create_topic(f"{name}.{one}") for one in ("public.one", "odd_name.two", "public.three")]
    pipeline = to_topic(
        database, cluster, "several", **{"table-include-list": r"public\..*, odd name\.two", "topic-prefix": name}
    )
    assert once(pipeline, spark, tmp_path).records == 3
    database.run('BEGIN; UPDATE one SET price = 2; DELETE FROM "odd name".two; COMMIT')
    assert once(pipeline, spark, tmp_path).records == 3
    one, two, three = (
        received(cluster.bootstrap_servers, topic, count) for topic, count in zip(topics, (2, 3, 1), strict=True)
    )
    assert [record.key for record in (*one, *two, *three)] == [b'{"id":1}'] * 2 + [b'{"b":"x","a":1}'] * 3 + [None]
    assert [json.loads(record.value or b"null") and json.loads(record.value or b"")["op"] for record in two] == [
        "r", "d", None,
    ]  # fmt: skip
    assert b'"after":{"id":1,"price":1.50}' in (one[0].value or b""), "no digit is lost"
    first, second = json.loads(one[1].value or b"")["source"], json.loads(two[1].value or b"")["source"]
    assert first["txId"] == second["txId"]
    assert (second["schema"], second["table"]) == ("odd name", "two")


@soak
@pytest.mark.parametrize("sink", ["topic", "json"])
def test_values_without_a_place_make_bad_records(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path, sink: str
) -> None:
    """NaN of a numeric, a date without end, and a text that an update did not touch, which stays where it was. With
    files as the sink the dead letters have a query of their own, and a change goes when both have it."""
    topic, letters = cluster.create_topic(new_topic("odd")), cluster.create_topic(new_topic("odd-dead"))
    database.run(
        "CREATE TABLE odd (id int PRIMARY KEY, price numeric(9,2), day date, note text, name text)",
        "ALTER TABLE odd ALTER note SET STORAGE EXTERNAL",
        "INSERT INTO odd VALUES (1, 'NaN', NULL, NULL), (2, 1, 'infinity', NULL), (3, 1.5, NULL, repeat('x', 5000))",
    )  # fmt: skip
    options = {"table-include-list": "public.odd"}
    servers = {"bootstrap.servers": cluster.bootstrap_servers}
    sinks = {
        "topic": {"type": "topic", "topic": topic, **servers},
        "json": {"type": "json", "path": str(tmp_path / "o")},
    }
    pipeline = Pipeline(
        f"odd-{sink}", source={**database.source, **options}, transforms=[{"ExtractNewRecordState": {}}],
        sink=sinks[sink], errors="dead-letter", dead_letter={"topic": letters, **servers},
    )  # fmt: skip
    home = Home(pipeline.name, tmp_path)
    assert once(pipeline, spark, tmp_path).bad == 2
    assert files(home.spool) == []
    database.run("UPDATE odd SET name = 'new' WHERE id = 3")
    assert once(pipeline, spark, tmp_path).bad == 1
    assert files(home.spool) == []
    if sink == "topic":
        (good,) = received(cluster.bootstrap_servers, topic, 1)
        assert good.key == b'{"id":3}'
    else:
        assert [row.id for row in spark.read.json(str(tmp_path / "o")).collect()] == [3]
    told = [
        (json.loads(one.key or b"")["id"], dict(one.headers)["__connect.errors.exception.message"])
        for one in received(cluster.bootstrap_servers, letters, 3)
    ]
    assert sorted(told) == [
        (1, b"a value has no place in its type: after.price is no decimal(9,2)"),
        (2, b"a value has no place in its type: after.day is no date"),
        (3, b"PostgreSQL has not sent what an update left as it was: note. `ALTER TABLE ... REPLICA IDENTITY FULL` "
            b"lets it send TOASTed values, and for text `unavailable-value-placeholder` stands in"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("handling", "expected"),
    [
        ("tombstone", [(1, {"id": 1, "v": 0}), (1, {"id": 1, "v": 1}), (1, None)]),
        ("drop", [(1, {"id": 1, "v": 0}), (1, {"id": 1, "v": 1})]),
        (
            "rewrite",
            [
                (1, {"id": 1, "v": 0, "__deleted": "false"}), (1, {"id": 1, "v": 1, "__deleted": "false"}),
                (1, {"id": 1, "v": None, "__deleted": "true"}),
            ],
        ),
        (
            "rewrite-with-tombstone",
            [
                (1, {"id": 1, "v": 0, "__deleted": "false"}), (1, {"id": 1, "v": 1, "__deleted": "false"}),
                (1, {"id": 1, "v": None, "__deleted": "true"}), (1, None),
            ],
        ),
        ("delete-to-tombstone", [(1, {"id": 1, "v": 0}), (1, {"id": 1, "v": 1}), (1, None)]),
    ],
)  # fmt: skip
def test_a_deletion_becomes_what_is_said(spark: SparkSession, handling: str, expected: list[Any]) -> None:
    """As Debezium's transform does it, over the envelopes of an insertion, an update, a deletion and its tombstone."""
    from pyspark.sql import functions as F

    from ottla.pipelines.connect import record, transforms

    pipeline = Pipeline(
        "unwrapped",
        source={"type": "postgresql-cdc", "database-hostname": "x", "database-dbname": "x", "database-user": "x",
                "table-include-list": "x"},
        transforms=[{"io.debezium.transforms.ExtractNewRecordState": {"delete.tombstone.handling.mode": handling}}],
        sink={"type": "json", "path": "/nowhere"},
    )  # fmt: skip
    row = "STRUCT<id: INT, v: INT>"
    rows = [
        (0, None, (1, 0), "c", False), (1, None, (1, 1), "u", False), (2, (1, None), None, "d", False),
        (3, None, None, None, True), (4, None, None, "t", False),
    ]  # fmt: skip
    schema = f"number INT, before {row}, after {row}, op STRING, gone BOOLEAN"
    df = spark.createDataFrame(rows, schema).coalesce(1)
    meta = record.meta(offset=F.col("number"), key=F.lit(b"1"), is_tombstone=F.col("gone"))
    made = transforms.apply(df.select("before", "after", "op", meta.alias(record.META)), pipeline)
    found = made.orderBy(f"{record.META}.offset").collect()
    names = record.names(made)
    told = [(1, None if one[record.META].is_tombstone else {name: one[name] for name in names}) for one in found]
    assert told == expected


@soak
def test_a_reset_begins_anew_with_another_slot(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("reset"))
    database.run("CREATE TABLE numbers (id int PRIMARY KEY, v int)", "INSERT INTO numbers VALUES (1, 0)")
    where = database.address
    file = tmp_path / "reset.yaml"
    text = KILLED.replace("killed-capture", "reset-capture").format(
        host=where.host, port=where.port, database=where.database, user=where.user, topic=topic,
        servers=cluster.bootstrap_servers,
    )  # fmt: skip
    file.write_text(text)
    home = Home("reset-capture", tmp_path)
    assert run(load(file), spark, once=True, home=home, file=str(file)).records == 1
    slot = f"SELECT slot_name FROM pg_replication_slots WHERE database = '{where.database}'"
    assert database.rows(slot) == [["ottla_reset_capture"]]

    # A slot that is not there any more, and a spool without its checkpoint, are told.
    (home.spool).rename(tmp_path / "kept")
    with pytest.raises(PipelineError, match="is there already, and this pipeline has not made it"):
        run(load(file), spark, once=True, home=home, file=str(file))
    (tmp_path / "kept").rename(home.spool)
    (home.checkpoint).rename(tmp_path / "kept")
    with pytest.raises(PipelineFailed, match=r"the spool .* has no record 0, which the checkpoint goes on with"):
        run(load(file), spark, once=True, home=home, file=str(file))
    (tmp_path / "kept").rename(home.path / "another")

    found = belongings(home)
    assert found.slot is not None
    found.reset()
    assert database.rows(slot) == []
    assert database.rows("SELECT * FROM pg_publication") == []
    assert run(load(file), spark, once=True, home=home, file=str(file)).records == 1
    belongings(home).delete()
    assert database.rows(slot) == []
    assert not home.path.exists()


def test_a_running_pipeline_tells_its_lag_and_ends_with_its_schema(
    spark: SparkSession, cluster: Cluster, database: Database, tmp_path: Path
) -> None:
    topic = cluster.create_topic(new_topic("lag"))
    database.run("CREATE TABLE numbers (id int PRIMARY KEY, v int)", "INSERT INTO numbers VALUES (1, 0)")
    pipeline = to_topic(database, cluster, "lag", topic, **{"table-include-list": "public.numbers"})
    home = Home(pipeline.name, tmp_path)
    batches: list[Batch] = []

    def add(batch: Batch) -> None:
        batches.append(batch)
        if len(batches) == 1:
            database.run("INSERT INTO numbers VALUES (2, 0)")
        elif len(batches) == 2:
            database.run("INSERT INTO numbers VALUES (3, 0)", "ALTER TABLE numbers ALTER v TYPE text")
            database.run("INSERT INTO numbers VALUES (4, 'x')")

    with pytest.raises(PipelineFailed, match=r"the column v of public.numbers was int4 and is text: start"):
        run(pipeline, spark, home=home, on_batch=add)
    assert [one["after"]["id"] for one in values(cluster, topic, 3)] == [1, 2, 3], "what came before was written"
    assert batches[-1].slot_lag_bytes is not None
    assert "slot lag" in batches[-1].line
    assert batches[-1].lag == 0
    once(pipeline, spark, tmp_path)
    assert [one["after"]["v"] for one in values(cluster, topic, 4)] == [0, 0, 0, "x"]
    with pytest.raises(SpecError, match=r"source.table-include-list: there is no table public.none"):
        once(to_topic(database, cluster, "none", topic, **{"table-include-list": "public.none"}), spark, tmp_path)

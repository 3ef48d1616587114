"""SQL from end to end: scripts through `ottla sql` against a broker, and their results beside a model's in Python."""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.client import Consumer, Producer
from ottla.pipelines.sql.catalog import Catalog
from ottla.pipelines.sql.cluster import Cluster as SqlCluster
from ottla.pipelines.sql.engine import Answer, Engine
from ottla.pipelines.sql.errors import SqlError
from ottla.pipelines.sql.parser import parse
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.support.schema_registry import fake_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine
MINUTE_MS = 60_000
BEGAN_MS = (int(time.time()) // 3600 - 1) * 3_600_000
"""Old enough for all, and too young for any retention."""


def sql(cluster: Cluster, home: Path, *statements: str) -> list[dict[str, Any]]:
    """What a script prints, each query over what there is."""
    words = ["sql", "--bootstrap-server", cluster.bootstrap_servers, "--catalog", str(home), "--once"]
    words += ["--output", "json", *(word for statement in statements for word in ("-e", statement))]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(cluster: Cluster, home: Path, *statements: str) -> str:
    words = ["sql", "--bootstrap-server", cluster.bootstrap_servers, "--catalog", str(home), "--once"]
    words += [word for statement in statements for word in ("-e", statement)]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.splitlines()
    return line


def written(cluster: Cluster, topic: str) -> list[tuple[bytes | None, Any, int]]:
    """The committed records of a topic: key, JSON value, time."""
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        (end,) = consumer.end_offsets([place]).values()
        found = []
        while consumer.position(place) < end:
            found += consumer.poll(0.2)
    return [(one.key, None if one.value is None else json.loads(one.value), one.timestamp) for one in found]


def orders(count: int, first: int, seed: int) -> list[dict[str, Any]]:
    """Orders whose times go back and forth by up to half a minute, and one in twenty by minutes."""
    chance = random.Random(seed)
    made = []
    for number in range(first, first + count):
        late = chance.randrange(5 * MINUTE_MS) if chance.random() < 0.05 else chance.randrange(MINUTE_MS // 2)
        customer = chance.choice(["ann", "bo", "cy", None])
        at = BEGAN_MS + number * 4_000 - late
        made.append({"id": number, "customer": customer, "amount": chance.randrange(100) / 2, "at": at})
    return made


def send(cluster: Cluster, topic: str, rows: list[dict[str, Any]], key: str, at: str) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for row in rows:
            value = {name: cell for name, cell in row.items() if name not in (key, at)}
            name = row[key]
            data = name.to_bytes(8) if isinstance(name, int) else name.encode()
            producer.send(topic, json.dumps(value).encode(), key=data, timestamp_ms=row[at])


def windowed(rows: list[dict[str, Any]], size_ms: int, grace_ms: int) -> dict[tuple[str, int], tuple[int, float]]:
    """Kafka Streams' windowed count and sum: a record is late when its window ended a grace before stream time."""
    stream_time, found = -1, defaultdict[tuple[str, int], tuple[int, float]](lambda: (0, 0.0))
    for row in rows:
        if row["customer"] is None:
            continue
        stream_time = max(stream_time, row["at"])
        start = row["at"] - row["at"] % size_ms
        if start + size_ms > stream_time - grace_ms:
            count, total = found[row["customer"], start]
            found[row["customer"], start] = (count + 1, total + row["amount"])
    return dict(found)


def test_a_scripts_queries_have_the_results_of_a_model_and_go_on_where_they_were(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    rows = orders(80, 0, seed=1)
    cluster.create_topic("sql.orders", 1)
    send(cluster, "sql.orders", rows, "id", "at")
    script = [
        "CREATE STREAM orders (id BIGINT KEY, customer STRING, amount DOUBLE)"
        " WITH (KAFKA_TOPIC = 'sql.orders', VALUE_FORMAT = 'JSON')",
        "CREATE TABLE people (name STRING PRIMARY KEY, city STRING)"
        " WITH (KAFKA_TOPIC = 'sql.people', VALUE_FORMAT = 'JSON', PARTITIONS = 1)",
        "INSERT INTO people (name, city, ROWTIME) VALUES ('ann', upper('oslo'), 5), ('bo', 'ROME', 5), ('cy', NULL, 5)",
        "CREATE STREAM big WITH (KAFKA_TOPIC = 'sql.big') AS SELECT id, upper(customer) AS who, amount * 2 AS twice"
        " FROM orders WHERE amount > 40",
        "INSERT INTO big WITH (QUERY_ID = 'nobody') SELECT id, 'nobody' AS who, amount AS twice FROM orders o"
        " WHERE o.customer IS NULL",
        "CREATE TABLE minutes WITH (KAFKA_TOPIC = 'sql.minutes') AS SELECT customer, COUNT(*) AS n,"
        " SUM(amount) AS total, WINDOWSTART AS began FROM orders"
        " WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 30 SECONDS) WHERE customer IS NOT NULL GROUP BY customer",
        "CREATE STREAM placed WITH (KAFKA_TOPIC = 'sql.placed') AS SELECT o.customer, o.id, p.city FROM orders o"
        " JOIN people p ON o.customer = p.name WHERE o.amount < 10",
    ]
    sql(cluster, tmp_path, *script)
    more = orders(60, 80, seed=2)
    send(cluster, "sql.orders", more, "id", "at")
    told = sql(cluster, tmp_path, "RESUME ALL", "SHOW QUERIES", "SELECT customer, WINDOWSTART AS w, n FROM minutes")
    whole = rows + more
    latest = sql(cluster, tmp_path, "SET 'auto.offset.reset' = 'latest'", "SELECT id FROM orders EMIT CHANGES")
    assert latest == [{"message": "auto.offset.reset is latest."}]
    earliest = sql(cluster, tmp_path, "SELECT id, ROWTIME AS t FROM orders WHERE id >= 80 EMIT CHANGES")
    assert earliest == [{"id": one["id"], "t": one["at"]} for one in more]

    big = [
        (one["id"].to_bytes(8), {"who": one["customer"].upper(), "twice": one["amount"] * 2}, one["at"])
        for one in whole
        if one["amount"] > 40 and one["customer"]
    ]
    big += [(one["id"].to_bytes(8), {"twice": one["amount"] * 2}, one["at"]) for one in whole
            if one["amount"] > 40 and not one["customer"]]  # fmt: skip
    big += [(one["id"].to_bytes(8), {"who": "nobody", "twice": one["amount"]}, one["at"]) for one in whole
            if not one["customer"]]  # fmt: skip
    by_id = sorted(big, key=lambda one: (one[0] or b"", one[1]["twice"], one[1].get("who", "")))
    assert (
        sorted(written(cluster, "sql.big"), key=lambda one: (one[0] or b"", one[1]["twice"], one[1].get("who", "")))
        == by_id
    )

    model = windowed(whole, MINUTE_MS, 30_000)
    known = sum(1 for one in whole if one["customer"])
    assert sum(count for count, _ in model.values()) < known, "some are late"
    last = {key: value for key, value, _ in written(cluster, "sql.minutes")}
    assert last == {
        name.encode() + start.to_bytes(8): {"n": count, "total": total, "began": start}
        for (name, start), (count, total) in model.items()
    }
    shown = {(row["customer"], row["w"]): row["n"] for row in told if "w" in row}
    assert shown == {key: count for key, (count, _) in model.items()}

    cities = {"ann": "OSLO", "bo": "ROME", "cy": None}
    placed = sorted(
        (one["customer"].encode(), one["id"], cities[one["customer"]])
        for one in whole
        if one["customer"] and one["amount"] < 10
    )
    found = written(cluster, "sql.placed")
    assert sorted((key or b"", value["id"], value.get("city")) for key, value, _ in found) == placed
    assert [(row["query"], row["status"]) for row in told if "query" in row] == [
        ("CSAS_BIG_1", "STOPPED"),
        ("nobody", "STOPPED"),
        ("CTAS_MINUTES_2", "STOPPED"),
        ("CSAS_PLACED_3", "STOPPED"),
    ]


def test_queries_that_go_on_are_shown_paused_resumed_and_ended(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    engine = Engine(Catalog(tmp_path), SqlCluster(cluster.bootstrap_servers, {}), session=lambda: spark)

    def run(text: str) -> list[Answer]:
        return [answer for statement in parse(text) for answer in engine.run(statement)]

    def status() -> list[list[Any]]:
        (answer,) = run("SHOW QUERIES")
        return [row[:3] for row in answer.rows]

    create = "CREATE STREAM IF NOT EXISTS copied WITH (KAFKA_TOPIC = 'sql.copied') AS SELECT k, v + 1 AS w FROM numbers"
    try:
        run(
            "CREATE STREAM numbers (k STRING KEY, v INT) WITH (TOPIC='sql.numbers', FORMAT='KAFKA', PARTITIONS=1);"
            "INSERT INTO numbers VALUES ('a', 1);"
            f"{create};"
        )
        (answer,) = run("SELECT k, w FROM copied EMIT CHANGES LIMIT 1")
        assert answer.columns == ("k", "w")
        assert list(answer.rows) == [["a", 2]], "it comes while the query goes on"
        assert status() == [["CSAS_COPIED_1", "RUNNING", "copied"]]
        assert Catalog(tmp_path).is_run_elsewhere, "as another process sees it"
        with pytest.raises(SqlError, match="the query CSAS_COPIED_1 reads numbers: TERMINATE CSAS_COPIED_1 first"):
            run("DROP STREAM numbers")
        run("PAUSE CSAS_COPIED_1")
        assert status() == [["CSAS_COPIED_1", "PAUSED", "copied"]]
        run("INSERT INTO numbers VALUES ('b', 2)")
        (answer,) = run("SELECT * FROM copied")
        assert (answer.columns, list(answer.rows)) == (("k", "w"), [["a", 2]])
        with pytest.raises(SqlError, match="copied was created by another statement"):
            run(create.replace("+ 1", "+ 2"))
        run(create)
        assert status() == [["CSAS_COPIED_1", "RUNNING", "copied"]], "the same statement goes on with it"
        (answer,) = run("SELECT k, w FROM copied EMIT CHANGES LIMIT 2")
        assert sorted(answer.rows) == [["a", 2], ["b", 3]]
        (answer,) = run("SELECT * FROM copied EMIT CHANGES")
        rows = iter(answer.rows)
        assert sorted([next(rows), next(rows)]) == [["a", 2], ["b", 3]]
        engine.interrupt()
        with pytest.raises(KeyboardInterrupt):
            next(rows)
        assert status() == [["CSAS_COPIED_1", "RUNNING", "copied"]], "it is the SELECT that is interrupted"
        run("TERMINATE ALL; DROP STREAM copied DELETE TOPIC; DROP STREAM numbers")
        assert not (tmp_path / "checkpoints" / "CSAS_COPIED_1").exists()
        assert "sql.copied" not in [name for name, *_ in SqlCluster(cluster.bootstrap_servers, {}).topics()]
    finally:
        engine.close()


def test_avro_by_a_registry_and_what_spark_refuses(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    with fake_registry() as registry:
        told = sql(
            cluster,
            tmp_path,
            f"SET 'schema.registry.url' = '{registry.url}'",
            "CREATE STREAM trips (id INT KEY, place STRING, legs ARRAY<INT>)"
            " WITH (KAFKA_TOPIC = 'sql.trips', VALUE_FORMAT = 'AVRO', PARTITIONS = 1)",
            "INSERT INTO trips VALUES (1, 'Oslo', array(1, 2)), (2, 'Bern', NULL)",
            "CREATE STREAM again WITH (KAFKA_TOPIC = 'sql.trips', VALUE_FORMAT = 'AVRO')",
            "SELECT id, place, size(legs) AS n FROM trips ORDER BY id",
            "SELECT place FROM again ORDER BY place",
        )
    assert [row for row in told if "n" in row] == [
        {"id": 1, "place": "Oslo", "n": 2},
        {"id": 2, "place": "Bern", "n": None},
    ]
    assert [row["place"] for row in told if set(row) == {"place"}] == ["Bern", "Oslo"]
    wrong = refused(cluster, tmp_path, "SELECT place, plaec FROM trips")
    assert wrong == "--execute: line 1: trips has values in AVRO: name the registry with --schema-registry"
    create = "CREATE STREAM s (place STRING) WITH (TOPIC = 'sql.trips', VALUE_FORMAT = 'DELIMITED')"
    wrong = refused(cluster, tmp_path, create, "SELECT plaec FROM s")
    assert wrong.startswith("--execute: line 2: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function")
    assert wrong.endswith("Did you mean one of the following? [`place`].")

"""Topologies on a real Spark: in the driver, against a broker, and both alike."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from json import dumps
from json import loads as parse
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from ottla.cli.main import main
from ottla.client import Admin, Consumer, NewPartitions, NewTopic, Producer
from ottla.pipelines import PipelineError
from ottla.pipelines.streams import (
    JoinWindows,
    RecordError,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
    aggregates,
    json,
    python,
)
from ottla.pipelines.streams.compiler.columns import decode, encode
from ottla.pipelines.streams.compiler.state_format import AGGREGATES, StateFormat
from ottla.pipelines.streams.planning import has_state, plan
from ottla.pipelines.streams.reset import plan_reset
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.stores import other_scales, rescale, rescale_topology
from ottla.testing import Cluster
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine

SHUFFLE = "spark.sql.shuffle.partitions"
Records = list[tuple[bytes | None, bytes | None]]
NEAR = JoinWindows.of_time_difference(10)


def test_records_one_at_a_time(spark: SparkSession) -> None:
    """One query with six ends: branch, merge, map with Python, flat_map, filter_not, peek, numbers as bytes; headers
    go along."""
    builder = StreamsBuilder()
    numbers = builder.stream("in").peek(python(lambda key, value: None)).map_values("cast(value AS INT)")
    big, small, rest = numbers.branch("value > 100", lambda value: value > 10)
    big.to("big")
    small.map(key="concat('s', key)", value=python(lambda value: value * 2, "int")).to("small")
    rest.merge(big).map_values("cast(value AS STRING)").to("merged")
    pair = F.array(*(F.struct(F.lit(name).alias("key"), F.col("value")) for name in "xy"))
    numbers.to_table().to_stream().to("rows")
    numbers.flat_map(lambda key, value: pair).filter_not("key = 'x'").to("flat", value="long")
    with TopologyTestDriver(builder.build("stateless"), spark) as driver:
        records = driver.input_topic("in")
        for key, value in (("a", "5"), ("b", "50"), ("c", "500"), ("d", "-7"), (None, "9")):
            records.pipe_input(key, value, 7, headers=(("from", key.encode()), ("null", None)) if key == "b" else ())
        assert driver.output_topic("big", value="integer").read_records() == [("c", 500)]
        headers = (("from", b"b"), ("null", None))
        assert driver.output_topic("small", value="integer").read_full_records() == [("sb", 100, headers, 7)]
        merged = [("a", "5"), ("c", "500"), ("d", "-7"), (None, "9")]
        assert sorted(driver.output_topic("merged").read_records(), key=str) == sorted(merged, key=str)
        rows = driver.output_topic("rows", value="integer").read_to_map()
        assert rows == {"a": 5, "b": 50, "c": 500, "d": -7}, "what has no key is no row"
        flat = driver.output_topic("flat", value="long").read_values()
        assert flat == [5, 50, 500, -7, 9]


def test_tables_and_their_joins(spark: SparkSession) -> None:
    builder = StreamsBuilder()
    people, cities = builder.table("people", value=json("name STRING, city STRING")), builder.table("cities")
    join = "concat(left.name, ' of ', right)"
    people.join(cities, join, foreign_key="value.city").to_stream().to("homes")
    people.left_join(builder.table("notes"), "concat_ws(':', left.name, right)").to_stream().to("noted")
    visits = builder.stream("visits")
    visits.join(builder.global_table("places"), "concat(left, '@', right)", key=lambda visit: visit).to("placed")
    with TopologyTestDriver(builder.build("tables"), spark) as driver:
        person = driver.input_topic("people", value="json")
        city, note, visit = (driver.input_topic(name) for name in ("cities", "notes", "visits"))
        homes, noted, placed = (driver.output_topic(name) for name in ("homes", "noted", "placed"))
        driver.input_topic("places").pipe_input("x", "there")
        city.pipe_input("b", "Bern", 1)
        person.pipe_input("1", {"name": "Ada", "city": "b"}, 2)
        person.pipe_input("2", {"name": "Bo", "city": "nowhere"}, 2)
        note.pipe_input("1", "new", 3)
        visit.pipe_input("1", "x", 4)
        visit.pipe_input("1", "nowhere", 5)
        assert homes.read_to_map() == {"1": "Ada of Bern"}, "nobody has to be told that the other has no home"
        assert noted.read_to_map() == {"1": "Ada:new", "2": "Bo"}
        assert placed.read_records() == [("1", "x@there")]
        # The row moves to another city in the batch in which its old one changes: the old one's word is not the last.
        person.pipe_input("1", {"name": "Ada", "city": "c"}, 6)
        city.pipe_input("b", "Berne", 7)
        city.pipe_input("c", "Chur", 8)
        note.pipe_input("1", None, 9)
        assert homes.read_to_map() == {"1": "Ada of Chur"}
        assert noted.read_to_map() == {"1": "Ada"}
        person.pipe_input("1", None, 10)
        assert homes.read_to_map() == {"1": None}
        assert noted.read_to_map() == {"1": None}


def test_a_grouped_table_follows_its_rows_from_group_to_group(spark: SparkSession) -> None:
    """Of one grouping: named aggregates in Spark's own operators, and Python functions in tasks."""
    builder = StreamsBuilder()
    people = builder.table("people", value=json("team STRING, points INT"))
    teams = people.filter("value.points >= 0").group_by("value.team", "value.points")
    named = teams.aggregate(total=aggregates.sum(), mean=aggregates.mean(), many=aggregates.count())
    named.to_stream().to("totals")
    adder = python(lambda key, points, so_far: sorted([*so_far, points]), "array<int>")
    subtractor = python(lambda key, points, so_far: so_far[: so_far.index(points)] + so_far[so_far.index(points) + 1 :])
    teams.aggregate(initial=[], adder=adder, subtractor=subtractor).to_stream().to("lists")
    with TopologyTestDriver(builder.build("teams"), spark, partitions=2) as driver:
        person = driver.input_topic("people", value="json")
        totals, lists = (driver.output_topic(name, value="json") for name in ("totals", "lists"))
        for at, (who, team, number) in enumerate((("a", "x", 1), ("b", "x", 2), ("c", "y", 3), ("a", "x", 4))):
            person.pipe_input(who, {"team": team, "points": number}, at)
        person.pipe_input(None, {"team": "x", "points": 100}, 5)  # a row without a key is none
        assert totals.read_to_map() == {
            "x": {"total": 6, "mean": 3.0, "many": 2}, "y": {"total": 3, "mean": 3.0, "many": 1},
        }  # fmt: skip
        assert lists.read_to_map() == {"x": [2, 4], "y": [3]}
        person.pipe_input("b", {"team": "y", "points": 3}, 10)
        person.pipe_input("a", {"team": "x", "points": -1}, 11)  # filtered out of the table, and so out of its team
        person.pipe_input("c", None, 12)
        assert totals.read_to_map() == {"x": {"total": 0, "many": 0}, "y": {"total": 3, "mean": 3.0, "many": 1}}
        assert lists.read_to_map() == {"x": [], "y": [3]}


def test_streams_with_values_of_several_types_grow_one_table(spark: SparkSession) -> None:
    """One of them has its keys moved, so all are told apart by their keys and not by their partitions."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=json("customer STRING, amount INT")).group_by("value.customer")
    paid = builder.stream("paid", value="long").group_by_key()
    owes = python(lambda key, order, so_far: {**so_far, "owes": so_far["owes"] + order["amount"]}, "owes INT, n INT")
    pays = python(lambda key, n, so_far: {"owes": so_far["owes"] - n, "n": so_far["n"] + 1}, "owes INT, n INT")
    both = orders.cogroup(owes).cogroup(paid, pays)
    both.aggregate({"owes": 0, "n": 0}, name="accounts").to_stream().to("accounts")
    both.windowed_by(TimeWindows.of_size(10)).aggregate({"owes": 0, "n": 0}).suppress().to_stream().to("windows")
    with TopologyTestDriver(builder.build("accounts"), spark, partitions=2) as driver:
        order, payment = driver.input_topic("orders", value="json"), driver.input_topic("paid", value="long")
        order.pipe_input("1", {"customer": "ann", "amount": 30}, 1)
        payment.pipe_input("ann", 10, 2)
        order.pipe_input("2", {"customer": "bo", "amount": 5}, 3)
        accounts = driver.output_topic("accounts", value="json")
        assert accounts.read_to_map() == {"ann": {"owes": 20, "n": 1}, "bo": {"owes": 5, "n": 0}}
        payment.pipe_input("ann", 20, 15)
        assert accounts.read_to_map() == {"ann": {"owes": 0, "n": 2}}
        windows = driver.output_topic("windows", value="json", windows="time")
        assert windows.read_to_map() == {Windowed("ann", 0): {"owes": 20, "n": 1}}
        changelog = driver.output_topic("accounts-accounts-changelog", value="json")
        assert changelog.read_to_map() == {"ann": {"owes": 0, "n": 2}, "bo": {"owes": 5, "n": 0}}


def test_records_go_to_the_topic_that_they_name_once_each_and_one_that_is_not_there_fails(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """The topics have several numbers of partitions. What failed for want of a topic is written when it is there."""
    for topic, partitions in (("named", 2), ("named-a", 3), ("named-b", 1), ("named-all", 2)):
        cluster.create_topic(topic, partitions)
    values = [f"{name}{number}" for number in range(20) for name in "ab"]
    builder = StreamsBuilder()
    named = builder.stream("named")
    named.to(lambda value: F.concat(F.lit("named-"), F.substr(value, F.lit(1), F.lit(1))))
    named.to("named-all")
    topology = builder.build("naming")

    def run(*more: str) -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for value in more:
                producer.send("named", value.encode(), key=value[1:].encode() or None)
        checkpoint = str(tmp_path / "naming")
        topology.start(spark, cluster.bootstrap_servers, checkpoint=checkpoint, available_now=True).stop()

    run(*values, "a", "b")
    with pytest.raises(RecordError, match="Production failed: topic named-c does not exist"):
        run("a20", "c20", "b20")
    cluster.create_topic("named-c", 4)
    run()
    topics = ("named-a", "named-b", "named-c", "named-all")
    found = {topic: [(value or b"").decode() for _, value in received(cluster, topic)] for topic in topics}
    wanted = [*values, "a", "b", "a20", "c20", "b20"]
    for name in "abc":
        assert sorted(found[f"named-{name}"]) == sorted(value for value in wanted if value[0] == name)
    assert sorted(found["named-all"]) == sorted(wanted)


def test_a_pattern_stands_for_the_topics_that_match_it_also_for_those_that_come_later(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("logs-(a|b|c)")).group_by_key().count(name="many").to_stream().to("log-counts")
    topology = builder.build("logs")
    with TopologyTestDriver(topology, spark) as driver:
        for topic in ("logs-a", "logs-d", "more-logs-a", "logs-b"):
            driver.input_topic(topic).pipe_input("k", "v")
        assert driver.output_topic("log-counts", value="long").read_to_map() == {"k": 2}
        driver.input_topic("logs-c").pipe_input("k", "v")
        assert driver.output_topic("log-counts", value="long").read_to_map() == {"k": 3}
    cluster.create_topic("log-counts")

    def send(topic: str) -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send(topic, b"v", key=b"k")

    def counts() -> list[int]:
        return [int.from_bytes(value or b"") for _, value in received(cluster, "log-counts")]

    for topic in ("logs-a", "logs-aa"):
        cluster.create_topic(topic, 2)
        send(topic)
    checkpoint = str(tmp_path / "logs")
    topology.start(spark, cluster.bootstrap_servers, checkpoint=checkpoint, available_now=True).stop()
    assert counts() == [1]
    cluster.create_topic("logs-b")
    send("logs-b")
    with topology.start(spark, cluster.bootstrap_servers, checkpoint=checkpoint) as running:
        running.process_all_available()
        assert counts() == [1, 2], "a topic that came while the topology stood still"
        cluster.create_topic("logs-c", 3)
        send("logs-c")
        deadline = time.monotonic() + 60
        while len(counts()) < 3 and time.monotonic() < deadline:
            running.process_all_available()
    assert counts() == [1, 2, 3], "and one that came while it ran"


def shop(*, grown: bool = False, factor: int = 1) -> Topology:
    """Something of everything that remembers. When it has grown, there are steps in front that shift all numbers."""
    builder = StreamsBuilder()
    lines = builder.stream("lines")
    if grown:
        lines = lines.filter("value <> 'never said'").peek(python(len, "int"))
    words = lines.flat_map_values("split(value, ' ')").group_by("value")
    words.count(name="counts").to_stream().to("word-counts")
    windows = TimeWindows.of_size(10, grace=5)
    per_window = lines.group_by_key().windowed_by(windows).late_to("late").count(named="per-window")
    per_window.suppress(name="closed").to_stream().to("final")
    totals = lines.map_values("cast(length(value) AS INT)").repartition(partitions=2, name="lengths").group_by_key()
    totals.reduce(python(lambda so_far, n: so_far + n * factor, "int"), named="total").to_stream().to("lengths")
    within = JoinWindows.of_time_difference(3)
    joiner = "concat(left, '|', coalesce(right, ''))"
    lines.left_join(builder.stream("others"), joiner, within, name="pairs").to("joined")
    return builder.build("shop")


OUTPUTS = ["word-counts", "final", "late", "lengths", "joined"]
FIRST = {
    "lines": [("a", "x y", 0), ("b", "y", 4), ("a", "z", 12), ("a", "x", 3), ("b", "x x", 31), ("a", "late", 2)],
    "others": [("a", "o1", 2), ("b", "o2", 30)],
}
SECOND = {"lines": [("a", "x", 60), ("b", "y y", 61)], "others": [("a", "o3", 59)]}


def last_values(records: Records) -> dict[bytes | None, bytes | None]:
    return dict(records)


def same(topic: str, left: Records, right: Records) -> bool:
    """Tables by the last value of each key, streams by their records."""
    if topic in ("word-counts", "lengths"):
        return last_values(left) == last_values(right)
    return sorted(left, key=str) == sorted(right, key=str)


def send(cluster: Cluster, records: dict[str, list[tuple[str, str, int]]]) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for topic, rows in records.items():
            for key, value, timestamp in rows:
                producer.send(topic, key=key.encode(), value=value.encode(), timestamp_ms=timestamp)
        producer.flush()


def received(cluster: Cluster, topic: str) -> Records:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in range(len(consumer.partitions_for(topic)))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(partitions)
        ends = consumer.end_offsets(partitions)
        records: Records = []
        while any(consumer.position(one) < ends[one] for one in ends):
            records += [(record.key, record.value) for record in consumer.poll(1.0)]
        return records


def between(cluster: Cluster, topic: str) -> list[tuple[int, int]]:
    """Where each partition of a topic begins and ends."""
    with Consumer({"bootstrap.servers": cluster.bootstrap_servers}) as consumer:
        places = [TopicPartition(topic, index) for index in range(len(consumer.partitions_for(topic)))]
        begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        return [(begins[one], ends[one]) for one in places]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A node of its own: the topics have plain names, which others may have used."""
    with Cluster(processes=True) as running:
        yield running


def test_the_driver_and_a_cluster_give_the_same_and_a_restart_goes_on(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The restart finds other shuffle partitions, state of which one part was divided anew, topics that were purged of
    what had been consumed, and more steps without state; then topics with more partitions, which it refuses."""
    bootstrap, checkpoint = cluster.bootstrap_servers, str(tmp_path / "shop")
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        topics = ["lines", "others", *OUTPUTS]
        # The records are of 1970: with the usual retention they would be gone when the broker looks for old ones.
        new = [NewTopic(topic, 1, configs={"retention.ms": "-1"}) for topic in topics]
        for outcome in admin.create_topics(new).values():
            outcome.result()
    with TopologyTestDriver(shop(), spark) as driver:
        for batch in (FIRST, SECOND):
            for topic, rows in batch.items():
                driver.pipe(topic, [(key.encode(), value.encode(), at) for key, value, at in rows])
        driven = {topic: driver.take(topic) for topic in OUTPUTS}
    assert len(driven["late"]) == 1
    send(cluster, FIRST)
    shop().start(spark, bootstrap, checkpoint=checkpoint, available_now=True)
    purged = between(cluster, "shop-lengths-repartition")
    assert all(begin == end for begin, end in purged), purged
    assert max(end for _, end in purged) > 0, purged
    parts = str(spark.conf.get(SHUFFLE))
    try:
        spark.conf.set(SHUFFLE, 3)
        count, *others = queries = [query.name for query in plan(shop()) if has_state(query)]
        rescale(spark, Path(checkpoint) / count, 3)
        for place in (checkpoint, f"file://{checkpoint}"):
            assert other_scales(spark, place, queries) == dict.fromkeys(others, int(parts))
        send(cluster, SECOND)
        running = shop(grown=True).start(spark, bootstrap, checkpoint=checkpoint, available_now=True)
        assert "State stays in the parts it was made in" in caplog.text
        assert sorted(rescale_topology(spark, checkpoint, 3)) == sorted(queries)
        assert other_scales(spark, checkpoint, queries) == {}
    finally:
        spark.conf.set(SHUFFLE, parts)
    for topic in OUTPUTS:
        found = received(cluster, topic)
        assert same(topic, found, driven[topic]), f"{topic}: {found} on the cluster, {driven[topic]} in the driver"
    with running.store("counts") as counts:
        assert counts.get("x") == 5
    names = {"counts", "per-window", "lengths-repartition", "lengths-repartition-READ", "total", "pairs"}
    steps = {path.name for path in Path(checkpoint).iterdir()} - {"topology"}
    assert steps <= names, "what was added in front has renamed a step"
    ten = shop(grown=True, factor=10)
    with pytest.raises(PipelineError, match=r"the state of total cannot be gone on with: its reducer was lambda"):
        ten.start(spark, bootstrap, checkpoint=checkpoint, available_now=True)
    plan_reset("shop", checkpoint, ["lengths-repartition", "total"]).begin()
    with pytest.raises(PipelineError, match="a reset of lengths-repartition, total was interrupted"):
        ten.start(spark, bootstrap, checkpoint=checkpoint, available_now=True)
    words = ["streams-application-reset", "--application-id", "shop", "--bootstrap-server", bootstrap]
    done = CliRunner().invoke(main, [*words, "--checkpoint", checkpoint, "--steps", "lengths-repartition,total"])
    assert done.exit_code == 0, done.output
    counted = received(cluster, "word-counts")
    ten.start(spark, bootstrap, checkpoint=checkpoint, available_now=True)
    assert received(cluster, "word-counts") == counted, "what was not reset has written nothing again"
    lengths = {key: int.from_bytes(value or b"") for key, value in last_values(received(cluster, "lengths")).items()}
    assert lengths == {b"a": 3 + 10 * (1 + 1 + 4 + 1), b"b": 1 + 10 * (3 + 3)}, "from the first record on"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        # Both, because they are joined: were it one of them, that would be refused first.
        for grown in admin.create_partitions({"lines": NewPartitions(2), "others": NewPartitions(2)}).values():
            grown.result()
    with pytest.raises(PipelineError, match="had 1 partitions"):
        shop().start(spark, bootstrap, checkpoint=checkpoint, available_now=True)


def test_windows_in_the_driver(spark: SparkSession) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", value="long").group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size(10, grace=5).advance_by(5)).late_to("late")
    table = windowed.aggregate(total=aggregates.sum(), mean=aggregates.mean())
    table.filter("value.total > 1").to_stream().to("out")
    with TopologyTestDriver(builder.build("windows"), spark, partitions=2) as driver:
        numbers = driver.input_topic("in", value="long")
        for key, value, timestamp in (("a", 1, 3), ("a", 2, 7), ("d", 9, 100), ("a", 4, 4)):
            numbers.pipe_input(key, value, timestamp)
        found = driver.output_topic("out", value="json", windows="time").read_to_map()
        assert found[Windowed("a", 0)] == {"total": 7, "mean": pytest.approx(7 / 3)}
        assert found[Windowed("a", 5)] == {"total": 2, "mean": 2.0}
        assert found[Windowed("d", 95)] == {"total": 9, "mean": 9.0}
        numbers.pipe_input("d", 3, 50)
        assert driver.output_topic("late", value="long").read_full_records() == [("d", 3, (), 50)]


def test_numbers_are_read_from_the_bytes_of_kafkas_serializers(spark: SparkSession) -> None:
    longs = [0, 1, -1, 2**63 - 1, -(2**63)]
    integers = [0, 1, -1, 2**31 - 1, -(2**31)]
    rows = [(long.to_bytes(8, "big", signed=True), integer.to_bytes(4, "big", signed=True))
            for long, integer in zip(longs, integers, strict=True)]  # fmt: skip
    frame = spark.createDataFrame([*rows, (b"7", b"7")], "long binary, integer binary")
    found = frame.select(decode(Serde.of("long"), "long"), decode(Serde.of("integer"), "integer")).collect()
    assert [tuple(row) for row in found] == [*zip(longs, integers, strict=True), (None, None)]
    back = spark.createDataFrame(list(zip(longs, integers, strict=True)), "long bigint, integer int")
    encoded = back.select(encode(Serde.of("long"), F.col("long")), encode(Serde.of("integer"), F.col("integer")))
    assert [tuple(map(bytes, row)) for row in encoded.collect()] == rows


def test_the_types_of_what_a_join_keeps_are_noted_whatever_stands_in_front_of_it(spark: SparkSession) -> None:
    """A row that was kept as text of another type was read as one without a value."""
    builder = StreamsBuilder()
    people = builder.table("people", value=json("city STRING, name STRING"), named="people")
    cities = builder.table("cities").map_values("named_struct('id', cast(value AS INT))")
    people.join(cities, "left.name", foreign_key="value.city", name="homes").to_stream().to("out")
    people.left_join(cities, "left.name", name="both").to_stream().to("out")
    stream = builder.stream("visits").map_values("length(value)")
    stream.join(cities, "left", name="looked-up").join(builder.stream("more"), "left", NEAR, name="near").to("out")
    cities.group_by("value.id", name="grouped").count(name="many").to_stream().to("out")
    with TopologyTestDriver(builder.build("types"), spark) as driver:
        driver._compile()
        types = {one.query.name: one.types for one in driver._compiled}
    city = "struct<id:int>"
    assert types["homes-subscription-join-foreign"]["right type"] == city
    assert "row:struct<city:string,name:string>" in types["homes-subscription-join-foreign"]["left type"]
    assert types["both"] == {
        "key type": "string", "left type": "struct<city:string,name:string>", "right type": city,
    }  # fmt: skip
    assert types["looked-up"] == {"key type": "string", "right type": city}
    assert types["near"] == {"key type": "string", "left type": "int", "right type": "string"}
    assert types["grouped"] == {"key type": "int", "value type": f"struct<new:{city},old:{city}>"}
    assert types["many"] == {"key type": "int", "value type": "bigint"}


@pytest.mark.parametrize("count", [6, 64])
def test_tasks_spread_evenly_over_sparks_shuffle_partitions(spark: SparkSession, count: int) -> None:
    """Of their numbers, 6 lie on 3 of 6 partitions and 64 on 37 of 64."""
    before = {name: str(spark.conf.get(name)) for name in (SHUFFLE, "spark.sql.adaptive.enabled")}
    try:
        spark.conf.set(SHUFFLE, count)
        spark.conf.set("spark.sql.adaptive.enabled", "false")  # which would make one of several small partitions
        task = F.col("id").cast("int")
        tasks = spark.range(count).select(
            task.alias("number"), StateFormat.of_new(count).grouped_by(task).alias("task")
        )

        def spread(name: str) -> set[int]:
            rows = tasks.groupBy(name).agg(F.first("number")).select(F.spark_partition_id()).collect()
            return {row[0] for row in rows}

        assert len(spread("number")) == {6: 3, 64: 37}[count]
        assert spread("task") == set(range(count))
        hashes = tasks.select("number", F.hash("task")).collect()
        assert all(number == found for number, found in hashes), "so it is for any number of partitions"
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_the_state_of_tasks_lies_in_every_part(spark: SparkSession) -> None:
    """What Spark says of where it is: a task for each of six partitions, and six parts."""
    builder = StreamsBuilder()
    windowed = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    windowed.count().to_stream().to("out")
    before = str(spark.conf.get(SHUFFLE))
    try:
        spark.conf.set(SHUFFLE, 6)
        with TopologyTestDriver(builder.build("spread"), spark, partitions=6) as driver:
            for number in range(60):
                driver.input_topic("in").pipe_input(f"key-{number}", "x", number)
            assert len(driver.output_topic("out", value="long", windows="time").read_records()) == 60
            [compiled] = driver._compiled
            place = str(driver._home / compiled.query.name)
            state = spark.read.format("statestore").option("stateVarName", "task").load(place)
            assert {row[0] for row in state.select("partition_id").distinct().collect()} == set(range(6))
    finally:
        spark.conf.set(SHUFFLE, before)


def registry() -> Topology:
    """Tables that are joined, and a window: what an earlier version kept otherwise."""
    builder = StreamsBuilder()
    people, cities = builder.table("people", value=json("name STRING, city STRING")), builder.table("cities")
    homes = people.left_join(cities, "concat_ws(' of ', left.name, right)", foreign_key="value.city")
    homes.to_stream().to("homes")
    people.join(builder.table("notes"), "concat(left.name, ': ', right)").to_stream().to("noted")
    windowed = builder.stream("notes").group_by_key().windowed_by(TimeWindows.of_size(10, grace=5))
    windowed.count().suppress().to_stream().to("counts")
    return builder.build("registry")


def test_a_checkpoint_of_an_earlier_version_goes_on_as_it_was_made(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are grouped by their numbers, its tables are joined by aggregates, and it remembers nothing of it."""
    bootstrap, checkpoint = cluster.bootstrap_servers, str(tmp_path / "registry")
    outputs = ["homes", "noted", "counts"]
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        inputs = [NewTopic(name, 3, configs={"retention.ms": "-1"}) for name in ("people", "cities", "notes")]
        for made in admin.create_topics([*inputs, *(NewTopic(name, 1) for name in outputs)]).values():
            made.result()

    def tell(people: str, cities: str, notes: str, at: int) -> None:
        city = "x" if at == 1 else "y"
        send(cluster, {
            "people": [(key, f'{{"name":"{key}{at}","city":"{city}"}}', at) for key in people],
            "cities": [(key, f"city {key}{at}", at) for key in cities],
            "notes": [(key, f"note {at}", at) for key in notes],
        })  # fmt: skip
        registry().start(spark, bootstrap, checkpoint=checkpoint, available_now=True)

    with monkeypatch.context() as earlier:
        earlier.setattr(StateFormat, "of_new", lambda tasks: StateFormat(AGGREGATES, 0))
        earlier.setattr(StateFormat, "facts", lambda self: None)
        tell("abcdef", "x", "abc", 1)
    remembered = parse(spark.read.text(f"{checkpoint}/topology").collect()[0][0])
    spark.createDataFrame([(dumps({name: fact for name, fact in remembered.items() if name != "state"}),)]).write.mode(
        "overwrite"
    ).text(f"{checkpoint}/topology")
    tell("ab", "xy", "abcdef", 60)
    found = {topic: last_values(received(cluster, topic)) for topic in outputs}
    assert found["homes"] == {
        **{key.encode(): f"{key}60 of city y60".encode() for key in "ab"},
        **{key.encode(): f"{key}1 of city x60".encode() for key in "cdef"},
    }
    assert found["noted"] == {
        **{key.encode(): f"{key}60: note 60".encode() for key in "ab"},
        **{key.encode(): f"{key}1: note 60".encode() for key in "cdef"},
    }
    closed = {key[:1]: int.from_bytes(value) for key, value in found["counts"].items() if key and value}
    assert closed == {b"a": 1, b"b": 1, b"c": 1}, "the windows of what the earlier version has counted"

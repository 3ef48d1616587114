"""A program of a user, in a process of its own, that runs unchanged wherever its session is: it writes a topic, reads
it, copies it exactly once, and counts words.

It is told on its command line, in JSON, how to make its `session`, the brokers' address and the topics; what it found
is the last line of its output, in JSON. `run` is the handle that a test has; one that starts it otherwise has `tell`
and `heard`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[3]
RECORDS = 400
PER_TRIGGER = 250
PARTITIONS = 2
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For Javas that run for seconds: the better half of what they would compile is never worth it."""


def run(log: Path, session: dict[str, Any], servers: str, home: Path, topics: dict[str, str]) -> dict[str, Any]:
    """What the program has found; `topics` names `source`, `copy`, `words` and `counts`."""
    with open(log, "ab") as errors:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.pipelines.clusters.program", tell(session, servers, home, topics)],
            cwd=ROOT, env=os.environ | SHORT_LIVED, stdout=subprocess.PIPE, stderr=errors, text=True, check=False,
        )  # fmt: skip
    assert ended.returncode == 0, log.read_text(errors="replace")[-4000:]
    return heard(ended.stdout)


def tell(session: dict[str, Any], servers: str, home: Path, topics: dict[str, str]) -> str:
    """The program's one argument. It does not end in two braces, because YARN would take them for a mark of its own."""
    return json.dumps({"session": session, "topics": topics, "servers": servers, "home": str(home)})


def heard(output: str) -> dict[str, Any]:
    """What the program has found, of what it said."""
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def main(told: dict[str, Any]) -> dict[str, Any]:
    from ottla.pipelines import session

    spark = session("ottla-clusters", **told["session"])
    topics: dict[str, str] = told["topics"]
    try:
        write(spark, told["servers"], topics["source"])
        found: dict[str, Any] = {
            "session": type(spark).__module__,
            "again": session() is spark,
            "zone": spark.conf.get("spark.sql.session.timeZone"),
            "read": read(spark, told["servers"], topics["source"]).count(),
            "executors": executors(spark),
            "batches": [copy(spark, told["servers"], topics, Path(told["home"], "copy")) for _ in range(2)],
        }
        count_words(spark, told["servers"], topics, Path(told["home"], "words"))
    finally:
        spark.stop()
    return found


def write(spark: SparkSession, servers: str, topic: str) -> None:
    """One transaction, of rows that say where they belong."""
    from ottla.pipelines import to_partitions

    rows = spark.sql(f"select concat('k', id) as key, concat('order ', id) as value from range({RECORDS})")
    (
        to_partitions(rows, topic, bootstrap_servers=servers)
        .write.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("delivery", "exactly-once")
        .mode("append")
        .save()
    )


def read(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    return (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .load()
    )


def copy(spark: SparkSession, servers: str, topics: dict[str, str], checkpoint: Path) -> int:
    """Copy in micro-batches, and then forget that the last was committed, as a driver that died right then."""
    from ottla.pipelines import write_stream

    source = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topics["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PER_TRIGGER)
        .load()
    )
    query = (
        write_stream(source.select("key", "value"), topics["copy"], bootstrap_servers=servers)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    committed = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (committed[-1], committed[-1].with_name(f".{committed[-1].name}.crc")):
        path.unlink()
    return len(query.recentProgress)


def count_words(spark: SparkSession, servers: str, topics: dict[str, str], checkpoint: Path) -> None:
    from ottla.pipelines.streams import StreamsBuilder

    builder = StreamsBuilder()
    words = builder.stream(topics["words"]).flat_map_values("split(value, ' ')").group_by("value")
    words.count(name="counts").to_stream().to(topics["counts"])
    builder.build(topics["words"]).start(spark, servers, checkpoint=str(checkpoint), available_now=True)


def executors(spark: SparkSession) -> list[str]:
    """What the processes are that the Python workers' daemons were started by."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        parent = daemon.rpartition(")")[2].split()[1]
        command = Path(f"/proc/{parent}/cmdline").read_text().split("\0")
        main_class = next((one for one in command if one.startswith("org.apache.spark.")), "")
        for _ in batches:
            yield pa.record_batch({"main": [main_class]})

    rows = spark.range(PARTITIONS).repartition(PARTITIONS).mapInArrow(look, "main string").distinct().collect()
    return [row.main for row in rows]


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))

"""Pipelines on one broker, in turns with Spark's own connector: everything `bench_pipelines` prints is of one run.

`run(bench)` starts a broker, fills its topics with librdkafka and starts one process with one Spark of both connectors
(`python -m benchmarks.rivals.pipeline_duel JOB`), which does the same jobs with each, in several rounds whose order
changes; then Kafka Streams counts the same words. The first round of a scenario does not count: both sides have warm
code and connections. Figures are of the median round.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Bench
from benchmarks.rivals.clients.fill import fill
from benchmarks.rivals.server import Server, ottla_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, THEIRS = "ottla", "kafka"
PRUNED = "ottla, one column"
ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
PARTITION_COUNT = 6
TIMEOUT_S = 1800.0
PROJECT = Path(__file__).parents[2]
STREAMS_PROGRAM = PROJECT / "tests" / "pipelines" / "parity" / "kafka_streams"


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 3
    small: int = 2_000_000
    large: int = 2_000_000
    """Records of 1 KiB."""
    written: int = 2_000_000
    """Records of 100 bytes; of 1 KiB as many as have the same bytes, for they lie in memory."""
    lines: int = 1_000_000
    single: int = 20
    """Micro-batches of one record."""


QUICK = Sizes(rounds=1, small=2_000, large=500, written=500, lines=300, single=2)


@dataclass(frozen=True, slots=True)
class Job:
    """What the process with Spark has to do."""

    address: str
    directory: str
    is_quick: bool
    jars: list[str]
    """Spark's own connector; without it our side runs alone."""


@dataclass(slots=True)
class PipelineDuel:
    """What was found: seconds by scenario and side, one a round; `streams_s` is Kafka Streams' word count."""

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    streams_s: float | None = None
    no_rival: str = ""
    """Why Spark's connector could not be had."""
    no_streams: str = ""
    """Why Kafka Streams could not be had."""

    def median(self, scenario: str, side: str) -> float:
        return statistics.median(self.seconds[scenario][side])


def run(bench: Bench) -> PipelineDuel:
    """Every scenario; raises what the process with Spark raised."""
    sizes = bench.pick(Sizes(), QUICK)
    with Server(ottla_kind(), Path(bench.temp_dir())) as server:
        server.start()
        fill(server.address, "small", PARTITION_COUNT, sizes.small, 100, "none")
        fill(server.address, "large", PARTITION_COUNT, sizes.large, 1024, "none")
        fill(server.address, "words-lines", PARTITION_COUNT, sizes.lines, 100, "none")
        jars, no_rival = _connector()
        job = Job(server.address, bench.temp_dir(), bench.quick, jars)
        command = [sys.executable, "-m", "benchmarks.rivals.pipeline_duel", json.dumps(asdict(job))]
        done = subprocess.run(
            command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"the process with Spark ended with {done.returncode}; its last lines are above")
        duel = PipelineDuel(json.loads(done.stdout.splitlines()[-1]), no_rival=no_rival)
        if not bench.quick:
            _kafka_streams(duel, server.address, Path(bench.temp_dir()))
    return duel


def _connector() -> tuple[list[str], str]:
    """The jars of Spark's connector, or why there are none."""
    import pytest

    from tests.support.spark_connector import connector_jars

    try:
        return [str(jar) for jar in connector_jars()], ""
    except pytest.skip.Exception as reason:
        return [], str(reason)


def _kafka_streams(duel: PipelineDuel, address: str, state: Path) -> None:
    import pytest

    from tests.support.kafka_streams import run_streams

    fill(address, "words-words", PARTITION_COUNT, 0, 0, "none")
    settings = {"consumer.auto.offset.reset": "earliest", "commit.interval.ms": "1000", "num.stream.threads": "2"}
    try:
        duel.streams_s = run_streams(
            STREAMS_PROGRAM, address, "bench-words", state, "words", "words", settings=settings, timeout=TIMEOUT_S
        )
    except pytest.skip.Exception as reason:
        duel.no_streams = str(reason)


# The process with Spark


class Contest:
    """One Spark, both connectors: does each scenario with both sides and notes the seconds."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self.spark = spark
        self.job = job
        self.sizes = QUICK if job.is_quick else Sizes()
        self.seconds: dict[str, dict[str, list[float]]] = {}
        self._numbers = itertools.count()

    def duel(self, scenario: str, sides: Mapping[str, Callable[[], float]]) -> None:
        """Each side in turns; what a side returns is its seconds."""
        names = [name for name in sides if name != THEIRS or self.job.jars]
        found: dict[str, list[float]] = {name: [] for name in names}
        for round_ in range(0 if self.job.is_quick else -1, self.sizes.rounds):
            for name in names if round_ % 2 else reversed(names):
                seconds = sides[name]()
                if round_ >= 0:
                    found[name].append(seconds)
        self.seconds[scenario] = found
        told = ", ".join(f"{name} {statistics.median(each):.3f} s" for name, each in found.items())
        print(f"  {scenario:>28}: {told}", file=sys.stderr, flush=True)

    def new_topic(self, base: str) -> str:
        topic = f"{base}-{next(self._numbers)}"
        fill(self.job.address, topic, PARTITION_COUNT, 0, 0, "none")
        return topic

    def new_directory(self) -> str:
        return f"{self.job.directory}/checkpoint-{next(self._numbers)}"

    def source(self, topic: str, **options: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.job.address, "subscribe": topic, **options}

    def read(self, side: str, topic: str, count: int, size: int, **options: str) -> float:
        """Batch: count and sum(length(value)), looked at."""
        frame = self.spark.read.format(side).options(**self.source(topic, **options)).load()
        begun = time.perf_counter()
        row = frame.selectExpr("count(1)", "sum(length(value))").collect()[0]
        seconds = time.perf_counter() - begun
        assert tuple(row) == (count, count * size), f"{side} has read {row}"
        return seconds

    def stream(self, side: str, topic: str, count: int) -> float:
        """availableNow into a sink that drops the rows."""
        frame = self.spark.readStream.format(side).options(**self.source(topic, startingOffsets="earliest"))
        begun = time.perf_counter()
        writer = frame.load().writeStream.format("noop").option("checkpointLocation", self.new_directory())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - begun
        assert _rows(query) == count, f"{side} has streamed {_rows(query)} rows"
        return seconds

    def write(self, side: str, frame: DataFrame) -> float:
        """Batch, at least once, of rows that are in memory."""
        writer = frame.write.format(side).option("kafka.bootstrap.servers", self.job.address)
        writer = writer.option("topic", self.new_topic(f"written-{side}")).mode("append")
        begun = time.perf_counter()
        writer.save()
        return time.perf_counter() - begun

    def copy(self, delivery: str, topic: str) -> float:
        """Our source into our sink, a topic into another, with either delivery."""
        from ottla.pipelines import already_placed

        frame = self.spark.readStream.format(OURS).options(**self.source(topic, startingOffsets="earliest"))
        target = self.new_topic("copied")
        rows = already_placed(frame.load().select("value", "partition"))  # a partition is read by one task
        writer = rows.writeStream.format(OURS).option("delivery", delivery)
        writer = writer.option("kafka.bootstrap.servers", self.job.address).option("topic", target)
        begun = time.perf_counter()
        writer.option("checkpointLocation", self.new_directory()).trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - begun

    def single(self, side: str) -> float:
        """The median micro-batch of one record: what Spark says it took from trigger to commit."""
        from confluent_kafka import Producer

        topic = self.new_topic(f"single-{side}")
        frame = self.spark.readStream.format(side).options(**self.source(topic, startingOffsets="earliest")).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", self.new_directory()).start()
        producer = Producer({"bootstrap.servers": self.job.address, "linger.ms": 0})
        try:
            for _ in range(self.sizes.single):
                producer.produce(topic, b"one record")
                producer.flush(30)
                query.processAllAvailable()
            progress = [_json(one) for one in query.recentProgress]
        finally:
            query.stop()
        took = [float(one["durationMs"]["triggerExecution"]) for one in progress if one["numInputRows"] == 1]
        return statistics.median(took) / 1e3

    def words_by_hand(self) -> float:
        """The query that one writes without us: Spark's connector on both ends, and Spark's operators."""
        topic = self.new_topic("by-hand")
        lines = self.spark.readStream.format(THEIRS).options(**self.source("words-lines", startingOffsets="earliest"))
        words = lines.load().selectExpr("explode(split(cast(value as string), ' ')) as key").groupBy("key").count()
        writer = words.selectExpr("key", "cast(count as string) as value").writeStream.outputMode("update")
        writer = writer.format(THEIRS).option("kafka.bootstrap.servers", self.job.address).option("topic", topic)
        begun = time.perf_counter()
        writer.option("checkpointLocation", self.new_directory()).trigger(availableNow=True).start().awaitTermination()
        return time.perf_counter() - begun

    def words_by_us(self) -> float:
        """The same as a topology of `ottla.pipelines.streams`, with its exactly-once sink."""
        from ottla.pipelines.streams import StreamsBuilder

        topic = self.new_topic("by-us")
        builder = StreamsBuilder()
        words = builder.stream("words-lines").flat_map_values("split(value, ' ')").group_by("value")
        words.count().to_stream().map_values("cast(value as string)").to(topic)
        topology = builder.build(f"bench-{next(self._numbers)}")
        begun = time.perf_counter()
        running = topology.start(self.spark, self.job.address, checkpoint=self.new_directory(), available_now=True)
        seconds = time.perf_counter() - begun
        running.raise_failure()
        running.stop()
        return seconds


def contest(job: Job) -> dict[str, dict[str, list[float]]]:
    """All scenarios, in a new Spark."""
    from ottla.pipelines.spark import session

    spark = session("bench", master="local[2]", conf={
        "spark.jars": ",".join(job.jars), "spark.sql.shuffle.partitions": 2, "spark.driver.memory": "2g",
        "spark.sql.streaming.numRecentProgressUpdates": 1000,
    })  # fmt: skip
    try:
        return _scenarios(Contest(spark, job))
    finally:
        spark.stop()


def _scenarios(one: Contest) -> dict[str, dict[str, list[float]]]:
    sizes = one.sizes
    for name, topic, count, size in (("100 B", "small", sizes.small, 100), ("1 KiB", "large", sizes.large, 1024)):
        reads = {side: partial(one.read, side, topic, count, size) for side in (OURS, THEIRS)}
        one.duel(f"read {name}", reads | {PRUNED: partial(one.read, OURS, topic, count, size, columns="value")})
        one.duel(f"stream {name}", {side: partial(one.stream, side, topic, count) for side in (OURS, THEIRS)})
        rows = one.spark.range(0, sizes.written * 100 // size, numPartitions=4)
        frame = rows.selectExpr(f"lpad(cast(id as string), {size}, 'x') as value").cache()
        frame.count()
        one.duel(f"write {name}", {side: partial(one.write, side, frame) for side in (OURS, THEIRS)})
        frame.unpersist()
    one.duel("copy", {delivery: partial(one.copy, delivery, "words-lines") for delivery in (ONCE, AT_LEAST_ONCE)})
    one.duel("single", {side: partial(one.single, side) for side in (OURS, THEIRS)})
    one.duel("words", {OURS: one.words_by_us, THEIRS: one.words_by_hand})
    return one.seconds


def _rows(query: Any) -> int:
    return sum(_json(one)["numInputRows"] for one in query.recentProgress)


def _json(progress: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(progress.json)
    return found


if __name__ == "__main__":
    print(json.dumps(contest(Job(**json.loads(sys.argv[1])))))

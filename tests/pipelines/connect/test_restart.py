"""A pipeline that is killed with -9 while it writes, and started again: nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Producer
from ottla.pipelines.connect import load, run
from ottla.pipelines.connect.state import Home
from ottla.testing import Cluster
from tests.pipelines.connect.test_pipelines import received
from tests.support.clients import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 600
POISON_EVERY = 50
BATCH = 100
FILE = """\
name: killed
source:
  type: topic
  topic: {source}
  bootstrap.servers: {servers}
  schema: id BIGINT
  max-records-per-batch: {batch}
transforms:
  - insert: {{field: twice, sql: id * 2}}
sink:
  type: topic
  topic: {sink}
  bootstrap.servers: {servers}
errors: dead-letter
dead-letter: {{topic: {letters}}}
"""


class Running:
    """`ottla pipeline run`, and the events that it tells."""

    def __init__(self, file: Path, data_home: Path) -> None:
        self.log = open(data_home / "run.log", "ab")  # noqa: SIM115 - as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(file), "--master", "local[2]",
             "--output", "json"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, "XDG_DATA_HOME": str(data_home)},
        )  # fmt: skip

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, Path(self.log.name).read_text()[-3000:]
        event: dict[str, Any] = json.loads(line)
        return event

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.log.close()


@pytest.mark.timeout(400)
def test_a_pipeline_that_is_killed_goes_on_where_it_was(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    source, sink = cluster.create_topic(new_topic("source"), 2), cluster.create_topic(new_topic("sink"), 3)
    letters = cluster.create_topic(new_topic("letters"))
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(RECORDS):
            value = b"poison" if number % POISON_EVERY == 0 else b'{"id": %d}' % number
            producer.send(source, value, key=b"%d" % number, partition=number % 2)
    file = tmp_path / "killed.yaml"
    file.write_text(
        FILE.format(batch=BATCH, servers=cluster.bootstrap_servers, source=source, sink=sink, letters=letters)
    )
    home = Home("killed", tmp_path / "ottla" / "pipelines")

    first = Running(file, tmp_path)
    try:
        told = [first.next() for _ in range(3)]
        first.process.send_signal(signal.SIGKILL)
    finally:
        first.close()
    assert [event["id"] for event in told] == [0, 1, 2]
    assert told[0]["lag"] == RECORDS - BATCH
    state = home.read()
    assert state is not None
    assert state.status == "killed"

    # Another driver goes on: it waits for the Java process of the first, and has its checkpoint.
    state = run(load(file), spark, once=True, home=home)
    assert state.status == "done"
    assert 0 < state.records <= RECORDS - 3 * BATCH, "it began where the first was"

    bad = set(range(0, RECORDS, POISON_EVERY))
    good = received(cluster.bootstrap_servers, sink, RECORDS - len(bad), 3)
    assert sorted((int(record.key or b""), json.loads(record.value or b"")) for record in good) == [
        (number, {"id": number, "twice": number * 2}) for number in range(RECORDS) if number not in bad
    ]
    assert sorted(
        int(record.key or b"") for record in received(cluster.bootstrap_servers, letters, len(bad))
    ) == sorted(bad)

"""Kafka Streams 4.3.1 and `ottla.pipelines.streams` on the same input topics of an Ottla broker: equal results.

Input is in order, a little, half, or all of it out of order (`inputs`). A table's result is the last value of each key;
a stream's, and that of a window which is emitted once, is every record. Times are compared as well. First whole
topologies; then the tasks that decide (windows, joins, lookups) without Spark around them, with a batch that holds
everything, in the order in which the compiler puts it: fast, and a difference points at one operator. In one file,
because what Kafka Streams makes of the input takes a minute, and a file's tests run in one process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from ottla.pipelines.streams import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, aggregates
from ottla.pipelines.streams.compiler.stateful import ordered
from ottla.pipelines.streams.graph import Folds
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import TableLookup, WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.task import FINAL, RESULT, Operator, Output, run
from ottla.pipelines.streams.tasks.windowing import WindowAggregate
from ottla.testing import Cluster
from tests.pipelines.parity.inputs import CASES, GRACE_MS, Case
from tests.pipelines.parity.results import OURS, Record, Results, Value, difference
from tests.pipelines.parity.topologies import OUTPUTS, SLIDING_GRACE_MS, topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

COUNT = Gathering(Folds(((None, aggregates.count()),)))
TUMBLING = TimeWindows.of_size(10_000, grace=GRACE_MS)
NEAR = JoinWindows.of_time_difference(1_000, grace=20_000)
WINDOWS: dict[str, Operator] = {
    "tumbling": WindowAggregate(COUNT, TUMBLING, True, True),
    "hopping": WindowAggregate(COUNT, TUMBLING.advance_by(4_000), True, True),
    "sliding": SlidingAggregate(COUNT, SlidingWindows.of_time_difference(6_000, grace=SLIDING_GRACE_MS), True, True),
    "session": SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(1_000, grace=GRACE_MS), True, True),
}
JOINS: dict[str, tuple[Operator, str]] = {
    "inner": (WindowedJoin(NEAR, "inner"), "near-right"),
    "left-join": (WindowedJoin(NEAR, "left"), "near-right"),
    "outer": (WindowedJoin(NEAR, "outer"), "near-right"),
    "table-inner": (TableLookup("inner"), "near-table"),
    "table-left": (TableLookup("left"), "near-table"),
}


# Topologies


@pytest.mark.timeout(600)  # Spark on a busy machine
@pytest.mark.parametrize("name", OUTPUTS)
def test_results_equal_those_of_kafka_streams_however_late_the_input(
    spark: SparkSession, cluster: Cluster, theirs: Results, name: str, tmp_path: Path
) -> None:
    running = topology(name, OURS).start(
        spark, cluster.bootstrap_servers, checkpoint=str(tmp_path / name), available_now=True
    )
    running.raise_failure()
    running.stop()
    ours = Results(cluster.bootstrap_servers, OURS)
    wrong = {}
    for output in OUTPUTS[name]:
        wanted, found = theirs.of(output), ours.of(output)
        assert wanted, f"Kafka Streams has written nothing to {output}"
        if found != wanted:
            wrong[output] = difference(wanted, found)
    assert not wrong


# Tasks


class Memory:
    """A task's shelf in memory."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self._rows.get(key)

    def put(self, key: str, value: str) -> None:
        self._rows[key] = value

    def delete(self, key: str) -> None:
        self._rows.pop(key, None)

    def items(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows.items())


def outputs(operator: Operator, case: Case, *topics: str, counts: bool) -> list[Output]:
    """What a task makes of a case's topics; a count is given no more of a value than that there is one."""
    inputs = case.inputs()
    rows = [
        {
            "topic": topic, "partition": 0, "offset": offset, "seq": 0, "side": side, "extra": None,
            "timestamp": record.timestamp, "key_text": json.dumps({"key": record.key}),
            "value_text": None if record.value is None else json.dumps({} if counts else {"value": record.value}),
        }
        for side, topic in enumerate(topics)
        for offset, record in enumerate(inputs[topic])
    ]  # fmt: skip
    return run(operator, Memory(), ordered(pd.DataFrame(rows)))


def field(text: str | None, name: str) -> str | None:
    return None if text is None else str(json.loads(text)[name])


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_have_the_rows_that_kafka_streams_gives_them(theirs: Results, name: str) -> None:
    changes: dict[str, Value] = {}
    finals: Counter[Record] = Counter()
    for case in CASES:
        for output in outputs(WINDOWS[name], case, "left", counts=True):
            key, value = f"{field(output.key, 'key')}@{output.start}-{output.end}", field(output.value, "value")
            if output.kind == FINAL:
                finals[key, (value, output.timestamp)] += 1
            elif output.kind == RESULT and value is None:
                changes.pop(key, None)
            elif output.kind == RESULT and value is not None:
                changes[key] = value, output.timestamp
    assert changes == theirs.table(name), difference(theirs.table(name), changes)
    wanted = theirs.stream(f"{name}-final")
    assert finals == wanted, difference(wanted, finals)


@pytest.mark.parametrize("name", JOINS)
def test_joins_have_the_records_that_kafka_streams_gives_them(theirs: Results, name: str) -> None:
    operator, right = JOINS[name]
    found: Counter[Record] = Counter()
    for case in CASES:
        for output in outputs(operator, case, "near-left", right, counts=False):
            pair = f"{field(output.value, 'value') or 'null'}+{field(output.other, 'value') or 'null'}"
            found[field(output.key, "key") or "", (pair, output.timestamp)] += 1
    wanted = theirs.stream(name)
    assert found == wanted, difference(wanted, found)

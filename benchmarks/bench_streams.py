"""Streams' tasks by the size of their state: a batch costs what it names and closes, and not what there is.

In one process and without Spark: what is measured is how much of its state a task reads, writes and parses. Both sides
are Ottla's, with few and with many live keys; the batches are the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from benchmarks import AtMost, Bench, Result, Rival, Unit, benchmark
from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.graph import Folds
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import TableLookup, WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.task import Operator, Record, run
from ottla.pipelines.streams.tasks.windowing import WindowAggregate
from ottla.pipelines.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

COUNT = Gathering(Folds(((None, aggregates.count()),)))
HOUR_MS = 3_600_000
BATCH = 5_000
ROUNDS = 5
GROWN = 1.5
"""How much longer a batch may take with a hundred times the keys."""


class Shelf(dict[str, str]):
    """State in a dictionary, as Spark's map has it."""

    def put(self, key: str, value: str) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        self.pop(key, None)

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        return iter(list(super().items()))


def _grows(name: str, operator: Operator) -> None:
    def measure(bench: Bench) -> Result:
        few, many, batch = bench.pick((10_000, 1_000_000, BATCH), (100, 1_000, 50))
        grown = {count: _grown(operator, count, batch) for count in (few, many)}
        batches = {count: _batches(count, batch) for count in (few, many)}

        def work(count: int) -> None:
            run(operator, grown[count], next(batches[count]))

        comparison = bench.compare(lambda: work(many), lambda: work(few), rounds=ROUNDS)
        return Result(
            comparison.ours.median_s, Unit.SECONDS, Rival(f"{few:,} keys", comparison.theirs.median_s), f"{many:,} keys"
        )

    what = f"A batch of {BATCH:,} records with 1,000,000 live keys beside one with 10,000; the median."
    globals()[f"row {name}"] = benchmark("streams", name, bar=AtMost(GROWN), what=what)(measure)


def _grown(operator: Operator, count: int, batch: int) -> Shelf:
    shelf = Shelf()
    for start in range(0, count, 10 * batch):
        numbers = range(start, min(count, start + 10 * batch))
        # Spread over half an hour, so that what closes with each batch is the same share of the keys.
        run(operator, shelf, [_record(number, HOUR_MS + number * HOUR_MS // 2 // count, side=1) for number in numbers])
    return shelf


def _batches(count: int, batch: int) -> Iterator[list[Record]]:
    chance, time = random.Random(1), HOUR_MS + HOUR_MS // 2
    while True:
        yield [_record(chance.randrange(count), time, side=chance.randrange(2)) for _ in range(batch)]
        time += 1_000


def _record(number: int, timestamp: int, *, side: int) -> Record:
    return Record(side, json.dumps({"key": f"customer-{number}"}), '{"value":1}', timestamp, "{}")


_grows("tumbling count, growth", WindowAggregate(COUNT, TimeWindows.of_size(HOUR_MS, grace=60_000)))
_grows(
    "hopping count, growth", WindowAggregate(COUNT, TimeWindows.of_size(HOUR_MS, grace=60_000).advance_by(HOUR_MS // 4))
)
_grows("sliding count, growth", SlidingAggregate(COUNT, SlidingWindows.of_time_difference(HOUR_MS, grace=60_000)))
_grows("sessions, growth", SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(HOUR_MS, grace=60_000)))
_grows("stream-stream join, growth", WindowedJoin(JoinWindows.of_time_difference(HOUR_MS, grace=60_000), "outer"))
_grows("stream-table join, growth", TableLookup("left"))

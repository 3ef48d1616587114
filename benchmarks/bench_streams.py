"""Streams' tasks by the size of their state: a batch costs what it names and closes, and not what there is.

In one process and without Spark: what is measured is how much of its state a task reads, writes and parses. Both sides
are Ottla's, with few and with many live keys; the batches are the same.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

from benchmarks import AtMost, Bench, Result, Rival, Unit, benchmark
from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.graph import Folds
from ottla.pipelines.streams.tasks.foreign_keys import SUBSCRIBE, Matching, Newest, Subscribing
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import TableLookup, WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.tables import TableJoining
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


Make = Callable[[int, int, int], Record]
"""Makes a record of a key's number, a time and a side."""


def _grows(name: str, operator: Operator, make: Make | None = None) -> None:
    make = make or _record

    def measure(bench: Bench) -> Result:
        few, many, batch = bench.pick((10_000, 1_000_000, BATCH), (100, 1_000, 50))
        grown = {count: _grown(operator, count, batch, make) for count in (few, many)}
        batches = {count: _batches(count, batch, make) for count in (few, many)}

        def work(count: int) -> None:
            run(operator, grown[count], next(batches[count]))

        comparison = bench.compare(lambda: work(many), lambda: work(few), rounds=ROUNDS)
        return Result(
            comparison.ours.median_s, Unit.SECONDS, Rival(f"{few:,} keys", comparison.theirs.median_s), f"{many:,} keys"
        )

    what = f"A batch of {BATCH:,} records with 1,000,000 live keys beside one with 10,000; the median."
    globals()[f"row {name}"] = benchmark("streams", name, bar=AtMost(GROWN), what=what)(measure)


def _grown(operator: Operator, count: int, batch: int, make: Make) -> Shelf:
    shelf = Shelf()
    for start in range(0, count, 10 * batch):
        numbers = range(start, min(count, start + 10 * batch))
        # Spread over half an hour, so that what closes with each batch is the same share of the keys.
        run(operator, shelf, [make(number, HOUR_MS + number * HOUR_MS // 2 // count, 1) for number in numbers])
        if isinstance(operator, Matching):  # both sides are there
            run(operator, shelf, [make(number, HOUR_MS, 0) for number in numbers])
    return shelf


def _batches(count: int, batch: int, make: Make) -> Iterator[list[Record]]:
    chance, time = random.Random(1), HOUR_MS + HOUR_MS // 2
    while True:
        yield [make(chance.randrange(count), time, chance.randrange(2)) for _ in range(batch)]
        time += 1_000


def _hot(name: str, operator: Operator) -> None:
    """A key with much that is remembered and a batch of that key: each record finds few of it."""

    def measure(bench: Bench) -> Result:
        few, many, batch = bench.pick((1_000, 100_000, BATCH), (50, 500, 20))
        shelves = {count: Shelf() for count in (few, many)}
        records = {count: _of_one_key() for count in (few, many)}
        for count, shelf in shelves.items():
            for _ in range(0, count, batch):
                run(operator, shelf, [next(records[count]) for _ in range(min(count, batch))])

        def work(count: int) -> None:
            kept = dict(shelves[count])
            run(operator, shelves[count], [next(records[count]) for _ in range(batch)])
            if count == few:  # or it would grow with the rounds; the other hardly does
                shelves[count].clear()
                shelves[count].update(kept)

        comparison = bench.compare(lambda: work(many), lambda: work(few), rounds=ROUNDS)
        return Result(
            comparison.ours.median_s,
            Unit.SECONDS,
            Rival(f"{few:,} remembered", comparison.theirs.median_s),
            f"{many:,} remembered",
        )

    what = f"A batch of {BATCH:,} records of one key of which 100,000 are remembered beside one of 1,000; the median."
    globals()[f"row {name}"] = benchmark("streams", name, bar=AtMost(GROWN), what=what)(measure)


def _of_one_key() -> Iterator[Record]:
    chance, time = random.Random(1), HOUR_MS
    while True:
        time += 30
        yield _record(0, time - chance.randrange(200), chance.randrange(2))


def _record(number: int, timestamp: int, side: int) -> Record:
    return Record(side, json.dumps({"key": f"customer-{number}"}), '{"value":1}', timestamp, "{}")


def _referring(number: int, timestamp: int, side: int) -> Record:
    """An order of one of ten thousand customers: a change of what it refers to, as often as not."""
    customer = json.dumps({"key": f"customer-{(number + timestamp) % 10_000}"})
    return Record(0, json.dumps({"key": f"order-{number}"}), '{"value":1}', timestamp, customer)


def _told(number: int, timestamp: int, side: int) -> Record:
    """A word from the left table, or a change on the right: ten rows on the left refer to each on the right."""
    foreign_key = json.dumps({"key": f"customer-{number // 10}"})
    if side == 1:
        return Record(1, foreign_key, '{"value":1}', timestamp)
    told = [json.dumps({"key": f"order-{number}"}), str(timestamp), str(SUBSCRIBE), str(timestamp), "0"]
    return Record(0, foreign_key, '{"value":1}', timestamp, json.dumps(told))


def _answer(number: int, timestamp: int, side: int) -> Record:
    answer = ['{"value":1}', str(timestamp), "1", str(SUBSCRIBE), "1", "1"]
    return Record(0, json.dumps({"key": f"order-{number}"}), '{"value":1}', timestamp, json.dumps(answer))


_grows("tumbling count, growth", WindowAggregate(COUNT, TimeWindows.of_size(HOUR_MS, grace=60_000)))
_grows(
    "hopping count, growth", WindowAggregate(COUNT, TimeWindows.of_size(HOUR_MS, grace=60_000).advance_by(HOUR_MS // 4))
)
_grows("sliding count, growth", SlidingAggregate(COUNT, SlidingWindows.of_time_difference(HOUR_MS, grace=60_000)))
_grows("sessions, growth", SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(HOUR_MS, grace=60_000)))
_grows("stream-stream join, growth", WindowedJoin(JoinWindows.of_time_difference(HOUR_MS, grace=60_000), "outer"))
_grows("stream-table join, growth", TableLookup("left"))
_grows("table-table join, growth", TableJoining("outer"))
_grows("foreign-key join, who refers, growth", Subscribing(), _referring)
_grows("foreign-key join, where both meet, growth", Matching(), _told)
_grows("foreign-key join, the newest answer, growth", Newest(), _answer)
_hot("stream-stream join, hot key", WindowedJoin(JoinWindows.of_time_difference(50, grace=HOUR_MS), "outer"))
_hot("sliding count, hot key", SlidingAggregate(COUNT, SlidingWindows.of_time_difference(50, grace=HOUR_MS)))
_hot("sessions, hot key", SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(20, grace=HOUR_MS)))

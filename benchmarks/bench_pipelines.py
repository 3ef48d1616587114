"""Pipelines on Spark beside Spark's own Kafka connector, on one Ottla broker (`rivals.pipeline_duel`).

Both do the same job, in one Spark, in turns; ours checks the checksum of every batch that it reads, and so does Java's
client. Without Java, Maven or a registry nothing is compared, and the table says why.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import AtLeast, AtMost, Bench, Result, Rival, Unit, benchmark
from benchmarks.harness import Bar
from benchmarks.rivals.one_run import one_run
from benchmarks.rivals.pipeline_duel import AT_LEAST_ONCE, ONCE, OURS, PRUNED, QUICK, THEIRS, PipelineDuel, Sizes, run

CONNECTOR = "Spark's connector"


duel_of = one_run(run)


def _duel(bench: Bench) -> tuple[PipelineDuel, Sizes]:
    duel = duel_of(bench.quick)
    return duel, bench.pick(Sizes(), QUICK)


def _rate(
    name: str,
    scenario: str,
    records: Callable[[Sizes], int],
    bar: float,
    what: str,
    *,
    ours: str = OURS,
    theirs: str = THEIRS,
    rival: str = CONNECTOR,
) -> None:
    def measure(bench: Bench) -> Result:
        duel, sizes = _duel(bench)
        count = records(sizes)
        against = None if duel.no_rival else Rival(rival, count / duel.median(scenario, theirs))
        return Result(count / duel.median(scenario, ours), Unit.PER_SECOND, against, no_rival=duel.no_rival)

    globals()[f"row {name}"] = benchmark("pipelines", name, bar=AtLeast(bar), what=what)(measure)


def _seconds(name: str, scenario: str, bar: Bar, what: str, *, ours: str, theirs: str, rival: str) -> None:
    def measure(bench: Bench) -> Result:
        duel, _ = _duel(bench)
        if theirs == THEIRS and duel.no_rival:
            return Result(duel.median(scenario, ours), Unit.SECONDS, no_rival=duel.no_rival)
        return Result(duel.median(scenario, ours), Unit.SECONDS, Rival(rival, duel.median(scenario, theirs)))

    globals()[f"row {name}"] = benchmark("pipelines", name, bar=bar, what=what)(measure)


for _size, _count in (
    ("100 B", lambda sizes: sizes.small),
    ("1 KiB", lambda sizes: sizes.large),
):
    _rate(f"batch read {_size}", f"read {_size}", _count, 1.5,
          "Count and sum(length(value)) of a topic in 6 partitions: the same job with one word changed.")  # fmt: skip
    _rate(f"batch read {_size}, one column", f"read {_size}", _count, 1.5,
          "The same, with our option `columns` set to value.", ours=PRUNED)  # fmt: skip
    _rate(f"availableNow {_size}", f"stream {_size}", _count, 1.0,
          "A stream of the whole topic, all columns, into a sink that drops the rows.")  # fmt: skip
for _size, _count in (
    ("100 B", lambda sizes: sizes.written),
    ("1 KiB", lambda sizes: sizes.written * 100 // 1024),
):
    _rate(f"write {_size}", f"write {_size}", _count, 1.0, "Rows in memory to a topic of 6 partitions, at least once.")
_seconds("exactly-once copy", "copy", AtMost(1.3), "A topic copied into another as a stream, by our source and sink.",
         ours=ONCE, theirs=AT_LEAST_ONCE, rival="at-least-once")  # fmt: skip
_seconds("micro-batch of one record", "single", AtMost(1.2), "Spark's time from trigger to commit, median.",
         ours=OURS, theirs=THEIRS, rival=CONNECTOR)  # fmt: skip
_rate("word count", "words", lambda sizes: sizes.lines, 1.0,
      "Lines a second of a topology, written exactly once, against the query written by hand.",
      rival="Spark by hand")  # fmt: skip


@benchmark("pipelines", "word count by Kafka Streams")
def word_count_by_kafka_streams(bench: Bench) -> Result:
    """Lines a second of the same topology, at least once, on two threads; both figures, no bar."""
    duel, sizes = _duel(bench)
    figure = sizes.lines / duel.median("words", OURS)
    if duel.streams_s is None:
        return Result(figure, Unit.PER_SECOND, no_rival=duel.no_streams or "a quick run starts no Kafka Streams")
    return Result(figure, Unit.PER_SECOND, Rival("Kafka Streams", sizes.lines / duel.streams_s))

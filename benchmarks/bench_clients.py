"""Python clients, side by side on one Ottla broker: all rows come from one run (`rivals.client_duel`).

Single records are sent with one call each; consumed ones are looked at one by one. Ottla checks the checksum of every
batch it reads; librdkafka, as it comes, does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from benchmarks import AtLeast, Bench, Result, Rival, Unit, benchmark
from benchmarks.rivals.client_duel import run
from benchmarks.rivals.clients import (
    AIOKAFKA,
    ARROW,
    CONFLUENT,
    KAFKA_PYTHON,
    NAMES,
    OURS,
    OURS_ASYNC,
    ClientMeasured,
)
from benchmarks.rivals.one_run import one_run

duel_of = one_run(run)


def _row(
    name: str,
    scenario: str,
    ours: str,
    theirs: str,
    figure: Callable[[ClientMeasured], float],
    unit: Unit,
    *,
    at_least: float | None = None,
    doc: str = "",
) -> None:
    def measure(bench: Bench) -> Result:
        duel = duel_of(bench.quick)
        rival = Rival(NAMES[theirs], duel.median(scenario, theirs, figure))
        return Result(duel.median(scenario, ours, figure), unit, rival)

    measure.__doc__ = doc or "The median of three rounds."
    bar = None if at_least is None else AtLeast(at_least)
    title = f"{name}, by {NAMES[theirs]}"
    globals()[f"row {title}"] = benchmark("clients", title, bar=bar)(measure)


def _rate(one: ClientMeasured) -> float:
    return one.per_s


for _size in ("100 B", "1 KiB"):
    for _kind, _verb in (("produce", "sent one by one"), ("consume", "polled and looked at one by one")):
        _doc = f"Records of {_size}, {_verb}."
        for _rival, _bar in ((CONFLUENT, 0.5), (AIOKAFKA, 1.0), (KAFKA_PYTHON, 1.0)):
            _row(f"{_kind} {_size}", f"{_kind} {_size}", OURS, _rival, _rate, Unit.PER_SECOND, at_least=_bar, doc=_doc)
        _row(f"{_kind} {_size}, async", f"{_kind} {_size}", OURS_ASYNC, AIOKAFKA, _rate, Unit.PER_SECOND,
             at_least=1.0, doc=_doc)  # fmt: skip
    _row(f"send_arrow {_size}", f"produce {_size}", ARROW, CONFLUENT, _rate, Unit.PER_SECOND, at_least=1.0,
         doc="Columns of 50,000 rows against single records.")  # fmt: skip
for _what in ("100 B", "1 KiB", "100 B, zstd", "100 B, lz4"):
    _row(f"poll_arrow {_what}", f"consume {_what}", ARROW, CONFLUENT, _rate, Unit.PER_SECOND, at_least=8.0,
         doc="Columns, with every checksum checked, against `consume(10_000)`.")  # fmt: skip
for _rival in (CONFLUENT, AIOKAFKA, KAFKA_PYTHON):
    for _percent in (50, 99):
        _row(f"round trip, p{_percent}", "round trip", OURS, _rival,
             functools.partial(ClientMeasured.percentile_s, percent=_percent), Unit.SECONDS,
             doc="From `send` of one record until a consumer has it; linger 0.")  # fmt: skip
for _percent in (50, 99):
    _row(f"round trip, p{_percent}, async", "round trip", OURS_ASYNC, AIOKAFKA,
         functools.partial(ClientMeasured.percentile_s, percent=_percent), Unit.SECONDS)  # fmt: skip
for _rival in (CONFLUENT, AIOKAFKA, KAFKA_PYTHON):
    _row("memory while consuming 100 B", "consume 100 B", OURS, _rival, lambda one: one.memory_bytes, Unit.BYTES,
         doc="The largest that the process was, with the client's defaults for what it fetches ahead.")  # fmt: skip
    _row("time to import", "first record", OURS, _rival, lambda one: one.import_s, Unit.SECONDS)
    _row("time to the first record", "first record", OURS, _rival, lambda one: one.first_record_s, Unit.SECONDS,
         doc="From making the producer until its first record is acknowledged.")  # fmt: skip

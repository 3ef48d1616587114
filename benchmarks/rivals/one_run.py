"""All rows of a table come from one run beside a rival: what the `bench_` modules of such tables share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from benchmarks.harness import Bench, Result, Rival, Unit

OURS, THEIRS = "Ottla", "Kafka"

D = TypeVar("D")


class Beside(Protocol):
    """A run that may have had nobody to run beside."""

    @property
    def no_rival(self) -> str: ...


def one_run(run: Callable[[Bench], D]) -> Callable[[bool], D]:
    """What gives the run, quick or whole, that all rows are taken from; one that fails is not tried again for each."""

    @functools.cache
    def outcome_of(quick: bool) -> D | Exception:
        bench = Bench(quick=quick)
        try:
            return run(bench)
        except Exception as error:  # noqa: BLE001  every row raises it
            return error
        finally:
            bench.close()

    def duel_of(quick: bool) -> D:
        found = outcome_of(quick)
        if isinstance(found, Exception):
            raise found
        return found

    return duel_of


def beside(duel: Beside, figures: Mapping[str, float], unit: Unit, note: str = "") -> Result:
    """A row: our figure, and Kafka's where there was one."""
    rival = Rival(THEIRS, figures[THEIRS]) if THEIRS in figures else None
    return Result(figures[OURS], unit, rival, note, duel.no_rival)

"""Aggregates that are named instead of written: `count()`, `sum("value.amount")`, `min`, `max`, `mean`.

A named aggregate has two forms that give the same results: Spark's own (for tables without windows) and a fold over
plain values (for windows, which a task keeps itself, see `tasks`). Null arguments are passed over, as in SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Expression, check

NAMES = ("count", "sum", "min", "max", "mean")
REVERSIBLE = ("count", "sum", "mean")
"""Those that a record can be taken out of again, as it must where a table is grouped."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One named aggregate; `argument` is what it is taken of, None for a count of records."""

    name: str
    argument: Expression | None = None


def count() -> Fold:
    """How many records there were."""
    return Fold("count")


def sum(argument: Expression = "value") -> Fold:
    """The sum of a number: an integer of 64 bits or a double."""
    return Fold("sum", check(argument, "sum"))


def min(argument: Expression = "value") -> Fold:
    """The least of what was seen."""
    return Fold("min", check(argument, "min"))


def max(argument: Expression = "value") -> Fold:
    """The greatest of what was seen."""
    return Fold("max", check(argument, "max"))


def mean(argument: Expression = "value") -> Fold:
    """The arithmetic mean, as a double."""
    return Fold("mean", check(argument, "mean"))


def named(fold: Fold | None, folds: Mapping[str, Fold], *, adder: object) -> tuple[tuple[str | None, Fold], ...]:
    """The named aggregates that were asked for, none when there is an adder instead; one way of asking at a time."""
    if (fold is not None) + bool(folds) + (adder is not None) != 1:
        raise PipelineError("aggregate takes one named aggregate, several by name, or initial and adder")
    return tuple(folds.items()) if fold is None else ((None, fold),)


def empty(fold: Fold) -> Any:
    """The state of a fold that has seen nothing."""
    match fold.name:
        case "count":
            return 0
        case "mean":
            return [0.0, 0]
        case "sum" | "min" | "max":
            return None
    raise PipelineError(f"no aggregate is named {fold.name!r}")


def step(fold: Fold, state: Any, argument: Any) -> Any:
    """The state after one more record."""
    if fold.name == "count":
        return state + 1
    if argument is None:
        return state
    if fold.name == "mean":
        return [state[0] + argument, state[1] + 1]
    return argument if state is None else _two(fold, state, argument)


def merge(fold: Fold, left: Any, right: Any) -> Any:
    """The state of two sets of records together: two sessions that became one."""
    if fold.name == "count":
        return left + right
    if fold.name == "mean":
        return [left[0] + right[0], left[1] + right[1]]
    if left is None or right is None:
        return right if left is None else left
    return _two(fold, left, right)


def result(fold: Fold, state: Any) -> Any:
    """What a state says."""
    if fold.name == "mean":
        return state[0] / state[1] if state[1] else None
    return state


def _two(fold: Fold, left: Any, right: Any) -> Any:
    if fold.name == "sum":
        return left + right
    return left if (left <= right) == (fold.name == "min") else right

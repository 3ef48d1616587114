"""How an aggregate's state grows: named folds or Python functions, behind one face.

State is what JSON can hold. Values come as JSON text: `{"value": ...}` for Python functions, `{"a0": ..., "a1": ...}`
with one argument for each fold.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.graph import Aggregation


@dataclass(frozen=True, slots=True)
class Gathering:
    """An aggregation made ready for a task."""

    aggregation: Aggregation

    def initial(self) -> Any:
        """The state that has seen nothing."""
        if self.aggregation.folds:
            return [aggregates.empty(fold) for _, fold in self.aggregation.folds]
        return None if self.aggregation.reducer else self.aggregation.initial

    def add(self, key: str, value: str | None, state: Any) -> Any:
        """The state after one more record."""
        given = json.loads(value) if value is not None else {}
        if self.aggregation.folds:
            folds = enumerate(self.aggregation.folds)
            return [
                aggregates.step(fold, state[index], _number(fold, given.get(f"a{index}"))) for index, (_, fold) in folds
            ]
        new = given.get("value")
        if self.aggregation.reducer:
            return new if state is None else self.aggregation.reducer.function(state, new)
        assert self.aggregation.adder is not None
        return self.aggregation.adder.function(plain(key), new, state)

    def merge(self, key: str, left: Any, right: Any) -> Any:
        """The state of two sessions that became one."""
        if self.aggregation.folds:
            pairs = enumerate(self.aggregation.folds)
            return [aggregates.merge(fold, left[index], right[index]) for index, (_, fold) in pairs]
        if self.aggregation.reducer:
            if left is None or right is None:
                return right if left is None else left
            return self.aggregation.reducer.function(left, right)
        assert self.aggregation.merger is not None
        return self.aggregation.merger.function(plain(key), left, right)

    def result(self, state: Any) -> str | None:
        """What a state says, as JSON text."""
        value = state
        if self.aggregation.folds:
            results = [
                aggregates.result(fold, one) for (_, fold), one in zip(self.aggregation.folds, state, strict=True)
            ]
            names = [name for name, _ in self.aggregation.folds]
            value = results[0] if names == [None] else dict(zip(names, results, strict=True))
        return None if value is None else json.dumps({"value": value}, separators=(",", ":"))


def plain(key: str | None) -> Any:
    """A key as a Python value."""
    return None if key is None else json.loads(key).get("key")


def _number(fold: Fold, argument: Any) -> Any:
    """Spark writes what JSON has no number for (NaN, Infinity) as text."""
    return float(argument) if isinstance(argument, str) and fold.name in ("sum", "mean") else argument

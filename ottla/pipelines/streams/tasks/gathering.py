"""How an aggregate's state grows: named folds or Python functions, behind one face.

State is what JSON can hold. Values come as JSON text: `{"value": ...}` for Python functions, `{"a0": ..., "a1": ...}`
with one argument for each fold.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.expressions import Python
from ottla.pipelines.streams.graph import Accumulation, Aggregation, Cogrouping, Folds, Reduction


@dataclass(frozen=True, slots=True)
class Gathering:
    """An aggregation made ready for a task."""

    aggregation: Aggregation

    def initial(self) -> Any:
        """The state that has seen nothing."""
        match self.aggregation:
            case Folds(folds):
                return [aggregates.empty(fold) for _, fold in folds]
            case Reduction():
                return None
            case Accumulation(initial=initial) | Cogrouping(initial=initial):
                return deepcopy(initial)  # a function may put its values into what it is given

    @property
    def streams(self) -> int:
        """How many streams are gathered: those of a cogroup have a time each."""
        return len(self.aggregation.adders) if isinstance(self.aggregation, Cogrouping) else 1

    def add(self, key: str, value: str | None, state: Any, side: int = 0) -> Any:
        """The state after one more record, of that stream of a cogroup."""
        given = json.loads(value) if value is not None else {}
        match self.aggregation:
            case Folds(folds):
                return [
                    aggregates.step(fold, state[index], _number(fold, given.get(f"a{index}")))
                    for index, (_, fold) in enumerate(folds)
                ]
            case Reduction(reducer=reducer):
                new = given.get("value")
                return new if state is None else reducer.function(state, new)
            case Accumulation(adder=adder):
                return adder.function(plain(key), given.get("value"), state)
            case Cogrouping(adders=adders):
                return adders[side].function(plain(key), given.get("value"), state)

    def subtract(self, key: str, value: str, state: Any) -> Any:
        """The state after a row has left; only Python functions come here, for Spark takes named folds back itself."""
        old = json.loads(value)["value"]
        match self.aggregation:
            case Reduction(subtractor=Python() as subtractor):
                return subtractor.function(state, old)
            case Accumulation(subtractor=Python() as subtractor):
                return subtractor.function(plain(key), old, state)
        raise AssertionError("what a table is grouped for has a subtractor")

    def merge(self, key: str, left: Any, right: Any) -> Any:
        """The state of two sessions that became one."""
        match self.aggregation:
            case Folds(folds):
                return [aggregates.merge(fold, left[index], right[index]) for index, (_, fold) in enumerate(folds)]
            case Reduction(reducer=reducer):
                if left is None or right is None:
                    return right if left is None else left
                return reducer.function(left, right)
            case Accumulation(merger=merger) | Cogrouping(merger=merger):
                assert merger is not None, "an aggregate of sessions has a merger"
                return merger.function(plain(key), left, right)

    def result(self, state: Any) -> str | None:
        """What a state says, as JSON text."""
        value = state
        if isinstance(self.aggregation, Folds):
            folds = self.aggregation.folds
            results = [aggregates.result(fold, one) for (_, fold), one in zip(folds, state, strict=True)]
            names = [name for name, _ in folds]
            value = results[0] if names == [None] else dict(zip(names, results, strict=True))
        return None if value is None else json.dumps({"value": value}, separators=(",", ":"))


def plain(key: str | None) -> Any:
    """A key as a Python value."""
    return None if key is None else json.loads(key).get("key")


def _number(fold: Fold, argument: Any) -> Any:
    """Spark writes what JSON has no number for (NaN, Infinity) as text."""
    return float(argument) if isinstance(argument, str) and fold.name in ("sum", "mean") else argument

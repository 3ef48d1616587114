"""How state lies in a checkpoint: which value a task's records are grouped by, and which steps are tasks.

Spark sends a group to the partition that its Murmur3 hash, modulo the number of partitions, names. Of the tasks' own
numbers, 6 land on 3 of 6 partitions and 64 on 37 of 64. The hash of one integer is a bijection of 32 bits, so each task
is grouped by the integer whose hash is the task's number: task n lies on partition `n % partitions` for every number of
partitions, and after state was divided anew too (`stores.scale`).

Promises: what a checkpoint was made with is gone on with. It is remembered in `<checkpoint>/topology` (`running`); a
checkpoint that remembers nothing of it is of the first version. Called by `running`, `driver` and `queries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

AGGREGATES, TASKS = 1, 2
"""Versions. In the first, joins of tables are Spark's aggregates, which keep deleted rows for ever."""
SPREAD_MAX = 4096
"""More tasks than that are even enough by chance. No value of theirs is the number of a task behind them, up to 200,000
tasks."""
SEED = 42
"""Of Spark's `hash` and of its exchanges."""
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MIX, _ADD = 5, 0xE6546B64
_FINAL_1, _FINAL_2 = 0x85EBCA6B, 0xC2B2AE35
_SIZE = 4
"""Bytes of an integer, which the hash takes in."""
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class StateFormat:
    """The format of a checkpoint's state."""

    version: int
    spread: int
    """How many tasks are grouped by a value that spreads them; the others by their number."""

    @classmethod
    def of_new(cls, tasks: int) -> StateFormat:
        """For a checkpoint that begins with so many tasks."""
        return cls(TASKS, min(tasks, SPREAD_MAX))

    @classmethod
    def of_known(cls, remembered: Mapping[str, Any]) -> StateFormat:
        """What a checkpoint was made with, by what it remembers."""
        known = remembered.get("state") or {"version": AGGREGATES, "spread": 0}
        if known["version"] > TASKS:
            raise PipelineError(
                f"the checkpoint's state is of version {known['version']}, and this Ottla reads up to {TASKS}: "
                f"start it with the Ottla that made it, or a newer one"
            )
        return cls(known["version"], known["spread"])

    def facts(self) -> dict[str, int]:
        """What a checkpoint remembers of it."""
        return asdict(self)

    def grouped_by(self, task: Column) -> Column:
        """The value to group a task's records by."""
        number = task.cast("int")
        if self.spread == 0:
            return number
        values = F.expr(f"array({', '.join(str(grouping_value(one)) for one in range(self.spread))})")
        return F.when(number < self.spread, F.get(values, number)).otherwise(number)


def grouping_value(task: int) -> int:
    """The 32-bit integer whose hash in Spark is `task`: Murmur3 (x86, 32 bits), step by step back."""
    value = _unshift(task & _WORD, 16)
    value = _divide(value, _FINAL_2)
    value = _unshift(value, 13)
    value = _divide(value, _FINAL_1)
    value = _unshift(value, 16) ^ _SIZE
    value = _divide((value - _ADD) & _WORD, _MIX)
    value = _turn_right(value, 13) ^ SEED
    value = _divide(value, _C2)
    value = _divide(_turn_right(value, 15), _C1)
    return value - (1 << 32) if value >> 31 else value


def _divide(value: int, factor: int) -> int:
    """What gives `value` when multiplied by an odd factor in 32 bits."""
    return value * pow(factor, -1, 1 << 32) & _WORD


def _unshift(value: int, bits: int) -> int:
    """What gives `value` when its upper bits are XORed into the lower ones."""
    found = value
    for _ in range(32 // bits):
        found = value ^ found >> bits
    return found


def _turn_right(value: int, bits: int) -> int:
    return (value >> bits | value << 32 - bits) & _WORD

"""A join of two tables by their key: which changes are results, and with which time, is as in Kafka Streams."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task

SIDES = ("left", "right")


@dataclass(frozen=True, slots=True)
class TableJoining:
    """Two tables. A key's state: the row and its time of each side that has one; of neither, there is no state.

    An output has the rows of both sides, the left one as its value; whoever reads it makes the result of them. Its time
    is the later one of the change and of the other side's row: a row that was deleted has none.
    """

    kind: str

    def process(self, task: Task, record: Record) -> None:
        """One change of a row."""
        if record.key is None:
            return
        name, other = SIDES[record.side], SIDES[1 - record.side]
        state = dict(task.state(record.key) or {})
        before = state.pop(name, None)
        if record.value is not None:
            state[name] = [record.value, record.timestamp]
        task.keep(record.key, state)
        if not self._is_told(record, had=before is not None, has_other=other in state):
            return
        left, right = (state[side][0] if side in state else None for side in SIDES)
        at = max(record.timestamp, state[other][1] if other in state else -1)
        task.update(record.key, None, None, Output(RESULT, record.key, left, right, at))

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    def _is_told(self, record: Record, *, had: bool, has_other: bool) -> bool:
        """A change is a result where the other side has a row, and without one where its own side is enough."""
        if has_other:
            return True
        is_enough = self.kind == "outer" or (self.kind == "left" and record.side == 0)
        return is_enough and (had or record.value is not None)

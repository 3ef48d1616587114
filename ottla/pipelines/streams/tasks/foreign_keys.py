"""The two steps of a foreign-key join: the left table's rows say which row they refer to; there both sides meet.

Answers may come from two places when a row changes what it refers to, so each carries the version of the left row and
of the right one: whoever gathers them keeps the greatest (see `compiler.tables`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task

SUBSCRIBE, UNSUBSCRIBE, ANSWER = 0, 1, 2
"""What the left side tells: I refer to you; no longer; and, when it refers to none, the answer itself."""


@dataclass(frozen=True, slots=True)
class Subscribing:
    """The left table. A key's state: the foreign key its row refers to. Outputs go to the foreign key."""

    def process(self, task: Task, record: Record) -> None:
        """One change of a row."""
        if record.key is None:
            return
        version = task.meta["version"] = task.meta.get("version", 0) + 1
        old = (task.state(record.key) or {}).get("refers")
        new = record.extra if record.value is not None else None
        if old is not None and old != new:
            self._tell(task, UNSUBSCRIBE, old, record, version)
        task.keep(record.key, {} if new is None else {"refers": new})
        self._tell(task, ANSWER if new is None else SUBSCRIBE, new, record, version)

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    @staticmethod
    def _tell(task: Task, what: int, foreign_key: str | None, record: Record, version: int) -> None:
        task.emit(
            Output(RESULT, foreign_key, record.value, record.key, record.timestamp, version=version, other_version=what)
        )


@dataclass(frozen=True, slots=True)
class Matching:
    """Where they meet. A foreign key's state: the right row, its version and its time, and who refers to it, which is
    key -> [row, version, time].

    The left side's `extra` is a JSON array of texts: key, version, what. An answer has the later time of its two rows.
    """

    def process(self, task: Task, record: Record) -> None:
        """A word from the left, or a change on the right."""
        if record.side == 1:
            if record.key is not None:
                self._right(task, record.key, record)
            return
        assert record.extra is not None
        left_key, *numbers = json.loads(record.extra)
        version, what = map(int, numbers)
        if what == ANSWER or record.key is None:
            task.emit(Output(RESULT, left_key, record.value, None, record.timestamp, version=version, other_version=0))
            return
        state = task.state(record.key) or _nobody()
        if what == UNSUBSCRIBE:
            state["from"].pop(left_key, None)
        else:
            state["from"][left_key] = [record.value, version, record.timestamp]
            self._answer(task, left_key, state)
        # The version outlives the row: an answer after a deletion must not look older than one before it.
        task.keep(record.key, state)

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    def _right(self, task: Task, key: str, record: Record) -> None:
        state = task.state(key) or _nobody()
        state |= {"row": record.value, "version": state["version"] + 1, "at": record.timestamp}
        for left_key in state["from"]:
            self._answer(task, left_key, state)
        task.keep(key, state)

    @staticmethod
    def _answer(task: Task, left_key: str, state: dict[str, Any]) -> None:
        left, version, at = state["from"][left_key]
        timestamp = max(at, state["at"])
        task.emit(
            Output(RESULT, left_key, left, state["row"], timestamp, version=version, other_version=state["version"])
        )


def _nobody() -> dict[str, Any]:
    """A foreign key's state before anybody has said anything of it."""
    return {"row": None, "version": 0, "at": -1, "from": {}}

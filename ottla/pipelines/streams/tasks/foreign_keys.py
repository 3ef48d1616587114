"""A foreign-key join in three steps: the left table's rows say which row they refer to; there both sides meet; and
where the left row lives, the newest answer is the result.

Answers may come from two places when a row changes what it refers to, so each carries the version of the left row and
of the right one, and the greatest counts. Versions are counted by each task and not by each row, so that a row that was
deleted is forgotten.

A deletion must outlive the older answers that are still on their way, and no longer. So a row that begins to refer to
something begins a subscription, which ends when it refers to nothing; the end says how many foreign keys were left
meanwhile. Each of those, when told so, says that it was its last word. Once all have, nothing older can come.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.tasks.entries import Entries
from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task

SUBSCRIBE, UNSUBSCRIBE, ANSWER = 0, 1, 2
"""What the left side tells: I refer to you; no longer; and, when it refers to none, the answer itself. Answers say
which of them they are to: a match (or a change on the right), a last word, and the end of a subscription."""


@dataclass(frozen=True, slots=True)
class Subscribing:
    """The left table. A key's state: the foreign key its row `refers` to, `since` which version there is a
    subscription, and how many foreign keys it has `left`.

    Outputs go to the foreign key: `kind` says what is told, `start` since when, `other_version` how many were left.
    """

    def process(self, task: Task, record: Record) -> None:
        """One change of a row."""
        if record.key is None:
            return
        version = task.meta["version"] = task.meta.get("version", 0) + 1
        state = task.state(record.key) or {}
        old, since, left = state.get("refers"), state.get("since", version), state.get("left", 0)
        new = record.extra if record.value is not None else None
        if old is not None and old != new:
            left += 1
            self._tell(task, UNSUBSCRIBE, old, record, version, since=since, left=left)
        task.keep(record.key, {} if new is None else {"refers": new, "since": since, "left": left})
        self._tell(task, ANSWER if new is None else SUBSCRIBE, new, record, version, since=since, left=left)

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    @staticmethod
    def _tell(
        task: Task, what: int, foreign_key: str | None, record: Record, version: int, *, since: int, left: int
    ) -> None:
        time = record.timestamp
        told = Output(what, foreign_key, record.value, record.key, time, since, version=version, other_version=left)
        task.emit(told)


@dataclass(frozen=True, slots=True)
class Matching:
    """Where they meet. A foreign key's state: the right row, its version and its time, and who refers to it, which is
    key -> [row, version, time, since].

    The left side's `extra` is a JSON array of texts: key, version, what, since, left. An answer has the later time of
    its two rows; its `kind` says what it answers.
    """

    last_words: bool = True
    """Whether a foreign key that was left says so. Checkpoints of the first version have nobody who hears it."""

    def process(self, task: Task, record: Record) -> None:
        """A word from the left, or a change on the right."""
        if record.side == 1:
            if record.key is not None:
                self._right(task, record.key, record)
            return
        assert record.extra is not None
        left_key, *numbers = json.loads(record.extra)
        version, what, *subscription = map(int, numbers)
        since, left = subscription or (0, 0)
        if what == ANSWER or record.key is None:
            over = Output(ANSWER, left_key, record.value, None, record.timestamp, since, version=version)
            task.emit(over._replace(other_version=left if self.last_words else 0))
            return
        state, known = self._known(task, record.key)
        if what == UNSUBSCRIBE:
            known.pop(left_key)
            if self.last_words:
                last = Output(UNSUBSCRIBE, left_key, None, None, record.timestamp, since, version=version)
                task.emit(last._replace(other_version=0))
        else:
            told = [record.value, version, record.timestamp, since]
            known.put(left_key, told)
            self._answer(task, left_key, told, state)
        self._keep(task, record.key, state)

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    def _right(self, task: Task, key: str, record: Record) -> None:
        state, known = self._known(task, key)
        task.meta["version"] = max(task.meta.get("version", 0), state["version"]) + 1
        state |= {"row": record.value, "version": task.meta["version"], "at": record.timestamp}
        for left_key, told in known.span():
            self._answer(task, left_key, told, state)
        self._keep(task, key, state)

    @staticmethod
    def _keep(task: Task, key: str, state: dict[str, Any]) -> None:
        """A row that is not there, and that nobody refers to, is forgotten; its version was the task's."""
        task.meta["version"] = max(task.meta.get("version", 0), state["version"])
        if state["row"] is None:
            state["at"] = -1  # what comes next has its own time, as in Kafka Streams
        task.keep(key, state if state["from"] or state["row"] is not None else {})

    @staticmethod
    def _known(task: Task, key: str) -> tuple[dict[str, Any], Entries]:
        """A foreign key's state, and who refers to it."""
        state = task.state(key) or {"row": None, "version": 0, "at": -1}
        return state, task.entries(key, state, "from", str)

    @staticmethod
    def _answer(task: Task, left_key: str, told: list[Any], state: dict[str, Any]) -> None:
        left, version, at, *subscription = told
        since = subscription[0] if subscription else 0  # as an earlier version kept it
        timestamp = max(at, state["at"])
        answer = Output(RESULT, left_key, left, state["row"], timestamp, since, version=version)
        task.emit(answer._replace(other_version=state["version"]))


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest answer for each row of the left table. A key's state: the `newest` versions, whether the row is
    `there`, whether a result of it is `known`, and its `open` subscriptions: since when -> how many last words came,
    less those that are announced.

    A record's value is the left row; its `extra` a JSON array: the right row, then as texts the two versions, what is
    answered, since when, and whether the two rows make a result. Where they make none, and none is known, nothing is
    given out: Kafka Streams, which does not know whether there was one, is sometimes on the safe side.
    """

    def process(self, task: Task, record: Record) -> None:
        """One answer."""
        if record.key is None:
            return
        assert record.extra is not None
        right, *numbers = json.loads(record.extra)
        version, other_version, what, since, has_result = map(int, numbers)
        state = task.state(record.key) or {"newest": [0, 0], "there": False, "open": {}}
        heard, announced = state["open"].get(str(since), [0, None])
        if what == UNSUBSCRIBE:
            heard += 1
        elif what == ANSWER:
            announced = other_version
        state["open"][str(since)] = [heard, announced]
        if heard == announced:
            del state["open"][str(since)]
        if what != UNSUBSCRIBE and [version, other_version] >= state["newest"]:
            is_told = bool(has_result) or state.get("known", state["there"])  # an earlier version did not note it
            there = record.value is not None
            state |= {"newest": [version, other_version], "there": there, "known": bool(has_result)}
            if is_told:
                task.update(record.key, None, None, Output(RESULT, record.key, record.value, right, record.timestamp))
        task.keep(record.key, state if state["there"] or state["open"] else {})

    def finish(self, task: Task) -> None:
        """Nothing closes."""

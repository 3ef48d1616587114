"""Tables by key without a window, made by Python functions: of a stream, and of another table."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task


@dataclass(frozen=True, slots=True)
class KeyAggregate:
    """One row a key. Records without a key or a value are passed over, as in Kafka Streams.

    A function that returns None takes the row away: the key's next record begins anew.
    """

    gathering: Gathering

    def process(self, task: Task, record: Record) -> None:
        """Adds a record to its key's row."""
        if record.key is None or record.value is None:
            task.skip(record)
            return
        old = task.state(record.key)
        if old is None or old["state"] is None:  # as an earlier version kept a row that was taken away
            old = {"at": record.timestamp, "state": self.gathering.initial()}
        state = self.gathering.add(record.key, record.value, old["state"], record.side)
        timestamp = max(old["at"], record.timestamp)
        task.keep(record.key, {} if state is None else {"at": timestamp, "state": state})
        result = self.gathering.result(state)
        task.update(record.key, None, None, Output(RESULT, record.key, result, None, timestamp))

    def finish(self, task: Task) -> None:
        """Nothing closes."""


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A table's rows on their way to new groups. A key's state: the group its row is in, and what it gave there.

    A record's value is what the row gives and its `extra` the group; outputs go to groups, with what comes in as their
    value and what leaves as the other one. A row that stays in its group is one change, so that nobody sees it between.
    A row whose group or value is null is in no group.
    """

    def process(self, task: Task, record: Record) -> None:
        """One change of a row."""
        if record.key is None:
            return
        old = task.state(record.key) or {}
        new = {} if record.value is None or record.extra is None else {"group": record.extra, "value": record.value}
        task.keep(record.key, new)
        if old and new and old["group"] == new["group"]:
            self._tell(task, record, new["group"], comes=new["value"], leaves=old["value"])
            return
        if old:
            self._tell(task, record, old["group"], leaves=old["value"])
        if new:
            self._tell(task, record, new["group"], comes=new["value"])

    def finish(self, task: Task) -> None:
        """Nothing closes."""

    @staticmethod
    def _tell(task: Task, record: Record, group: str, *, comes: str | None = None, leaves: str | None = None) -> None:
        task.emit(Output(RESULT, group, comes, leaves, record.timestamp))


@dataclass(frozen=True, slots=True)
class TableAggregate:
    """One row a group of a table. A record's value comes in, its `extra` leaves; what leaves does so first.

    A function that returns None takes the row away; what is subtracted from a row that is not there is passed over.
    """

    gathering: Gathering

    def process(self, task: Task, record: Record) -> None:
        """Takes out of a group's row what leaves it, and puts in what comes."""
        if record.key is None:
            return
        old = task.state(record.key)
        state, timestamp = (None, record.timestamp) if old is None else (old["state"], max(old["at"], record.timestamp))
        if record.extra is not None and state is not None:
            state = self.gathering.subtract(record.key, record.extra, state)
        if record.value is not None:
            initial = self.gathering.initial() if state is None else state
            state = self.gathering.add(record.key, record.value, initial)
        task.keep(record.key, {} if state is None else {"at": timestamp, "state": state})
        result = self.gathering.result(state)
        task.update(record.key, None, None, Output(RESULT, record.key, result, None, timestamp))

    def finish(self, task: Task) -> None:
        """Nothing closes."""

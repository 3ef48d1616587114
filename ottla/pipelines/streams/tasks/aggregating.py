"""Tables by key without a window, made by Python functions."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.task import RESULT, Output, Record, Task


@dataclass(frozen=True, slots=True)
class KeyAggregate:
    """One row a key. Records without a key or a value are passed over, as in Kafka Streams."""

    gathering: Gathering

    def process(self, task: Task, record: Record) -> None:
        """Adds a record to its key's row."""
        if record.key is None or record.value is None:
            return
        old = task.state(record.key) or {"at": record.timestamp, "state": self.gathering.initial()}
        state = self.gathering.add(record.key, record.value, old["state"])
        timestamp = max(old["at"], record.timestamp)
        task.keep(record.key, {"at": timestamp, "state": state})
        result = self.gathering.result(state)
        task.update(record.key, None, None, Output(RESULT, record.key, result, None, timestamp))

    def finish(self, task: Task) -> None:
        """Nothing closes."""

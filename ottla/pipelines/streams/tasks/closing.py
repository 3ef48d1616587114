"""When a task has to look for windows that closed: not before the first one can have.

Looking means walking over every key's state, so a task remembers the earliest end of an open window and looks once a
batch at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.pipelines.streams.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Closing:
    """The earliest end of what is open in a task."""

    task: Task

    def opened(self, end: int) -> None:
        """Something that ends then is open."""
        first = self.task.meta.get("first_end")
        self.task.meta["first_end"] = end if first is None else min(first, end)

    def is_due(self, close_time: int) -> bool:
        """Whether something may have closed; then all of it is looked at and what stays open is `opened` anew."""
        first = self.task.meta.get("first_end")
        if first is None or first > close_time:
            return False
        self.task.meta["first_end"] = None
        return True

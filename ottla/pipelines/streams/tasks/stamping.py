"""Times that depend on the records before: what an extractor makes of a record and of its partition's time.

As in Kafka Streams, partition time is the greatest time that was given to a record of the partition before this one,
and outlives a restart. A record that gets a negative time is passed over and does not move it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.streams.expressions import Python
from ottla.pipelines.streams.timestamps import UNKNOWN_TIME, TimestampExtractor


@dataclass(frozen=True, slots=True)
class Stamping:
    """An extractor that knows partition time."""

    extractor: TimestampExtractor

    def stamp(
        self, records: Sequence[tuple[int, str | None, str | None]], partition_time: int
    ) -> tuple[list[int | None], int]:
        """The times of a partition's records, in order, and its time after them.

        A record is its own time, and its key and value as JSON text. None says that no time was found.
        """
        times: list[int | None] = []
        for record in records:
            time = self._time(*record, partition_time)
            times.append(time)
            if time is not None:
                partition_time = max(partition_time, time)
        return times, partition_time

    def _time(self, timestamp: int, key: str | None, value: str | None, partition_time: int) -> int | None:
        function = self.extractor.expression
        if function is None:
            if timestamp >= 0:
                return timestamp
            return partition_time if partition_time != UNKNOWN_TIME else None
        assert isinstance(function, Python), "only Python functions know partition time"
        found = function.function(partition_time, timestamp, _plain(key, "key"), _plain(value, "value"))
        return None if found is None else int(found)


def _plain(text: str | None, name: str) -> Any:
    """A key or value as a Python value."""
    return None if text is None else json.loads(text).get(name)

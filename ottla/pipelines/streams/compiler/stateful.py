"""Tasks on Spark: `transformWithState` with a group for each task and its state in one map.

A batch's records of a task come from several readers, so they are put in order first: each partition's own, and between
partitions the one whose next record has the smallest time goes first, as Kafka Streams chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ottla.pipelines.streams.tasks.task import Operator, Output, Record, run

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import TimerValues

RESULT_SCHEMA = (
    "kind INT, key_text STRING, value_text STRING, other_text STRING, timestamp BIGINT, start BIGINT, end BIGINT, "
    "version BIGINT, other_version BIGINT"
)


def transform(operator: Operator, records: DataFrame) -> DataFrame:
    """Runs an operator over records.

    They have `task`, `side`, `topic`, `partition`, `offset`, `seq`, `timestamp`, `key_text`, `value_text`, `extra`.
    """
    return records.groupBy("task").transformWithStateInPandas(TaskProcessor(operator), RESULT_SCHEMA, "Append", "None")


class TaskProcessor(StatefulProcessor):
    """What Spark calls for each task that has records in a batch."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark's beginning: the state variables."""
        self._state = handle.getMapState("task", "key STRING", "value STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[pd.DataFrame]:
        """One batch of one task."""
        import pandas as pd

        outputs = run(self._operator, MapShelf(self._state), ordered(pd.concat(rows, ignore_index=True)))
        if outputs:
            yield frame(outputs)

    def close(self) -> None:
        """Nothing is held."""


def ordered(rows: pd.DataFrame) -> list[Record]:
    """A batch's records in the order a task takes them."""
    places = ["topic", "partition", "offset", "seq"]
    rows = rows.sort_values([*places, "side"], kind="stable")
    rows["reached"] = rows.groupby(["topic", "partition"])["timestamp"].cummax()
    # Of one time, a table's change (side 1) comes before the record that looks for it.
    rows = rows.sort_values(
        ["reached", "side", *places], ascending=[True, False, True, True, True, True], kind="stable"
    )
    columns = [rows[name].tolist() for name in ("side", "key_text", "value_text", "timestamp", "extra")]
    return [
        Record(side, _text(key), _text(value), time, _text(extra))
        for side, key, value, time, extra in zip(*columns, strict=True)
    ]


def frame(outputs: list[Output]) -> pd.DataFrame:
    """A task's outputs as Spark takes them."""
    import pandas as pd

    kinds, keys, values, others, times, starts, ends, versions, other_versions = zip(*outputs, strict=True)
    return pd.DataFrame(
        {
            "kind": pd.array(kinds, dtype="Int32"),
            "key_text": pd.Series(keys, dtype="object"),
            "value_text": pd.Series(values, dtype="object"),
            "other_text": pd.Series(others, dtype="object"),
            "timestamp": pd.array(times, dtype="Int64"),
            "start": pd.array(starts, dtype="Int64"),
            "end": pd.array(ends, dtype="Int64"),
            "version": pd.array(versions, dtype="Int64"),
            "other_version": pd.array(other_versions, dtype="Int64"),
        }
    )


def _text(value: object) -> str | None:
    """pandas has several ways to say null."""
    return value if isinstance(value, str) else None


class MapShelf:
    """A task's state in Spark's map state."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, key: str) -> str | None:
        found = self._state.getValue((key,))
        return None if found is None else str(found[0])

    def put(self, key: str, value: str) -> None:
        self._state.updateValue((key,), (value,))

    def delete(self, key: str) -> None:
        self._state.removeKey((key,))

    def items(self) -> Iterator[tuple[str, str]]:
        for key, value in self._state.iterator():
            yield key[0], value[0]

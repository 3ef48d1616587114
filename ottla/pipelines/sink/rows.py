"""The rows of a frame as records to be: which columns they are made of, and of which types these must be.

The columns are those of Spark's own connector: `value`, and where they are there `key`, `headers`, `topic` and
`partition`; others are left out. With the option `includeTimestamp` there is `timestamp` too: Spark's connector has no
such thing, and passes over a column of that name, which every frame has that was read from a topic. The column
`ottla_placed_at`, which `partitioning` adds, is no part of a record. It says that the rows are placed, and when Spark
planned the micro-batch. Promises: a frame that cannot be written is refused when the writer is made, in one line that
names the column. `RowShape` needs neither Spark nor Arrow to be made; `batches` needs Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_OR_BYTES = ("string", "binary")
TIMESTAMP = "timestamp"
HEADERS = "array<struct<key:string,value:binary>>"
KINDS = {
    "value": TEXT_OR_BYTES,
    "key": TEXT_OR_BYTES,
    "headers": (HEADERS,),
    "topic": ("string",),
    "partition": ("int",),
    TIMESTAMP: ("timestamp", "bigint"),
}
"""The columns, and Spark's names of the types that each may have."""
PLACED_AT = "ottla_placed_at"
"""The column that says: the rows of each Kafka partition are in one task. Its value is the time at which Spark planned
the micro-batch, which is the same when Spark replays the batch."""
TASKS = "ottla.tasks"
"""In the metadata of `PLACED_AT`: partition p is in task `p % tasks`."""
WAY_OUT = (
    "write with ottla.pipelines.write_stream(frame, topic, ...), "
    "or shuffle the frame, as its last step, with ottla.pipelines.to_partitions(frame, topic, ...)"
)
GATHERED_BYTES = 1024 * 1024
"""Spark hands over a few thousand rows at a time: small ones are gathered, so that batches of records become large."""


@dataclass(frozen=True, slots=True)
class RowShape:
    """Which columns of a frame make the records. It goes to the tasks with the writer."""

    columns: tuple[str, ...]
    """Those that are taken, by the frame's own spelling."""
    names: tuple[str, ...]
    """The same, by ours."""
    topic: str | None
    """The topic of all rows; None where the column says it."""
    placed_at: str | None = None
    """The column that says that the rows are placed, by the frame's own spelling; None where nothing says so."""
    tasks: int | None = None
    """Partition p has to be in task `p % tasks`; None where the frame's author vouches for the placement."""

    @property
    def has_timestamps(self) -> bool:
        """Whether rows say their record's time, or null for that of writing; a number is milliseconds since 1970."""
        return TIMESTAMP in self.names

    def planned_ms(self, batch: pa.RecordBatch) -> int | None:
        """When Spark planned the micro-batch that these rows, one at least, are of; None where they do not say it."""
        if self.placed_at is None:
            return None
        planned_us = batch.column(batch.schema.get_field_index(self.placed_at))[0].value
        return None if planned_us is None else planned_us // 1000  # Spark hands over microseconds, always

    def batches(self, handed: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What Spark hands over, gathered and by topic, with columns that `ArrowRows` takes."""
        from ottla.client.columnar.writer import by_topic

        for batch in gathered(handed):
            taken = batch.select(self.columns).rename_columns(list(self.names))
            if self.topic is not None:
                yield self.topic, taken
                continue
            index = taken.schema.get_field_index("topic")
            if taken.column(index).null_count:
                raise PipelineError("a row has no topic: the column topic is null; fill it, or set the option topic")
            yield from by_topic(taken)


def row_shape(schema: Any, topic: str | None, *, includes_timestamp: bool = False) -> RowShape:
    """The shape of a frame with this Spark schema; `PipelineError` when its rows cannot be records."""
    found: dict[str, str] = {}
    placed_at: str | None = None
    tasks: int | None = None
    for field in schema.fields:
        name = field.name.lower()
        if name == PLACED_AT:
            if placed_at is not None:
                raise PipelineError(
                    f"the column {PLACED_AT} is there twice: call to_partitions or already_placed, once"
                )
            if field.dataType.simpleString() != "timestamp":
                raise PipelineError(f"the column {PLACED_AT} must be a timestamp: leave it to to_partitions")
            placed_at, tasks = field.name, (field.metadata or {}).get(TASKS)
        if name not in KINDS or (name == TIMESTAMP and not includes_timestamp):
            continue
        if name in found:
            raise PipelineError(f"the column {name} is there twice: {found[name]} and {field.name}")
        kind = field.dataType.simpleString()
        if not _is_of(name, field.dataType, kind):
            raise PipelineError(f"the column {name} is of type {kind}, and must be {' or '.join(KINDS[name])}")
        found[name] = field.name
    if "value" not in found:
        raise PipelineError("the column value is missing: a record needs one, string or binary")
    if includes_timestamp and TIMESTAMP not in found:
        raise PipelineError("the column timestamp is missing, and the option includeTimestamp is true")
    if topic is None and "topic" not in found:
        raise PipelineError("no topic: set the option topic, or give the frame a column topic")
    if topic is not None:
        found.pop("topic", None)
    return RowShape(tuple(found.values()), tuple(found), topic, placed_at, tasks)


def require_placed(shape: RowShape) -> None:
    """Refuses a frame of which nothing says that the rows of each Kafka partition come from one task.

    By its columns alone, so that a query is refused in its first micro-batch whatever the rows are. Whether two tasks
    meet in a partition depends on the rows, and may happen for the first time after days.
    """
    if shape.placed_at is None:
        raise PipelineError(
            "delivery is exactly-once, which needs the rows of each Kafka partition to come from one task, and this "
            f"frame does not say so: {WAY_OUT}. If they do come from one task, say so with "
            "ottla.pipelines.already_placed(frame); delivery=at-least-once takes any frame"
        )


def _is_of(name: str, data_type: Any, kind: str) -> bool:
    if name == "headers":
        # The fields of a header may be named otherwise, as they may for Spark's connector: their order tells them.
        element = getattr(data_type, "elementType", None)
        fields = getattr(element, "fields", ())
        return [one.dataType.simpleString() for one in fields] == ["string", "binary"]
    # A string with a collation or a length is a string.
    return kind in KINDS[name] or ("string" in KINDS[name] and kind.startswith(("string ", "varchar(", "char(")))


def gathered(handed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches, each of about `GATHERED_BYTES` or as large as it came."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in handed:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= GATHERED_BYTES:
            yield _joined(pa, waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(pa, waiting)


def _joined(pa: Any, waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(waiting) == 1:
        return waiting[0]
    return pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

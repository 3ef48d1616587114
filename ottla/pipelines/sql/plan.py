"""What a continuous SELECT is once it is planned: a result, its columns, and the steps that give it.

A plan is finished once: `to` writes the result to a stream's or table's topic, `show` gives whole rows to a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.sql import formats
from ottla.pipelines.sql.catalog import Source
from ottla.pipelines.sql.errors import SqlError, SyntaxProblem
from ottla.pipelines.sql.tokens import Token, quoted
from ottla.pipelines.streams.builder import StreamsBuilder
from ottla.pipelines.streams.graph import Topology
from ottla.pipelines.streams.kstream import KStream
from ottla.pipelines.streams.ktable import KTable

ROWS = "rows"
"""The sink of a plan whose rows are shown: no topic."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result, and the text that gives it over the result's key and value."""

    name: str
    ref: str
    token: Token
    is_key: bool = False
    is_named: bool = True
    """Whether it is a column or has an alias; the name of another is only good to be shown."""


@dataclass(slots=True)
class Plan:
    """A planned query."""

    kind: str
    """STREAM or TABLE."""
    outputs: list[Output]
    sources: list[Source]
    analysis: str
    """The query for Spark's analyser, over views that are named after the sources."""
    builder: StreamsBuilder
    result: KStream | KTable
    key_count: int
    """How many columns its key has; 0 where there is none."""
    key_names: tuple[str, ...] = ()
    """The names that the columns of a key of several have in it; empty for a key of one."""
    key_text: str | None = None
    """What makes the key, where PARTITION BY says."""
    missing_key: str | None = None
    """A column of the key that is not among the outputs, as the user would write it."""
    windows: tuple[str, int | None] | None = None
    """Of the result's keys: TIME or SESSION, and the size."""
    reads_windowed: bool = False
    """Whether the windows are those of the source."""
    copartitioned: tuple[str, ...] = ()
    """Topics that are joined partition by partition."""
    lines: list[str] = field(default_factory=list)

    @property
    def keys(self) -> list[Output]:
        return [one for one in self.outputs if one.is_key]

    @property
    def values(self) -> list[Output]:
        return [one for one in self.outputs if not one.is_key]

    def check_names(self) -> None:
        """Refuses a result that cannot be kept: columns without names or with one name, or without their key."""
        seen: set[str] = set()
        for one in self.outputs:
            if not one.is_named:
                raise _at(one, f"give the column a name: {one.name} AS ...")
            if one.name.lower() in seen:
                raise _at(one, f"there are two columns {one.name}: give one of them another name with AS")
            seen.add(one.name.lower())
        if self.missing_key is not None:
            raise _at(self.outputs[0], f"the result has {self.missing_key} as its key: SELECT it as well")
        if not self.values:
            raise _at(self.outputs[0], "the result has a key and no value: SELECT another column as well")

    def to(self, sink: Source, application: str, registry: str | None = None) -> Topology:
        """The topology that writes the result to the sink's topic; columns of it that are not selected are null."""
        by_name = {one.name.lower(): one.ref for one in self.values}
        if sink.value_format == "KAFKA":
            value = self.values[0].ref
        else:
            value = struct([
                (column.name, by_name.get(column.name.lower()) or f"cast(NULL AS {column.type})")
                for column in sink.value_columns
            ])  # fmt: skip
        self.lines.append(f"select    {value}")
        key = self._sink_key(sink)
        if isinstance(self.result, KTable):
            stream = self.result.map_values(value, name="select").to_stream(name="changes")
            if key is not None:
                stream = stream.select_key(key, name="rename-key")
        elif key is not None:
            stream = self.result.map(key, value, name="select")
        else:
            stream = self.result.map_values(value, name="select")
        serde = formats.key_serde(sink.key_columns, sink.key_format) if self.key_count else None
        if serde is not None and self.reads_windowed:
            assert sink.window is not None, "a result with a windowed source's keys is a windowed table"
            serde = formats.windowed(serde, sink.window, sink.window_size_ms)
        stream.to(sink.topic, key=serde, value=formats.value_serde(sink, registry), name="sink")
        self.lines.append(f"write     topic {sink.topic}, key {sink.key_format}, value {sink.value_format}")
        return self._build(application)

    def show(self, application: str) -> Topology:
        """The topology that gives whole rows, as JSON objects with the fields `c0`, `c1` and so on."""
        row = struct([(f"c{index}", one.ref) for index, one in enumerate(self.outputs)])
        self.lines.append(f"select    {struct([(one.name, one.ref) for one in self.outputs])}")
        stream = self.result.to_stream(name="changes") if isinstance(self.result, KTable) else self.result
        stream.map_values(row, name="select").to(ROWS, name="sink")
        return self._build(application)

    def _sink_key(self, sink: Source) -> str | None:
        """What makes the sink's key of the result's; None where it is the same."""
        if self.key_text is not None:
            return self.key_text
        names = tuple(one.name for one in sink.key_columns)
        if self.key_names in ((), names):
            return None
        if self.windows is not None:
            raise SqlError(f"a windowed key of several columns keeps their names: {', '.join(self.key_names)}")
        by_name = {one.name.lower(): one.ref for one in self.keys}
        return struct([(name, by_name[name.lower()]) for name in names])

    def _build(self, application: str) -> Topology:
        try:
            return self.builder.build(application)
        except PipelineError as error:
            raise SqlError(str(error)) from None


def struct(fields: Sequence[tuple[str, str]]) -> str:
    """A struct of named texts, in Spark's SQL."""
    return f"named_struct({', '.join(f'{literal(name)}, {ref}' for name, ref in fields)})"


def literal(name: str) -> str:
    """A text as a string in Spark's SQL."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def field_of(base: str, name: str) -> str:
    """A struct's field, in Spark's SQL."""
    return f"{base}.{quoted(name)}"


def _at(output: Output, message: str) -> SqlError:
    return SyntaxProblem(message, output.token.line, output.token.column)

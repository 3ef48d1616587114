"""`KTable`: the latest value of each key, as a stream of changes; `GlobalKTable`: a whole topic to look into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Expression, check
from ottla.pipelines.streams.graph import (
    Filter,
    ForeignKeyMatch,
    ForeignKeyResult,
    ForeignKeySubscribe,
    Graph,
    MapValues,
    Pass,
    Suppress,
    TableJoin,
    Work,
)
from ottla.pipelines.streams.windows import Windows

if TYPE_CHECKING:
    from ottla.pipelines.streams.kstream import KStream


class KTable:
    """A table: each change of a row is a record, a null value deletes the row."""

    def __init__(self, graph: Graph, node: str, *, windows: Windows | None = None) -> None:
        self._graph = graph
        self.node = node
        self._windows = windows

    def filter(self, condition: Expression) -> KTable:
        """The rows for which the condition holds; one that no longer does is deleted."""
        return self._then("KTABLE-FILTER", Filter(check(condition, "filter"), table=True))

    def filter_not(self, condition: Expression) -> KTable:
        """The rows for which the condition does not hold."""
        return self._then("KTABLE-FILTER", Filter(check(condition, "filter_not"), negated=True, table=True))

    def map_values(self, value: Expression) -> KTable:
        """A new value for each row."""
        return self._then("KTABLE-MAPVALUES", MapValues(check(value, "map_values"), table=True))

    def suppress(self) -> KTable:
        """A windowed table's rows once and for all, when their window has closed: `untilWindowCloses`."""
        if self._windows is None:
            raise PipelineError("suppress() waits until windows close: the table has none")
        return self._then("KTABLE-SUPPRESS", Suppress())

    def to_stream(self) -> KStream:
        """Each change of a row as a record."""
        from ottla.pipelines.streams.kstream import KStream

        name = self._graph.name("KTABLE-TOSTREAM")
        return KStream(self._graph, self._graph.add(name, Pass("to_stream"), self.node))

    def join(self, other: KTable, joiner: Expression, *, foreign_key: Expression | None = None) -> KTable:
        """Rows that have a partner: of the same key, or of the key that `foreign_key` finds in the row."""
        return self._join(other, joiner, foreign_key, "inner")

    def left_join(self, other: KTable, joiner: Expression, *, foreign_key: Expression | None = None) -> KTable:
        """As `join`, and rows without a partner with null in its place."""
        return self._join(other, joiner, foreign_key, "left")

    def outer_join(self, other: KTable, joiner: Expression) -> KTable:
        """As `left_join`, for both sides."""
        return self._join(other, joiner, None, "outer")

    def _join(self, other: KTable, joiner: Expression, foreign_key: Expression | None, kind: str) -> KTable:
        check(joiner, "a join")
        add, name = self._graph.add, self._graph.name
        if foreign_key is None:
            node = name("KTABLE-JOIN")
            add(node, TableJoin(joiner, kind), self.node, other.node, stores=(f"{node}-store",))
            return KTable(self._graph, node)
        subscribe = name("KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION")
        add(subscribe, ForeignKeySubscribe(check(foreign_key, "a join")), self.node, stores=(f"{subscribe}-store",))
        match = name("KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR")
        add(match, ForeignKeyMatch(kind), subscribe, other.node, stores=(f"{match}-store",))
        result = name("KTABLE-FK-JOIN-OUTPUT")
        return KTable(self._graph, add(result, ForeignKeyResult(joiner), match, stores=(f"{result}-store",)))

    def _then(self, kind: str, work: Work) -> KTable:
        return KTable(self._graph, self._graph.add(self._graph.name(kind), work, self.node), windows=self._windows)


class GlobalKTable:
    """A topic that every worker has as a whole: streams join it on any key."""

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self.node = node

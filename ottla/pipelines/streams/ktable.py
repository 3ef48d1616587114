"""`KTable`: the latest value of each key, as a stream of changes; `KGroupedTable`: its rows put together by a new key;
`GlobalKTable`: a whole topic to look into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.expressions import Expression, Python, check, check_python
from ottla.pipelines.streams.graph import (
    Accumulation,
    Aggregate,
    Aggregation,
    Filter,
    Folds,
    ForeignKeyMatch,
    ForeignKeyResult,
    ForeignKeySubscribe,
    Graph,
    MapValues,
    Pass,
    Reduction,
    Regroup,
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

    def to_stream(self, key: Expression | None = None) -> KStream:
        """Each change of a row as a record, under a new key if one is given."""
        from ottla.pipelines.streams.kstream import KStream

        name = self._graph.name("KTABLE-TOSTREAM")
        stream = KStream(self._graph, self._graph.add(name, Pass("to_stream"), self.node))
        return stream if key is None else stream.select_key(key)

    def group_by(self, key: Expression, value: Expression = "value") -> KGroupedTable:
        """The rows by a new key, each with a new value if one is given.

        A row that changes leaves its old group with its old value and comes into its new one with its new value. A row
        whose group or value is null is in no group.
        """
        name = self._graph.name("KTABLE-SELECT")
        work = Regroup(check(key, "group_by"), check(value, "group_by"))
        return KGroupedTable(self._graph, self._graph.add(name, work, self.node, stores=(f"{name}-store",)))

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


class KGroupedTable:
    """A table's rows put together by a new key, about to become another table."""

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self._node = node

    def count(self, *, name: str | None = None) -> KTable:
        """How many rows each group has; 0 once the last one has left."""
        return self._table(Folds(((None, aggregates.count()),)), "AGGREGATE", name)

    def reduce(self, adder: Python, subtractor: Python, *, name: str | None = None) -> KTable:
        """The values of a group made one: `adder(so_far, value)` puts one in, `subtractor(so_far, value)` takes it out.

        Either may return None, and the group has no row then.
        """
        functions = (check_python(adder, "reduce"), check_python(subtractor, "reduce"))
        return self._table(Reduction(*functions), "REDUCE", name)

    def aggregate(
        self,
        fold: Fold | None = None,
        *,
        initial: Any = None,
        adder: Python | None = None,
        subtractor: Python | None = None,
        name: str | None = None,
        **folds: Fold,
    ) -> KTable:
        """One of `count`, `sum` and `mean`, several as a struct, or `initial`, `adder` and `subtractor`, both of
        `(key, value, so_far)`.

        State made by Python functions is kept as JSON: numbers, text, lists and dictionaries.
        """
        folded = aggregates.named(fold, folds, adder=adder)
        if adder is None:
            for _, one in folded:
                if one.name not in aggregates.REVERSIBLE:
                    raise PipelineError(
                        f"{one.name} cannot be told without a row that has left its group: give aggregate an initial "
                        "value, an adder and a subtractor that remember what they need"
                    )
            return self._table(Folds(folded), "AGGREGATE", name)
        if subtractor is None:
            raise PipelineError("rows leave their group when they change: give aggregate a subtractor as well")
        functions = {"adder": check_python(adder, "aggregate"), "subtractor": check_python(subtractor, "aggregate")}
        return self._table(Accumulation(initial, **functions), "AGGREGATE", name)

    def _table(self, aggregation: Aggregation, kind: str, name: str | None) -> KTable:
        node = self._graph.name(f"KTABLE-{kind}")
        store = name or f"{node}-STATE-STORE"
        work = Aggregate(aggregation, store, of_table=True)
        return KTable(self._graph, self._graph.add(node, work, self._node, stores=(store,)))


class GlobalKTable:
    """A topic that every worker has as a whole: streams join it on any key."""

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self.node = node

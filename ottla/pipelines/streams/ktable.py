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
    check_name,
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

    def filter(self, condition: Expression, *, name: str | None = None) -> KTable:
        """The rows for which the condition holds; one that no longer does is deleted."""
        return self._then("KTABLE-FILTER", name, Filter(check(condition, "filter"), table=True))

    def filter_not(self, condition: Expression, *, name: str | None = None) -> KTable:
        """The rows for which the condition does not hold."""
        return self._then("KTABLE-FILTER", name, Filter(check(condition, "filter_not"), negated=True, table=True))

    def map_values(self, value: Expression, *, name: str | None = None) -> KTable:
        """A new value for each row."""
        return self._then("KTABLE-MAPVALUES", name, MapValues(check(value, "map_values"), table=True))

    def suppress(self, *, name: str | None = None) -> KTable:
        """A windowed table's rows once and for all, when their window has closed: `untilWindowCloses`."""
        if self._windows is None:
            raise PipelineError("suppress() waits until windows close: the table has none")
        return self._then("KTABLE-SUPPRESS", name, Suppress())

    def to_stream(self, key: Expression | None = None, *, name: str | None = None) -> KStream:
        """Each change of a row as a record, under a new key if one is given."""
        from ottla.pipelines.streams.kstream import KStream

        stream = KStream(self._graph, self._graph.step("KTABLE-TOSTREAM", name, Pass("to_stream"), self.node))
        return stream if key is None else stream.select_key(key)

    def group_by(self, key: Expression, value: Expression = "value", *, name: str | None = None) -> KGroupedTable:
        """The rows by a new key, each with a new value if one is given.

        A row that changes leaves its old group with its old value and comes into its new one with its new value. A row
        whose group or value is null is in no group. The topic that tells the groups is named after `name`, as by Kafka
        Streams' `Grouped.as`.
        """
        work = Regroup(check(key, "group_by"), check(value, "group_by"))
        return KGroupedTable(self._graph, self._graph.step("KTABLE-SELECT", name, work, self.node, has_store=True))

    def join(
        self, other: KTable, joiner: Expression, *, foreign_key: Expression | None = None, name: str | None = None
    ) -> KTable:
        """Rows that have a partner: of the same key, or of the key that `foreign_key` finds in the row."""
        return self._join(other, joiner, foreign_key, "inner", name)

    def left_join(
        self, other: KTable, joiner: Expression, *, foreign_key: Expression | None = None, name: str | None = None
    ) -> KTable:
        """As `join`, and rows without a partner with null in its place."""
        return self._join(other, joiner, foreign_key, "left", name)

    def outer_join(self, other: KTable, joiner: Expression, *, name: str | None = None) -> KTable:
        """As `left_join`, for both sides."""
        return self._join(other, joiner, None, "outer", name)

    def _join(
        self, other: KTable, joiner: Expression, foreign_key: Expression | None, kind: str, name: str | None
    ) -> KTable:
        check(joiner, "a join")
        step = self._graph.step
        if foreign_key is None:
            work = TableJoin(joiner, kind)
            return KTable(self._graph, step("KTABLE-JOIN", name, work, self.node, other.node, has_store=True))
        # The three are named after the join, as Kafka Streams' `TableJoined.as` names its processors.
        registration, match, result = (
            None if name is None else f"{name}-{part}"
            for part in ("subscription-registration-processor", "subscription-join-foreign", "result")
        )
        kinds = [f"KTABLE-FK-JOIN-{part}" for part in ("SUBSCRIPTION-REGISTRATION", "SUBSCRIPTION-PROCESSOR", "OUTPUT")]
        refers = ForeignKeySubscribe(check(foreign_key, "a join"))
        subscribed = step(kinds[0], registration, refers, self.node, has_store=True)
        matched = step(kinds[1], match, ForeignKeyMatch(kind), subscribed, other.node, has_store=True)
        return KTable(self._graph, step(kinds[2], result, ForeignKeyResult(joiner), matched, has_store=True))

    def _then(self, kind: str, name: str | None, work: Work) -> KTable:
        return KTable(self._graph, self._graph.step(kind, name, work, self.node), windows=self._windows)


class KGroupedTable:
    """A table's rows put together by a new key, about to become another table.

    `name` is the store's and `named` the step's, as of a `KGroupedStream`.
    """

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self._node = node

    def count(self, *, name: str | None = None, named: str | None = None) -> KTable:
        """How many rows each group has; 0 once the last one has left."""
        return self._table(Folds(((None, aggregates.count()),)), "AGGREGATE", name, named)

    def reduce(self, adder: Python, subtractor: Python, *, name: str | None = None, named: str | None = None) -> KTable:
        """The values of a group made one: `adder(so_far, value)` puts one in, `subtractor(so_far, value)` takes it out.

        Either may return None, and the group has no row then.
        """
        functions = (check_python(adder, "reduce"), check_python(subtractor, "reduce"))
        return self._table(Reduction(*functions), "REDUCE", name, named)

    def aggregate(
        self,
        fold: Fold | None = None,
        *,
        initial: Any = None,
        adder: Python | None = None,
        subtractor: Python | None = None,
        name: str | None = None,
        named: str | None = None,
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
            return self._table(Folds(folded), "AGGREGATE", name, named)
        if subtractor is None:
            raise PipelineError("rows leave their group when they change: give aggregate a subtractor as well")
        functions = {"adder": check_python(adder, "aggregate"), "subtractor": check_python(subtractor, "aggregate")}
        return self._table(Accumulation(initial, **functions), "AGGREGATE", name, named)

    def _table(self, aggregation: Aggregation, kind: str, name: str | None, named: str | None) -> KTable:
        number = self._graph.name(f"KTABLE-{kind}")
        store = check_name(name) if name else f"{number}-STATE-STORE"
        node = number if named is None else check_name(named)
        work = Aggregate(aggregation, store, of_table=True)
        return KTable(self._graph, self._graph.add(node, work, self._node, stores=(store,), number=number))


class GlobalKTable:
    """A topic that every worker has as a whole: streams join it on any key."""

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self.node = node

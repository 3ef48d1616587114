"""`KStream`: records one after the other, and what can be done with them; `KGroupedStream` and its windows.

Each method adds a node and returns what comes out of it; nothing runs before the topology is started. Functions are SQL
text over `key`, `value` and `timestamp`, functions of Columns — `lambda value: ...` or `lambda key, value: ...` — or
`python(...)` functions of plain values. `name` names a step, as Kafka Streams' `Named`; one without has a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.cogrouped import CogroupedKStream, group
from ottla.pipelines.streams.expressions import Expression, Python, check, check_python
from ottla.pipelines.streams.graph import (
    Accumulation,
    Aggregate,
    Aggregation,
    Custom,
    Filter,
    FlatMap,
    Folds,
    ForEach,
    GlobalJoin,
    Graph,
    Map,
    MapValues,
    Pass,
    Peek,
    Reduction,
    Repartition,
    SelectKey,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    Work,
    check_name,
)
from ottla.pipelines.streams.ktable import GlobalKTable, KTable
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.windows import JoinWindows, SessionWindows, Windows


class KStream:
    """A stream of records with a key, a value and a time."""

    def __init__(self, graph: Graph, node: str) -> None:
        self._graph = graph
        self.node = node

    def map(self, key: Expression, value: Expression, *, name: str | None = None) -> KStream:
        """A new key and a new value for each record."""
        return self._then("KSTREAM-MAP", name, Map(check(key, "map"), check(value, "map")))

    def map_values(self, value: Expression, *, name: str | None = None) -> KStream:
        """A new value for each record; its key stays, so nothing moves."""
        return self._then("KSTREAM-MAPVALUES", name, MapValues(check(value, "map_values")))

    def filter(self, condition: Expression, *, name: str | None = None) -> KStream:
        """The records for which the condition holds."""
        return self._then("KSTREAM-FILTER", name, Filter(check(condition, "filter")))

    def filter_not(self, condition: Expression, *, name: str | None = None) -> KStream:
        """The records for which the condition does not hold."""
        return self._then("KSTREAM-FILTER", name, Filter(check(condition, "filter_not"), negated=True))

    def flat_map(self, records: Expression, *, name: str | None = None) -> KStream:
        """Any number of records for each: the expression is an array of structs with `key` and `value`."""
        return self._then("KSTREAM-FLATMAP", name, FlatMap(check(records, "flat_map"), values_only=False))

    def flat_map_values(self, values: Expression, *, name: str | None = None) -> KStream:
        """Any number of values for each record, under its key: the expression is an array."""
        return self._then("KSTREAM-FLATMAPVALUES", name, FlatMap(check(values, "flat_map_values"), values_only=True))

    def select_key(self, key: Expression, *, name: str | None = None) -> KStream:
        """A new key for each record."""
        return self._then("KSTREAM-KEY-SELECT", name, SelectKey(check(key, "select_key")))

    def peek(self, function: Python, *, name: str | None = None) -> KStream:
        """Calls a Python function with each key and value, on the worker, maybe more than once for a retried task."""
        return self._then("KSTREAM-PEEK", name, Peek(check_python(function, "peek")))

    def branch(self, *conditions: Expression, name: str | None = None) -> list[KStream]:
        """A stream for each condition, with the records it is the first to hold for; and a last one with the rest.

        With a `name` they are named after it, as in Kafka Streams: `name-1`, `name-2` and so on, the rest `name-0`.
        """
        for condition in conditions:
            check(condition, "branch")
        firsts = [Filter(condition, unless=conditions[:index]) for index, condition in enumerate(conditions)]
        numbers = [*range(1, len(firsts) + 1), 0]
        names = [None if name is None else f"{name}-{number}" for number in numbers]
        works = [*firsts, Filter(None, unless=conditions)]
        return [self._then("KSTREAM-BRANCH", one, work) for one, work in zip(names, works, strict=True)]

    def merge(self, *others: KStream, name: str | None = None) -> KStream:
        """The records of all the streams; each stream's own order is kept, nothing is promised between them."""
        parents = (self.node, *(other.node for other in others))
        return KStream(self._graph, self._graph.step("KSTREAM-MERGE", name, Pass("merge"), *parents))

    def repartition(self, *, partitions: int | None = None, name: str | None = None) -> KStream:
        """The records through a topic of the application's own, where they lie by their key."""
        number = "" if name else self._graph.name("KSTREAM-REPARTITION")
        node = f"{check_name(name)}-repartition" if name else number
        return KStream(self._graph, self._graph.add(node, Repartition(partitions), self.node, number=number))

    def through(
        self, topic: str, *, key: str | Serde = "string", value: str | Serde = "string", name: str | None = None
    ) -> KStream:
        """The records through a topic of yours: written there and read from there. `name` is that of the reading."""
        self.to(topic, key=key, value=value)
        source = Source((topic,), Serde.of(key), Serde.of(value), timestamp=self._graph.timestamp)
        return KStream(self._graph, self._graph.step("KSTREAM-SOURCE", name, source))

    def to(
        self,
        topic: str | Python | Callable[..., Any] | None = None,
        *,
        key: str | Serde | None = None,
        value: str | Serde | None = None,
        name: str | None = None,
        extractor: Expression | None = None,
    ) -> None:
        """Writes the records to a topic. Without a serde the type decides: long for BIGINT, JSON for a struct.

        A function in place of the topic names that of each record, and so does `extractor`, which may be SQL text:
        Kafka Streams' `TopicNameExtractor`. The topics have to exist.
        """
        named = extractor if topic is None else topic
        if named is None or (topic is not None and extractor is not None):
            raise PipelineError("to takes a topic, or an extractor that names the topic of each record")
        if isinstance(topic, str):
            work = Sink(topic, _serde(key), _serde(value))
        else:
            work = Sink("", _serde(key), _serde(value), check(named, "to"))
        self._graph.step("KSTREAM-SINK", name, work, self.node)

    def for_each(self, function: Python, *, name: str | None = None) -> None:
        """Calls a Python function with each key and value; the stream ends there."""
        self._graph.step("KSTREAM-FOREACH", name, ForEach(check_python(function, "for_each")), self.node)

    def process(self, operator: Any, *, stores: tuple[str, ...] = (), name: str | None = None) -> KStream:
        """Your own processor with its state stores: see `ottla.pipelines.streams.processor`."""
        number = "" if name else self._graph.name("KSTREAM-PROCESSOR")
        node = check_name(name) if name else number
        return KStream(self._graph, self._graph.add(node, Custom(operator), self.node, stores=stores, number=number))

    def group_by(self, key: Expression, *, name: str | None = None) -> KGroupedStream:
        """Groups by a new key. `name` is that of the step which gives it: Kafka Streams' `Grouped.as`."""
        return self.select_key(key, name=name).group_by_key()

    def group_by_key(self) -> KGroupedStream:
        """Groups by the key the records have."""
        return KGroupedStream(self._graph, self.node)

    def to_table(self, *, name: str | None = None) -> KTable:
        """The stream seen as a changelog: a key's latest value is its row."""
        number = "" if name else self._graph.name("KSTREAM-TOTABLE")
        node = check_name(name) if name else number
        return KTable(self._graph, self._graph.add(node, Pass("to_table"), self.node, number=number))

    def join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Expression,
        windows: JoinWindows | None = None,
        *,
        key: Expression | None = None,
        name: str | None = None,
    ) -> KStream:
        """Records that find a partner: in a stream within `windows`, in a table, or in a global table.

        `key` is what they look for in a global table, and the record's own key unless told. `name` is the step's, and
        what its state is known by: Kafka Streams' `StreamJoined.as`, `Joined.as` or `Named.as`.
        """
        return self._join(other, joiner, windows, key, "inner", name)

    def left_join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Expression,
        windows: JoinWindows | None = None,
        *,
        key: Expression | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `join`, and records without a partner with null in its place: once the window has closed."""
        return self._join(other, joiner, windows, key, "left", name)

    def outer_join(
        self, other: KStream, joiner: Expression, windows: JoinWindows, *, name: str | None = None
    ) -> KStream:
        """As `left_join`, for both sides."""
        return self._join(other, joiner, windows, None, "outer", name)

    def _join(
        self,
        other: KStream | KTable | GlobalKTable,
        joiner: Expression,
        windows: JoinWindows | None,
        key: Expression | None,
        kind: str,
        name: str | None,
    ) -> KStream:
        check(joiner, "a join")
        if windows is None and isinstance(other, KStream):
            raise PipelineError(
                "a join of two streams needs JoinWindows: how far apart records may be that belong together"
            )
        if windows is not None and not isinstance(other, KStream):
            raise PipelineError("JoinWindows are for two streams: a table has one row a key, whatever its time")
        if key is not None and not isinstance(other, GlobalKTable):
            raise PipelineError("key= is for global tables; others are joined by the records' keys: select_key first")
        if isinstance(other, GlobalKTable):
            wanted = "key" if key is None else check(key, "a join")
            lookup = GlobalJoin(other.node, wanted, joiner, left=kind == "left")
            node = self._graph.step("KSTREAM-GLOBALTABLE-JOIN", name, lookup, self.node, other.node)
            return KStream(self._graph, node)
        work: Work = StreamTableJoin(joiner, kind) if windows is None else StreamJoin(windows, joiner, kind)
        which = "KSTREAM-TABLE-JOIN" if windows is None else "KSTREAM-JOIN"
        return KStream(self._graph, self._graph.step(which, name, work, self.node, other.node, has_store=True))

    def _then(self, kind: str, name: str | None, work: Work) -> KStream:
        return KStream(self._graph, self._graph.step(kind, name, work, self.node))


class KGroupedStream:
    """Records put together by key, about to become a table.

    `name` is the store's, by which it can be asked (Kafka Streams' `Materialized.as`), and `named` the step's
    (`Named.as`). Either keeps the state when steps are added before it.
    """

    def __init__(self, graph: Graph, node: str, windows: Windows | None = None) -> None:
        self._graph = graph
        self.node = node
        self._windows = windows
        self._final = False
        self._late_topic: str | None = None

    @property
    def is_windowed(self) -> bool:
        """Whether it is grouped by time as well."""
        return self._windows is not None

    def count(self, *, name: str | None = None, named: str | None = None) -> KTable:
        """How many records each key has."""
        return self._table(Folds(((None, aggregates.count()),)), "COUNT", name, named)

    def reduce(self, reducer: Python, *, name: str | None = None, named: str | None = None) -> KTable:
        """The records of a key made one, two at a time: `python(lambda so_far, value: ...)`."""
        return self._table(Reduction(check_python(reducer, "reduce")), "REDUCE", name, named)

    def aggregate(
        self,
        fold: Fold | None = None,
        *,
        initial: Any = None,
        adder: Python | None = None,
        merger: Python | None = None,
        name: str | None = None,
        named: str | None = None,
        **folds: Fold,
    ) -> KTable:
        """One named aggregate, several as a struct, or `initial` and an `adder(key, value, so_far)`.

        Session windows need a `merger(key, left, right)` beside the adder. State made by Python functions is kept as
        JSON: numbers, text, lists and dictionaries.
        """
        folded = aggregates.named(fold, folds, adder=adder)
        if adder is None:
            return self._table(Folds(folded), "AGGREGATE", name, named)
        if isinstance(self._windows, SessionWindows) and merger is None:
            raise PipelineError("sessions can become one: give aggregate a merger(key, left, right) as well")
        merges = None if merger is None else check_python(merger, "aggregate")
        return self._table(Accumulation(initial, check_python(adder, "aggregate"), merges), "AGGREGATE", name, named)

    def windowed_by(self, windows: Windows) -> WindowedKStream:
        """Groups by time as well."""
        return WindowedKStream(self._graph, self.node, windows)

    def cogroup(self, aggregator: Python) -> CogroupedKStream:
        """The first of several grouped streams of one table: `aggregator(key, value, so_far)` adds its values."""
        return CogroupedKStream(self._graph, (group(self, aggregator),))

    def _table(self, aggregation: Aggregation, kind: str, name: str | None, named: str | None) -> KTable:
        number = self._graph.name(f"KSTREAM-{kind}")
        store = check_name(name) if name else f"{number}-STATE-STORE"
        node = number if named is None else check_name(named)
        work = Aggregate(aggregation, store, self._windows, self._final, self._late_topic)
        self._graph.add(node, work, self.node, stores=(store,), number=number)
        return KTable(self._graph, node, windows=self._windows)


class WindowedKStream(KGroupedStream):
    """Records put together by key and window."""

    def __init__(self, graph: Graph, node: str, windows: Windows) -> None:
        super().__init__(graph, node, windows)

    def emit_strategy(self, strategy: str) -> WindowedKStream:
        """`on_window_update`, a row for each change, or `on_window_close`, one row when the window has closed."""
        if strategy not in ("on_window_update", "on_window_close"):
            raise PipelineError(f"a window's rows come on_window_update or on_window_close, not {strategy!r}")
        other = self._copy()
        other._final = strategy == "on_window_close"
        return other

    def late_to(self, topic: str) -> WindowedKStream:
        """Writes records that came too late for their window to a topic, with their key and value."""
        other = self._copy()
        other._late_topic = topic
        return other

    def windowed_by(self, windows: Windows) -> WindowedKStream:
        """Refused: the windows are chosen already."""
        raise PipelineError("the stream is windowed already")

    def _copy(self) -> WindowedKStream:
        assert self._windows is not None
        other = WindowedKStream(self._graph, self.node, self._windows)
        other._final, other._late_topic = self._final, self._late_topic
        return other


def _serde(given: str | Serde | None) -> Serde | None:
    return None if given is None else Serde.of(given)

"""`CogroupedKStream`: several grouped streams about to become one table (KIP-150).

    accounts = payments.group_by_key().cogroup(python(lambda key, paid, so_far: so_far + paid, "double"))
    accounts.cogroup(refunds.group_by_key(), python(lambda key, back, so_far: so_far - back, "double")).aggregate(0.0)

Each stream has its own aggregator, and all grow the same row. `name` and `named` are as of a `KGroupedStream`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Python, check_python
from ottla.pipelines.streams.graph import Aggregate, Cogrouping, Graph, check_name
from ottla.pipelines.streams.ktable import KTable
from ottla.pipelines.streams.windows import SessionWindows, Windows

if TYPE_CHECKING:
    from ottla.pipelines.streams.kstream import KGroupedStream

Group = tuple[str, Python]
"""A stream's node, and its aggregator."""


class CogroupedKStream:
    """Streams that are grouped together by their keys, which have one type."""

    def __init__(self, graph: Graph, groups: tuple[Group, ...]) -> None:
        self._graph = graph
        self._groups = groups

    def cogroup(self, grouped: KGroupedStream, aggregator: Python) -> CogroupedKStream:
        """Another grouped stream: `aggregator(key, value, so_far)` adds its values to the same row."""
        return CogroupedKStream(self._graph, (*self._groups, group(grouped, aggregator)))

    def windowed_by(self, windows: Windows) -> WindowedCogroupedKStream:
        """Groups by time as well."""
        return WindowedCogroupedKStream(self._graph, self._groups, windows)

    def aggregate(self, initial: Any, *, name: str | None = None, named: str | None = None) -> KTable:
        """The table: a row begins as `initial`, and grows with the records of every stream in the order of their times.

        State is kept as JSON: numbers, text, lists and dictionaries.
        """
        return self._table(initial, None, None, name, named)

    def _table(
        self, initial: Any, merger: Python | None, windows: Windows | None, name: str | None, named: str | None
    ) -> KTable:
        aggregators = tuple(aggregator for _, aggregator in self._groups)
        returned = {one.returns.lower() for one in (*aggregators, *filter(None, [merger]))}
        if len(returned) > 1:
            raise PipelineError(
                f"the aggregators of a cogroup make one value, and return {', '.join(sorted(returned))}: give "
                "python(...) the same type in all of them"
            )
        number = self._graph.name("COGROUPKSTREAM-AGGREGATE")
        store = check_name(name) if name else f"{number}-STATE-STORE"
        node = number if named is None else check_name(named)
        work = Aggregate(Cogrouping(initial, aggregators, merger), store, windows)
        self._graph.add(node, work, *(parent for parent, _ in self._groups), stores=(store,), number=number)
        return KTable(self._graph, node, windows=windows)


class WindowedCogroupedKStream(CogroupedKStream):
    """Streams that are grouped together by key and window.

    What is late is judged for each stream by its own time, as in Kafka Streams.
    """

    def __init__(self, graph: Graph, groups: tuple[Group, ...], windows: Windows) -> None:
        super().__init__(graph, groups)
        self._windows = windows

    def cogroup(self, grouped: KGroupedStream, aggregator: Python) -> CogroupedKStream:
        """Refused: the windows are chosen already."""
        raise PipelineError("the streams are windowed already: cogroup them all before windowed_by")

    def windowed_by(self, windows: Windows) -> WindowedCogroupedKStream:
        """Refused: the windows are chosen already."""
        raise PipelineError("the streams are windowed already")

    def aggregate(
        self, initial: Any, merger: Python | None = None, *, name: str | None = None, named: str | None = None
    ) -> KTable:
        """The windowed table. Session windows need a `merger(key, left, right)` as well."""
        if isinstance(self._windows, SessionWindows) and merger is None:
            raise PipelineError("sessions can become one: give aggregate a merger(key, left, right) as well")
        merges = None if merger is None else check_python(merger, "aggregate")
        return self._table(initial, merges, self._windows, name, named)


def group(grouped: KGroupedStream, aggregator: Python) -> Group:
    """A grouped stream as one of several."""
    if grouped.is_windowed:
        raise PipelineError("cogroup takes streams without windows: cogroup them all before windowed_by")
    return grouped.node, check_python(aggregator, "cogroup")

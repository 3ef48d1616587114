"""A topology cut into Spark queries: at most one step that remembers in each.

Spark chains such steps only when none of them gives updates. So each of them is the root of a query of its own, with
the steps between it and the topics it reads in front, and the steps to where its records end behind it. A step that
reads another one's results reads them from a topic of the application's own, as Kafka Streams does when keys change.
Sources whose records reach a sink without meeting such a step are roots as well. Pure: no Spark, no broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.graph import (
    REKEYS,
    STATEFUL,
    Aggregate,
    Custom,
    Filter,
    FlatMap,
    ForEach,
    ForeignKeyMatch,
    GlobalSource,
    MapValues,
    Node,
    Pass,
    Repartition,
    Sink,
    Source,
    StreamJoin,
    StreamTableJoin,
    Suppress,
    TableJoin,
    Topology,
    Work,
)

_NO_STEPS: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Inflow:
    """How records come to a root: from a topic or another root's topic, through steps."""

    origin: Node
    steps: tuple[Node, ...]

    @property
    def keeps_partitions(self) -> bool:
        """Whether a record's partition in the topic still says where its key belongs."""
        moved = any(isinstance(step.work, REKEYS) or _moves(step.work) for step in self.steps)
        return isinstance(self.origin.work, Source) and not moved


@dataclass(frozen=True, slots=True)
class Outflow:
    """Where a root's records end: `end` is a sink, a `for_each`, or None for the root's own topic."""

    steps: tuple[Node, ...]
    end: Node | None


@dataclass(frozen=True, slots=True)
class Query:
    """One Spark query. `work` is what the root does; `inputs` has a list for each side of a join."""

    root: Node
    work: Work
    inputs: tuple[tuple[Inflow, ...], ...]
    outflows: tuple[Outflow, ...]

    @property
    def name(self) -> str:
        """The query's name, and its checkpoint's."""
        return self.root.name

    @property
    def reads(self) -> list[str]:
        """The topics of others that it reads."""
        origins = [inflow.origin.work for side in self.inputs for inflow in side]
        return sorted({topic for work in origins if isinstance(work, Source) for topic in work.topics})


def plan(topology: Topology) -> list[Query]:
    """The queries of a topology, each after those whose results it reads."""
    queries = [query for node in topology.nodes.values() for query in _query(topology, node)]
    if not queries:
        raise PipelineError("the topology writes nothing: end a stream with to() or for_each()")
    return queries


def own_topic(topology: Topology, root: Node) -> str:
    """The topic that carries a root's results to other queries."""
    name = root.name.removesuffix("-repartition")
    return f"{topology.application}-{name}-repartition"


def own_topics(topology: Topology, queries: list[Query]) -> dict[str, int | None]:
    """Every topic that carries results between queries, with the number of partitions asked for."""
    topics: dict[str, int | None] = {}
    for query in queries:
        if any(flow.end is None for flow in query.outflows):
            partitions = query.work.partitions if isinstance(query.work, Repartition) else None
            topics[own_topic(topology, query.root)] = partitions
    return topics


def signature(query: Query) -> str:
    """What a query's state depends on: a checkpoint made under another one cannot be gone on with."""
    match query.work:
        case Aggregate(aggregation=aggregation, store=store, windows=windows, final=final):
            folds = ", ".join(f"{name}={fold.name}" for name, fold in aggregation.folds)
            return f"Aggregate({store}, {windows}, final={final}, folds=[{folds}])"
        case StreamJoin(windows=windows, kind=kind):
            return f"StreamJoin({windows}, {kind})"
        case StreamTableJoin(kind=kind) | TableJoin(kind=kind) | ForeignKeyMatch(kind=kind):
            return f"{type(query.work).__name__}({kind})"
    return type(query.work).__name__


def is_named(node: Node) -> bool:
    """Whether the user named the step's store, which makes it one that can be asked."""
    return isinstance(node.work, Aggregate) and node.work.store != f"{node.name}-STATE-STORE"


def _query(topology: Topology, node: Node) -> Iterator[Query]:
    if isinstance(node.work, Source):
        ends = tuple(_outflows(topology, node, ()))
        if ends:
            yield Query(node, node.work, ((Inflow(node, ()),),), ends)
        return
    if not isinstance(node.work, STATEFUL):
        return
    if isinstance(node.work, Repartition):
        yield Query(node, node.work, _inputs(topology, node), (Outflow((), None),))
        ends = tuple(_outflows(topology, node, ()))
        if ends:  # what was repartitioned is read again, as from anyone's topic
            yield Query(replace(node, name=f"{node.name}-READ"), Pass("read"), ((Inflow(node, ()),),), ends)
        return
    work: Work = node.work
    inputs, before = _inputs(topology, node), _NO_STEPS
    if isinstance(work, Suppress):
        aggregate, before = _suppressed(topology, node)
        assert isinstance(aggregate.work, Aggregate)
        work, inputs = replace(aggregate.work, final=True, late_topic=None), _inputs(topology, aggregate)
        if not _query_wanted(topology, aggregate):
            work = replace(work, late_topic=aggregate.work.late_topic)
    ends = tuple(_outflows(topology, node, before))
    if _feeds_a_root(topology, node):
        ends = (*ends, Outflow(before, None))
    if ends or (not isinstance(node.work, Suppress) and _query_wanted(topology, node)):
        yield Query(node, work, inputs, ends)


def _query_wanted(topology: Topology, node: Node) -> bool:
    """Whether someone wants a step's own results: a reader, one who asks its store, or nobody but a suppress()."""
    if isinstance(node.work, Custom) or is_named(node):
        return True
    return bool(list(_outflows(topology, node, ()))) or _feeds_a_root(topology, node)


def _suppressed(topology: Topology, node: Node) -> tuple[Node, tuple[Node, ...]]:
    """The windowed table behind a suppress(), and the steps between."""
    between: list[Node] = []
    while True:
        node = topology.nodes[node.parents[0]]
        if isinstance(node.work, Aggregate):
            return node, tuple(reversed(between))
        if not isinstance(node.work, MapValues | Filter):
            raise PipelineError(f"suppress() follows a windowed table, not {node.name}")
        between.append(node)


def _inputs(topology: Topology, node: Node) -> tuple[tuple[Inflow, ...], ...]:
    return tuple(tuple(_inflows(topology, topology.nodes[parent], ())) for parent in node.parents)


def _inflows(topology: Topology, node: Node, steps: tuple[Node, ...]) -> Iterator[Inflow]:
    if isinstance(node.work, (Source, *STATEFUL)):
        yield Inflow(node, steps)
        return
    for parent in _record_parents(topology, node):
        yield from _inflows(topology, parent, (node, *steps))


def _record_parents(topology: Topology, node: Node) -> list[Node]:
    parents = [topology.nodes[parent] for parent in node.parents]
    return [parent for parent in parents if not isinstance(parent.work, GlobalSource)]


def _outflows(topology: Topology, node: Node, steps: tuple[Node, ...]) -> Iterator[Outflow]:
    for child in topology.children(node.name):
        if isinstance(child.work, Sink | ForEach):
            yield Outflow(steps, child)
        elif not isinstance(child.work, STATEFUL):
            yield from _outflows(topology, child, (*steps, child))


def _feeds_a_root(topology: Topology, node: Node) -> bool:
    """Whether another root reads this one's results; a suppress() does not, it makes its own."""
    for child in topology.children(node.name):
        if isinstance(child.work, Suppress):
            continue
        if isinstance(child.work, STATEFUL):
            return True
        if not isinstance(child.work, Sink | ForEach) and _feeds_a_root(topology, child):
            return True
    return False


def _moves(work: Work) -> bool:
    return isinstance(work, FlatMap) and not work.values_only

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
    Aggregate,
    Custom,
    Filter,
    FlatMap,
    ForEach,
    GlobalSource,
    MapValues,
    Node,
    Pass,
    Repartition,
    Sink,
    Source,
    Stateful,
    Suppress,
    Topology,
    Work,
)

NOTES = "topology"
"""Where a checkpoint has its notes of the topology, beside the checkpoints of the queries."""
READ = "-READ"
"""What follows a repartition's name in that of the query that reads its topic."""


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
    """Where a root's records end: at a sink or a `for_each`, or in a topic that carries `end`'s results to others.

    `final` flows take what windows say when they have closed, others what they say with each change.
    """

    steps: tuple[Node, ...]
    end: Node
    final: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One Spark query. `work` is what the root does; `inputs` has a list for each side of a join.

    `name` is that of its checkpoint and of its transactions, `identity` what the user knows it by.
    """

    name: str
    root: Node
    work: Work
    inputs: tuple[tuple[Inflow, ...], ...]
    outflows: tuple[Outflow, ...]
    identity: str

    @property
    def sources(self) -> list[Source]:
        """Where it reads topics of others."""
        origins = [inflow.origin.work for side in self.inputs for inflow in side]
        return [work for work in origins if isinstance(work, Source)]

    @property
    def reads(self) -> list[str]:
        """The topics of others that it reads by their names."""
        return sorted({topic for work in self.sources for topic in work.topics})

    @property
    def patterns(self) -> list[str]:
        """The patterns of the other topics that it reads."""
        return sorted({work.pattern for work in self.sources if work.pattern is not None})


def plan(topology: Topology) -> list[Query]:
    """The queries of a topology, each after those whose results it reads."""
    queries = [query for node in topology.nodes.values() for query in _query(topology, node)]
    if not queries:
        raise PipelineError("the topology writes nothing: end a stream with to() or for_each()")
    seen: set[str] = set()
    for query in queries:
        if query.name in seen or query.name == NOTES:
            why = "means something else in a checkpoint" if query.name == NOTES else "names two steps with state"
            raise PipelineError(f"the name {query.name} {why}: give one another name")
        seen.add(query.name)
    return queries


def own_topic(topology: Topology, root: Node) -> str:
    """The topic that carries a root's results to other queries."""
    name = topology.place(root).removesuffix("-repartition")
    return f"{topology.application}-{name}-repartition"


def own_topics(topology: Topology, queries: list[Query]) -> dict[str, int | None]:
    """Every topic that carries results between queries, with the number of partitions asked for."""
    topics: dict[str, int | None] = {}
    for query in queries:
        for flow in query.outflows:
            if carries(flow):
                topics[own_topic(topology, flow.end)] = (
                    query.work.partitions if isinstance(query.work, Repartition) else None
                )
    return topics


def carries(flow: Outflow) -> bool:
    """Whether a flow ends in a topic that other queries read."""
    return isinstance(flow.end.work, Stateful)


def remembers(query: Query) -> bool:
    """Whether its root remembers records; a repartition only moves them."""
    return isinstance(query.work, Stateful) and not isinstance(query.work, Repartition)


def stamped(query: Query) -> list[Source]:
    """The sources of which it has to know partition times."""
    return [work for work in query.sources if work.timestamp.knows_partition_time]


def versioned(query: Query) -> list[Source]:
    """The versioned tables that it reads."""
    return [work for work in query.sources if work.history_ms is not None]


def has_state_in_front(query: Query) -> bool:
    """Whether Spark keeps state for its sources, in steps of their own."""
    return bool(stamped(query) or versioned(query))


def has_state(query: Query) -> bool:
    """Whether Spark keeps state for it."""
    return remembers(query) or has_state_in_front(query)


def _query(topology: Topology, node: Node) -> Iterator[Query]:
    name = topology.place(node)
    if isinstance(node.work, Source):
        ends = tuple(_outflows(topology, node, ()))
        if ends:
            yield Query(name, node, node.work, ((Inflow(node, ()),),), ends, node.identity)
        return
    if isinstance(node.work, Repartition):
        yield Query(name, node, node.work, _inputs(topology, node), (Outflow((), node),), node.identity)
        ends = tuple(_outflows(topology, node, ()))
        if ends:  # what was repartitioned is read again, as from anyone's topic
            reader = replace(node, name=f"{node.name}{READ}", number=f"{node.number}{READ}" if node.number else "")
            inputs = ((Inflow(node, ()),),)
            yield Query(f"{name}{READ}", reader, Pass("read"), inputs, ends, f"{node.identity}{READ}")
    elif isinstance(node.work, Aggregate):
        ends = (*_all_outflows(topology, node, (), final=node.work.final), *_suppressed(topology, node, ()))
        if ends or node.work.late_topic is not None or node.has_named_store:
            yield Query(name, node, node.work, _inputs(topology, node), ends, node.identity)
    elif isinstance(node.work, Stateful) and not isinstance(node.work, Suppress):
        ends = tuple(_all_outflows(topology, node, ()))
        if ends or isinstance(node.work, Custom):
            yield Query(name, node, node.work, _inputs(topology, node), ends, node.identity)


def _all_outflows(topology: Topology, node: Node, steps: tuple[Node, ...], *, final: bool = False) -> Iterator[Outflow]:
    """Where a root's results end, its own topic among them when another root reads it."""
    for flow in _outflows(topology, node, steps):
        yield replace(flow, final=final)
    if _feeds_a_root(topology, node):
        yield Outflow(steps, node, final)


def _suppressed(topology: Topology, node: Node, steps: tuple[Node, ...]) -> Iterator[Outflow]:
    """Where a windowed table's last words end: behind each suppress() on it."""
    for child in topology.children(node.name):
        if isinstance(child.work, Suppress):
            yield from _all_outflows(topology, child, steps, final=True)
        elif isinstance(child.work, MapValues | Filter) and child.work.table:
            yield from _suppressed(topology, child, (*steps, child))


def _inputs(topology: Topology, node: Node) -> tuple[tuple[Inflow, ...], ...]:
    return tuple(tuple(_inflows(topology, topology.nodes[parent], ())) for parent in node.parents)


def _inflows(topology: Topology, node: Node, steps: tuple[Node, ...]) -> Iterator[Inflow]:
    if isinstance(node.work, Source | Stateful):
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
        elif not isinstance(child.work, Stateful):
            yield from _outflows(topology, child, (*steps, child))


def _feeds_a_root(topology: Topology, node: Node) -> bool:
    """Whether another root reads this one's results; a suppress() is part of its table."""
    for child in topology.children(node.name):
        if isinstance(child.work, Suppress):
            continue
        if isinstance(child.work, Stateful):
            return True
        if not isinstance(child.work, Sink | ForEach) and _feeds_a_root(topology, child):
            return True
    return False


def _moves(work: Work) -> bool:
    return isinstance(work, FlatMap) and not work.values_only

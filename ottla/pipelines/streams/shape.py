"""What the state of a query depends on, as a few lines of text: a checkpoint keeps it, and a later start compares.

In it are the aggregate's or join's own expressions, windows, the key that the state is kept by, serdes of what it
keeps, and the topics whose offsets lie beside it. Not in it are steps without state in front or behind, names, sinks.
Pure: no Spark, no broker. Called by `evolution`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.pipelines.streams.expressions import Expression
from ottla.pipelines.streams.function_text import said
from ottla.pipelines.streams.graph import (
    REKEYS,
    Accumulation,
    Aggregate,
    Aggregation,
    Cogrouping,
    Custom,
    FlatMap,
    Folds,
    ForeignKeyMatch,
    ForeignKeyResult,
    ForeignKeySubscribe,
    Node,
    Reduction,
    Regroup,
    Repartition,
    Source,
    StreamJoin,
    StreamTableJoin,
    TableJoin,
    Topology,
)
from ottla.pipelines.streams.planning import Inflow, Query, own_topic, stamped, versioned
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.timestamps import TimestampExtractor

UNKNOWN = "?"
"""An expression whose text nobody can read."""
READS, WINDOWS, KEYS = "reads", "windows", "keys"
STAMPED, VERSIONED = "partition times", "versioned tables"
"""The topics of which a step knows the partition times, and those of versioned tables: both have a step of Spark's in
front, whose state lies before the step's own."""
KIND = "kind of state"
"""Which windows an aggregate has, and what it gathers: state of one kind is none of another."""
STORE = "store "
"""How the lines of a processor's stores begin: one may come or go."""
Shape = dict[str, str]
"""What it is -> what it says."""


def shape(topology: Topology, query: Query) -> Shape:
    """The lines of a query."""
    lines = dict(_work(query))
    lines[READS] = " | ".join(", ".join(_read(topology, inflow) for inflow in side) for side in query.inputs)
    lines[STAMPED] = " | ".join("+".join(source.reads) for source in stamped(query))
    lines[VERSIONED] = " | ".join("+".join(source.reads) for source in versioned(query))
    if "step" not in lines:
        return {label: text for label, text in lines.items() if text or label not in (STAMPED, VERSIONED)}
    lines[KEYS] = _all([_key(inflow) for side in query.inputs for inflow in side])
    times = [_times(work.timestamp) for work in query.sources]
    if _goes_by_time(query) and any(times):
        lines["times"] = _all([text or "the record's own" for text in times])
    if _keeps_values(query):
        lines["values"] = ", ".join(_serde(work.value) for work in query.sources)
    return {label: text for label, text in lines.items() if text}


def path(query: Query) -> list[str]:
    """The names of the steps in front, by which a step without a name is told from another of the same number."""
    return [name for side in query.inputs for inflow in side for name in _names(inflow)]


def signature(query: Query) -> str:
    """What Ottla noted of a step before it noted `shape`: no expressions, no keys."""
    match query.work:
        case Aggregate(aggregation=aggregation, store=store, windows=windows, of_table=of_table):
            pairs = aggregation.folds if isinstance(aggregation, Folds) else ()
            folds = ", ".join(f"{name}={fold.name}" for name, fold in pairs)
            return f"Aggregate({store}, {windows}, folds=[{folds}]{', of a table' if of_table else ''})"
        case StreamJoin(windows=windows, kind=kind):
            return f"StreamJoin({windows}, {kind})"
        case StreamTableJoin(kind=kind) | TableJoin(kind=kind) | ForeignKeyMatch(kind=kind):
            return f"{type(query.work).__name__}({kind})"
    return type(query.work).__name__


def _work(query: Query) -> Iterator[tuple[str, str]]:
    """A step's own lines; none for one that remembers nothing."""
    match query.work:
        case Aggregate(aggregation=aggregation, windows=windows, of_table=of_table):
            yield "step", "aggregate of a table" if of_table else "aggregate"
            yield KIND, f"{'no windows' if windows is None else type(windows).__name__} of {_gathered(aggregation)}"
            yield from _aggregation(aggregation)
            yield WINDOWS, "" if windows is None else str(windows)
        case StreamJoin(windows=windows, kind=kind):
            yield "step", f"{kind} join of streams"
            yield WINDOWS, str(windows)
        case StreamTableJoin(kind=kind):
            yield "step", f"{kind} join of a stream and a table"
        case TableJoin(kind=kind):
            yield "step", f"{kind} join of tables"
        case Regroup(key=key, value=value):
            yield "step", "grouped table"
            yield "groups", _text(key)
            yield "rows", _text(value)
        case ForeignKeySubscribe(foreign_key=foreign_key):
            yield "step", "foreign keys of a table"
            yield "foreign key", _text(foreign_key)
        case ForeignKeyMatch(kind=kind):
            yield "step", f"{kind} join of tables by a foreign key"
        case ForeignKeyResult():
            yield "step", "results of a join by a foreign key"
        case Custom(operator=operator):
            yield "step", "processor"
            yield "time", str(operator.time.value)
            for spec in operator.stores:
                serdes = (spec.key.name, spec.map_key.name, spec.value.name)
                yield f"{STORE}{spec.name}", f"{spec.kind.value}: {', '.join(serdes)}"


def _gathered(aggregation: Aggregation) -> str:
    if isinstance(aggregation, Folds):
        return ", ".join(fold.name for _, fold in aggregation.folds)
    is_of_several = isinstance(aggregation, Cogrouping) and len(aggregation.adders) > 1
    return "functions of several streams" if is_of_several else "functions"


def _aggregation(aggregation: Aggregation) -> Iterator[tuple[str, str]]:
    match aggregation:
        case Folds(folds=folds):
            named = [("" if name is None else f"{name}=", fold.name, fold.argument) for name, fold in folds]
            texts = [(f"{to}{what}", "" if of is None else _text(of)) for to, what, of in named]
            yield "aggregates", _all([text if text == UNKNOWN else f"{what}({text})" for what, text in texts])
            return
        case Reduction(reducer=reducer, subtractor=subtractor):
            functions = {"reducer": reducer, "subtractor": subtractor}
        case Accumulation(adder=adder, merger=merger, subtractor=subtractor):
            yield "initial", repr(aggregation.initial)
            functions = {"adder": adder, "merger": merger, "subtractor": subtractor}
        case Cogrouping(adders=adders, merger=merger):
            yield "initial", repr(aggregation.initial)
            functions = {**{f"adder {side}": adder for side, adder in enumerate(adders, 1)}, "merger": merger}
    yield from ((name, _text(function)) for name, function in functions.items() if function is not None)


def _read(topology: Topology, inflow: Inflow) -> str:
    if isinstance(inflow.origin.work, Source):
        return "+".join(inflow.origin.work.reads)
    return own_topic(topology, inflow.origin)


def _key(inflow: Inflow) -> str:
    """What the records' keys are when they come to the root: as in the topic, or what the last step made of them."""
    for step in reversed(inflow.steps):
        if isinstance(step.work, REKEYS):
            return _text(step.work.key)
        if isinstance(step.work, FlatMap) and not step.work.values_only:
            return _text(step.work.records)
    return _serde(inflow.origin.work.key) if isinstance(inflow.origin.work, Source) else "as they are"


def _keeps_values(query: Query) -> bool:
    """Whether the state is of values as they came, and not of what was made of them."""
    if isinstance(query.work, Aggregate):
        return isinstance(query.work.aggregation, Reduction)
    return not isinstance(query.work, Custom | Repartition)


def _goes_by_time(query: Query) -> bool:
    """Whether what the state holds depends on when records happened, and not on their order alone."""
    if isinstance(query.work, Aggregate):
        return query.work.windows is not None
    return isinstance(query.work, StreamJoin | Custom)


def _times(extractor: TimestampExtractor) -> str:
    """Where times come from; nothing for a record's own, which is what earlier versions noted."""
    if extractor.expression is not None:
        return _text(extractor.expression)
    return "" if extractor == TimestampExtractor() else extractor.name


def _names(inflow: Inflow) -> list[str]:
    nodes: tuple[Node, ...] = (inflow.origin, *inflow.steps)
    return [node.name for node in nodes]


def _serde(serde: Serde) -> str:
    return f"{serde.name}({serde.type})" if serde.name == "json" else serde.name


def _all(texts: list[str]) -> str:
    """Several in a line; what cannot be read of one cannot be compared of all."""
    return UNKNOWN if UNKNOWN in texts else ", ".join(texts)


def _text(expression: Expression) -> str:
    return said(expression) or UNKNOWN

"""A topology: a plain graph of named nodes, each with the work it stands for.

Nothing here knows Spark. The builder adds nodes; `planning` cuts the graph into queries; `description` writes it in
Kafka Streams' words; `drawing` makes a picture. A node comes after its parents, so the order of the list is an order in
which everything can be walked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.aggregates import Fold
from ottla.pipelines.streams.expressions import Expression, Python
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.timestamps import TimestampExtractor
from ottla.pipelines.streams.windows import JoinWindows, Windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.streams.running import Running

LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
NAME_LENGTH_MAX = 249

# --- where records come from and where they go


@dataclass(frozen=True, slots=True)
class Source:
    """Records of topics, as a stream or as a table's changelog. With a pattern they are those whose names match it.

    With a history the table is versioned: its rows hold from their times on, and changes find their place.
    """

    topics: tuple[str, ...]
    key: Serde
    value: Serde
    table: bool = False
    store: str | None = None
    timestamp: TimestampExtractor = field(default_factory=TimestampExtractor)
    pattern: str | None = None
    history_ms: int | None = None
    reset: str | None = None
    """Where it is read from first: `earliest` or `latest`; None for what the start says."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Its topics, as they are told: a pattern between slashes."""
        return self.topics if self.pattern is None else (f"/{self.pattern}/",)


@dataclass(frozen=True, slots=True)
class GlobalSource:
    """A topic that is read as a whole, latest value by key, and given to every task."""

    topic: str
    key: Serde
    value: Serde
    store: str


@dataclass(frozen=True, slots=True)
class Sink:
    """Records written to a topic; without a serde the type decides. With an extractor each record names its topic."""

    topic: str
    key: Serde | None
    value: Serde | None
    extractor: Expression | None = None


@dataclass(frozen=True, slots=True)
class ForEach:
    """A Python function called for each record; the records end there."""

    function: Python


# --- what is done to one record at a time


@dataclass(frozen=True, slots=True)
class MapValues:
    """A new value; for a table, a deleted row stays deleted."""

    value: Expression
    table: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    """A new key and a new value."""

    key: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class SelectKey:
    """A new key."""

    key: Expression


@dataclass(frozen=True, slots=True)
class FlatMap:
    """A record for each element of an array of structs `key, value`, or of values when `values_only`."""

    records: Expression
    values_only: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """Records for which a condition holds and no earlier one did; a table's row that fails becomes a deletion."""

    condition: Expression | None
    negated: bool = False
    unless: tuple[Expression, ...] = ()
    table: bool = False


@dataclass(frozen=True, slots=True)
class Peek:
    """A Python function called for each record, which goes on unchanged."""

    function: Python


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing: a merge of streams, or a table seen as a stream."""

    what: str


@dataclass(frozen=True, slots=True)
class GlobalJoin:
    """Each record with the row of a global table that its key expression names."""

    table: str
    key: Expression
    joiner: Expression
    left: bool


Stateless = MapValues | Map | SelectKey | FlatMap | Filter | Peek | Pass | GlobalJoin


# --- what remembers


@dataclass(frozen=True, slots=True)
class Folds:
    """Aggregates that are named: one alone, whose name is None, or several as a struct."""

    folds: tuple[tuple[str | None, Fold], ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Values of a key made one, two at a time; the subtractor takes one out again, where rows change."""

    reducer: Python
    subtractor: Python | None = None


@dataclass(frozen=True, slots=True)
class Accumulation:
    """A value that begins as `initial` and grows by a Python function; the others are for sessions and for tables."""

    initial: Any
    adder: Python
    merger: Python | None = None
    subtractor: Python | None = None


@dataclass(frozen=True, slots=True)
class Cogrouping:
    """A value that begins as `initial` and grows by the function of each stream; the merger is for sessions."""

    initial: Any
    adders: tuple[Python, ...]
    merger: Python | None = None


Aggregation = Folds | Reduction | Accumulation | Cogrouping
"""What is gathered."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A table by key, or by key and window. `of_table`: of a grouped table's changes, which take out and put in.

    One of a `Cogrouping` has a parent for each of its streams.
    """

    aggregation: Aggregation
    store: str
    windows: Windows | None = None
    final: bool = False
    late_topic: str | None = None
    of_table: bool = False


@dataclass(frozen=True, slots=True)
class Regroup:
    """A table's rows under new keys: each change says what leaves a group and what comes into one."""

    key: Expression
    value: Expression


@dataclass(frozen=True, slots=True)
class Suppress:
    """A windowed table whose rows come once, when their window has closed."""


@dataclass(frozen=True, slots=True)
class StreamJoin:
    """Two streams' records of one key, not further apart than the windows say. `kind`: inner, left, outer."""

    windows: JoinWindows
    joiner: Expression
    kind: str


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """A stream's records with the row the table has for their key at that time. `kind`: inner, left."""

    joiner: Expression
    kind: str


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Two tables' rows of one key. `kind`: inner, left, outer."""

    joiner: Expression
    kind: str


@dataclass(frozen=True, slots=True)
class ForeignKeySubscribe:
    """The left table of a foreign-key join, told to those who keep the rows it refers to."""

    foreign_key: Expression


@dataclass(frozen=True, slots=True)
class ForeignKeyMatch:
    """Where a foreign key's rows of both tables meet."""

    kind: str


@dataclass(frozen=True, slots=True)
class ForeignKeyResult:
    """The newest answer for each row of the left table."""

    joiner: Expression


@dataclass(frozen=True, slots=True)
class Repartition:
    """Records through a topic of the application's own, so that they lie there by their key."""

    partitions: int | None


@dataclass(frozen=True, slots=True)
class Custom:
    """A processor with its stores: `operator` is what `ottla.pipelines.streams.processor` makes of it."""

    operator: Any


Stateful = (
    Aggregate
    | Regroup
    | Suppress
    | StreamJoin
    | StreamTableJoin
    | TableJoin
    | ForeignKeySubscribe
    | ForeignKeyMatch
    | ForeignKeyResult
    | Repartition
    | Custom
)
"""What is the root of a query of its own."""
Work = Source | GlobalSource | Sink | ForEach | Stateless | Stateful

REKEYS = (Map, SelectKey)


@dataclass(frozen=True, slots=True)
class Node:
    """One step. `parents` are names; a join's are in order left, right.

    `number` is the name that it has, or would have if the user had not named it; empty where a name takes no number.
    """

    name: str
    work: Work
    parents: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    number: str = ""

    @property
    def is_numbered(self) -> bool:
        """Whether nothing of it was named, so that it is known by its place in the topology alone."""
        return self.name == self.number and not self.has_named_store

    @property
    def has_named_store(self) -> bool:
        """Whether the user named its store, which makes it one that can be asked."""
        return isinstance(self.work, Aggregate) and self.work.store != f"{self.number}-STATE-STORE"

    @property
    def identity(self) -> str:
        """What its state is known by from one version of a topology to the next: the store's name, or the step's."""
        if isinstance(self.work, Aggregate) and self.has_named_store:
            return self.work.store
        return self.name


@dataclass(slots=True)
class Graph:
    """Nodes by name, in the order they were added: parents first."""

    nodes: dict[str, Node] = field(default_factory=dict)
    timestamp: TimestampExtractor = field(default_factory=TimestampExtractor)
    """Of sources that do not say."""
    _numbers: int = 0

    def name(self, kind: str) -> str:
        """A name as Kafka Streams makes them: `KSTREAM-FILTER-0000000003`."""
        name = f"{kind}-{self._numbers:010d}"
        self._numbers += 1
        return name

    def step(self, kind: str, name: str | None, work: Work, *parents: str, has_store: bool = False) -> str:
        """Adds a node under the user's name or a number, with a store named after it if it has one; returns its name.

        A named step takes a number as well, as in Kafka Streams: naming one renames no other.
        """
        number = self.name(kind)
        given = number if name is None else check_name(name)
        return self.add(given, work, *parents, stores=(f"{given}-store",) if has_store else (), number=number)

    def add(self, name: str, work: Work, *parents: str, stores: tuple[str, ...] = (), number: str = "") -> str:
        """Adds a node and returns its name."""
        if name in self.nodes:
            raise PipelineError(f"the topology has a node {name} already: give the second one another name")
        missing = [parent for parent in parents if parent not in self.nodes]
        assert not missing, f"{name} stands on {missing}, which are not in the graph"
        self.nodes[name] = Node(name, work, parents, stores, number)
        return name


def check_name(name: str) -> str:
    """A step's or store's name, which topics and directories are named after, so it is held to a topic's rules."""
    if not LEGAL.fullmatch(name) or name in (".", "..") or len(name) > NAME_LENGTH_MAX:
        raise PipelineError(
            f"{name!r} is no name for a step: it has letters, digits, '.', '_' and '-' only, and at most "
            f"{NAME_LENGTH_MAX} of them"
        )
    return name


class Topology:
    """A finished graph under the application's name: described, drawn, started on Spark."""

    def __init__(self, application: str, nodes: Mapping[str, Node], places: Mapping[str, str] | None = None) -> None:
        self.application = application
        self.nodes = dict(nodes)
        self.places = dict(places or {})
        """Where a checkpoint has the state of steps that are called something else today, by their identity."""
        self._children: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for parent in dict.fromkeys(node.parents):
                self._children[parent].append(node)

    def at(self, places: Mapping[str, str]) -> Topology:
        """The same topology on a checkpoint that has its steps at these places."""
        return Topology(self.application, self.nodes, places)

    def place(self, node: Node) -> str:
        """What a step's checkpoint, its transactions and the topic of its results are named after."""
        return self.places.get(node.identity, node.identity)

    def children(self, name: str) -> list[Node]:
        """Who reads a node's records."""
        return self._children[name]

    def describe(self) -> str:
        """The topology as text, in the manner of Kafka Streams' `TopologyDescription`."""
        from ottla.pipelines.streams.description import describe

        return describe(self)

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flowchart, which Git hosts and notebooks show as a picture."""
        from ottla.pipelines.streams.drawing import mermaid

        return mermaid(self)

    def to_svg(self) -> str:
        """The topology as a picture that stands alone."""
        from ottla.pipelines.streams.drawing import svg

        return svg(self)

    def start(self, spark: SparkSession, bootstrap: str, *, checkpoint: str, **options: Any) -> Running:
        """Runs the topology on Spark against a cluster; see `ottla.pipelines.streams.running.start`."""
        from ottla.pipelines.streams.running import start

        return start(self, spark, bootstrap, checkpoint=checkpoint, **options)

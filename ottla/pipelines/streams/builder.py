"""`StreamsBuilder`: where a topology begins."""

from __future__ import annotations

import re

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.expressions import Expression
from ottla.pipelines.streams.graph import LEGAL, GlobalSource, Graph, Source, Topology, check_name
from ottla.pipelines.streams.kstream import KStream
from ottla.pipelines.streams.ktable import GlobalKTable, KTable
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.timestamps import TimestampExtractor
from ottla.pipelines.streams.windows import Duration, milliseconds

FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
"""How a regular expression says what it was compiled with. `re.LOCALE` is for bytes."""


class StreamsBuilder:
    """Gathers the nodes of one topology: streams and tables of topics, and what is made of them.

    `timestamp` says where the records of sources have their times from that do not say so themselves: Kafka Streams'
    `default.timestamp.extractor`. See `timestamps`.
    """

    def __init__(self, *, timestamp: TimestampExtractor | Expression | None = None) -> None:
        self._graph = Graph(timestamp=TimestampExtractor.of(timestamp))

    def stream(
        self,
        *topics: str | re.Pattern[str],
        key: str | Serde = "string",
        value: str | Serde = "string",
        name: str | None = None,
        timestamp: TimestampExtractor | Expression | None = None,
        reset: str | None = None,
    ) -> KStream:
        """Every record of the topics, for itself. `name` is the step's: Kafka Streams' `Consumed.as`.

        A `re.compile(...)` in place of topics stands for all whose whole names match, those that come later as well.
        `timestamp` says where a record's time comes from: a function, or the name of one of Kafka Streams' extractors.
        `reset` is where a first start reads from, `earliest` or `latest`: Kafka Streams' `AutoOffsetReset`.
        """
        named = tuple(topic for topic in topics if isinstance(topic, str))
        patterns = [
            _text(topic) for topic in topics if isinstance(topic, re.Pattern) and isinstance(topic.pattern, str)
        ]
        if len(named) + len(patterns) < len(topics) or (patterns and len(topics) > 1) or not topics:
            raise PipelineError("a stream needs at least one topic's name, or one re.compile(...) of names")
        if reset not in (None, "earliest", "latest"):
            raise PipelineError(f"reset is earliest or latest, not {reset!r}")
        pattern = patterns[0] if patterns else None
        extractor = self._extractor(timestamp)
        work = Source(named, Serde.of(key), Serde.of(value), timestamp=extractor, pattern=pattern, reset=reset)
        return KStream(self._graph, self._graph.step("KSTREAM-SOURCE", name, work))

    def table(
        self,
        topic: str,
        *,
        key: str | Serde = "string",
        value: str | Serde = "string",
        name: str | None = None,
        named: str | None = None,
        timestamp: TimestampExtractor | Expression | None = None,
        versioned: Duration | None = None,
    ) -> KTable:
        """The topic as a changelog: a key's latest value is its row, a null value deletes it.

        `name` is the store's, by which it can be asked, and `named` the step's. `timestamp` is as for `stream`. With
        `versioned`, which says how long its history is, changes are in the order of their times, and a stream that
        joins the table finds the row of the record's time (KIP-889, KIP-914).
        """
        extractor = self._extractor(timestamp)
        history_ms = None if versioned is None else milliseconds(versioned, "the history of a versioned table")
        if history_ms is not None and name is not None:
            raise PipelineError("a versioned table has no store that can be asked: leave its name away")
        number = self._graph.name("KTABLE-SOURCE")
        work = Source(
            (topic,), Serde.of(key), Serde.of(value), table=True, store=name, timestamp=extractor, history_ms=history_ms
        )
        node = number if named is None else check_name(named)
        return KTable(self._graph, self._graph.add(node, work, stores=(name,) if name else (), number=number))

    def global_table(
        self,
        topic: str,
        *,
        key: str | Serde = "string",
        value: str | Serde = "string",
        name: str | None = None,
        named: str | None = None,
    ) -> GlobalKTable:
        """The whole topic as a table on every worker; as fresh as the micro-batch that looks into it.

        `name` is the store's and `named` the step's, as for `table`.
        """
        store = name or f"{topic}-STATE-STORE"
        number = self._graph.name("KSTREAM-SOURCE")
        work = GlobalSource(topic, Serde.of(key), Serde.of(value), store)
        node = number if named is None else check_name(named)
        return GlobalKTable(self._graph, self._graph.add(node, work, stores=(store,), number=number))

    def build(self, application: str) -> Topology:
        """The finished topology. The application's name begins those of its own topics, and must stay the same."""
        if not LEGAL.fullmatch(application):
            raise PipelineError(
                f"an application's name has letters, digits, '.', '_' and '-' only, not {application!r}"
            )
        if not self._graph.nodes:
            raise PipelineError("the topology is empty: begin with stream(), table() or global_table()")
        return Topology(application, self._graph.nodes)

    def _extractor(self, given: TimestampExtractor | Expression | None) -> TimestampExtractor:
        return self._graph.timestamp if given is None else TimestampExtractor.of(given)


def _text(pattern: re.Pattern[str]) -> str:
    """A pattern as text, which is what sources and checkpoints take, with the flags that it was compiled with."""
    own = _compiled(pattern.pattern)
    if own is not None and own.flags == pattern.flags:
        return pattern.pattern
    letters = "".join(letter for letter, flag in FLAGS.items() if pattern.flags & flag)
    text = f"(?{letters}:{pattern.pattern})"
    if _compiled(text) is None:
        raise PipelineError(f"put its flags into the expression of {pattern!r}: all of them, as (?{letters})")
    return text


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text)
    except re.error:
        return None  # flags in the middle, or what only other flags make an expression

"""`StreamsBuilder`: where a topology begins."""

from __future__ import annotations

import re

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.graph import GlobalSource, Graph, Source, Topology
from ottla.pipelines.streams.kstream import KStream
from ottla.pipelines.streams.ktable import GlobalKTable, KTable
from ottla.pipelines.streams.serdes import Serde

LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class StreamsBuilder:
    """Gathers the nodes of one topology: streams and tables of topics, and what is made of them."""

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(self, *topics: str, key: str | Serde = "string", value: str | Serde = "string") -> KStream:
        """Every record of the topics, for itself."""
        if not topics:
            raise PipelineError("a stream needs at least one topic")
        work = Source(topics, Serde.of(key), Serde.of(value))
        return KStream(self._graph, self._graph.add(self._graph.name("KSTREAM-SOURCE"), work))

    def table(
        self, topic: str, *, key: str | Serde = "string", value: str | Serde = "string", name: str | None = None
    ) -> KTable:
        """The topic as a changelog: a key's latest value is its row, a null value deletes it."""
        node = self._graph.name("KTABLE-SOURCE")
        work = Source((topic,), Serde.of(key), Serde.of(value), table=True, store=name)
        return KTable(self._graph, self._graph.add(node, work, stores=(name,) if name else ()))

    def global_table(
        self, topic: str, *, key: str | Serde = "string", value: str | Serde = "string", name: str | None = None
    ) -> GlobalKTable:
        """The whole topic as a table on every worker; as fresh as the micro-batch that looks into it."""
        store = name or f"{topic}-STATE-STORE"
        node = self._graph.name("KSTREAM-SOURCE")
        work = GlobalSource(topic, Serde.of(key), Serde.of(value), store)
        return GlobalKTable(self._graph, self._graph.add(node, work, stores=(store,)))

    def build(self, application: str) -> Topology:
        """The finished topology. The application's name begins those of its own topics, and must stay the same."""
        if not LEGAL.fullmatch(application):
            raise PipelineError(
                f"an application's name has letters, digits, '.', '_' and '-' only, not {application!r}"
            )
        if not self._graph.nodes:
            raise PipelineError("the topology is empty: begin with stream(), table() or global_table()")
        return Topology(application, self._graph.nodes)

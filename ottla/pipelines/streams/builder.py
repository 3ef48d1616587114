"""`StreamsBuilder`: where a topology begins."""

from __future__ import annotations

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.graph import LEGAL, GlobalSource, Graph, Source, Topology, check_name
from ottla.pipelines.streams.kstream import KStream
from ottla.pipelines.streams.ktable import GlobalKTable, KTable
from ottla.pipelines.streams.serdes import Serde


class StreamsBuilder:
    """Gathers the nodes of one topology: streams and tables of topics, and what is made of them."""

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(
        self, *topics: str, key: str | Serde = "string", value: str | Serde = "string", name: str | None = None
    ) -> KStream:
        """Every record of the topics, for itself. `name` is the step's: Kafka Streams' `Consumed.as`."""
        if not topics:
            raise PipelineError("a stream needs at least one topic")
        work = Source(topics, Serde.of(key), Serde.of(value))
        return KStream(self._graph, self._graph.step("KSTREAM-SOURCE", name, work))

    def table(
        self,
        topic: str,
        *,
        key: str | Serde = "string",
        value: str | Serde = "string",
        name: str | None = None,
        named: str | None = None,
    ) -> KTable:
        """The topic as a changelog: a key's latest value is its row, a null value deletes it.

        `name` is the store's, by which it can be asked, and `named` the step's.
        """
        number = self._graph.name("KTABLE-SOURCE")
        work = Source((topic,), Serde.of(key), Serde.of(value), table=True, store=name)
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

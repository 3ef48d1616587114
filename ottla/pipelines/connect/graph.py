"""Which sources each sink of a pipeline reads, and by which queries: known from the file, before Spark is.

Records have a name: that of their source, or of the `sql` that made them with `as`. A transform changes all that there
are; a `sql` without `as` puts its rows in the place of all of them, under the name `records`. A sink reads what its
`from` names, and without it everything but the results that have a name of their own. Called by `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ottla.pipelines.connect import sql_query
from ottla.pipelines.connect.errors import listed, nearest
from ottla.pipelines.connect.yaml_file import Path as Place

RECORDS = "records"
"""The records of a lone source, of all sources in a query, and those that a `sql` without `as` made."""
Wrong = Callable[[Place, str], None]


@dataclass(frozen=True, slots=True)
class Graph:
    """The answer."""

    reads: Mapping[str, tuple[str, ...]]
    """The records, by name, that each sink reads."""
    sources: Mapping[str, tuple[str, ...]]
    """The streams that each sink is made of, in the order in which its query has them."""


class _Builder:
    def __init__(self, streams: Sequence[str], tables: Sequence[str], wrong: Wrong) -> None:
        self._streams: dict[str, tuple[str, ...]] = {name: (name,) for name in streams}
        self._tables = list(tables)
        self._wrong = wrong
        self._named: set[str] = set()
        """Results of queries, which are read only by name."""
        self._used: set[str] = set()

    def query(self, place: Place, text: str, result: str | None) -> None:
        """A `sql` transform."""
        known = [*self._streams, *self._tables]
        made_of: list[str] = []
        found = sql_query.read(text)
        for name in found.names:
            same = next((one for one in known if one.lower() == name.lower()), None)
            if same is not None:
                self._used.add(same)
                made_of += self._streams.get(same, ())
            elif name.lower() == RECORDS:
                self._used |= self._default().keys()
                everything = self._default()
                made_of += [source for one in sorted(everything) for source in everything[one]]
            else:
                self._wrong((*place, "query"), f"sql: there is no table {name}: {nearest(name, [*known, RECORDS])}")
                made_of += self._streams  # it is meant to read something
        if not made_of:
            self._wrong((*place, "query"), f"sql: the query reads no stream: there is {listed(self._streams)}")
        if result is None:
            self._used |= self._streams.keys() - self._named
            self._streams, self._named = {RECORDS: tuple(made_of)}, set()
        elif result.lower() in (name.lower() for name in [*known, RECORDS]):
            self._wrong((*place, "as"), f"sql: there are records {result} already")
        else:
            self._streams[result] = tuple(made_of)
            self._named.add(result)

    def sink(self, place: Place, asked: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What a sink reads, and which sources that is made of."""
        for name in asked:
            if name not in self._streams:
                why = "is static, for queries to read" if name in self._tables else "is not there"
                near = nearest(name, self._streams)
                self._wrong((*place, "from"), f"from: {name} {why}: {near}")
                return (), ()
        # By name, so that the order of the file may change: a checkpoint knows its sources by their order.
        reads = sorted(dict.fromkeys(asked)) if asked else sorted(self._default())
        self._used |= set(reads)
        return tuple(reads), tuple(source for name in reads for source in self._streams[name])

    def finish(self, place_of: Callable[[str], Place]) -> None:
        """What nobody reads."""
        for name in [*self._streams, *self._tables]:
            if name not in self._used:
                self._wrong(place_of(name), f"nothing reads {name}")

    def _default(self) -> dict[str, tuple[str, ...]]:
        return {name: sources for name, sources in self._streams.items() if name not in self._named}


def graph(
    streams: Sequence[str],
    tables: Sequence[str],
    queries: Sequence[tuple[Place, str, str | None]],
    sinks: Mapping[str, tuple[Place, Sequence[str]]],
    place_of: Callable[[str], Place],
    wrong: Wrong,
) -> Graph:
    """The graph of a pipeline; what is wrong with it is told to `wrong`.

    `streams` and `tables` are its sources by name, of which those are read as they grow and these as they are.
    `queries` are its `sql` transforms, in order: place, query and the name of the result.
    """
    builder = _Builder(streams, tables, wrong)
    for place, text, result in queries:
        builder.query(place, text, result)
    found = {name: builder.sink(place, asked) for name, (place, asked) in sinks.items()}
    builder.finish(place_of)
    return Graph(
        {name: reads for name, (reads, _) in found.items()}, {name: sources for name, (_, sources) in found.items()}
    )

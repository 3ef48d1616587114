"""The streams, tables and queries that were created, in a file that outlives the process.

    <directory>/catalog.json     everything below, replaced as a whole and synced
    <directory>/lock             held while it is changed
    <directory>/running          held by the process that runs the queries
    <directory>/checkpoints/     Spark's, one directory a query

It is a file and not a topic because a query's checkpoint is on this file system too: the one is worth nothing without
the other, and they are moved, copied and deleted together. Promises: a change is durable when `changing` returns, and
two processes never lose each other's; no Spark is imported.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ottla.pipelines.durable import write_beside
from ottla.pipelines.sql.errors import SqlError

VERSION = 1
FILE = "catalog.json"


def default_home() -> Path:
    """`$XDG_DATA_HOME/ottla/sql`."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return Path(base) / "ottla" / "sql"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a stream or table; its type in Spark's words."""

    name: str
    type: str
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table: what a topic's bytes mean."""

    kind: str
    """STREAM or TABLE."""
    name: str
    topic: str
    columns: tuple[Column, ...]
    key_format: str
    value_format: str
    statement: str = ""
    timestamp: str | None = None
    """The column that has a record's time."""
    timestamp_format: str | None = None
    window: str | None = None
    """Of a windowed table: TIME or SESSION."""
    window_size_ms: int | None = None

    @property
    def key_columns(self) -> list[Column]:
        return [column for column in self.columns if column.is_key]

    @property
    def value_columns(self) -> list[Column]:
        return [column for column in self.columns if not column.is_key]

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class QueryEntry:
    """A query that is kept: CREATE ... AS SELECT, or INSERT INTO ... SELECT."""

    id: str
    statement: str
    sink: str
    sources: tuple[str, ...]
    reset: str = "earliest"
    """Where it began to read streams."""
    is_paused: bool = False


@dataclass(slots=True)
class Contents:
    """What the file says."""

    id: str
    """Names the catalog's transactions and topics, so that two catalogs on a cluster do not meet."""
    cluster: str | None = None
    """The id of the cluster that the topics are on, once it is known."""
    queries_made: int = 0
    sources: dict[str, Source] = field(default_factory=dict)
    """By their names in lower case."""
    queries: dict[str, QueryEntry] = field(default_factory=dict)

    def source(self, name: str) -> Source:
        """The stream or table of that name, in any case; refused with the nearest one when there is none."""
        found = self.sources.get(name.lower())
        if found is None:
            near = get_close_matches(name.lower(), self.sources, 1)
            hint = (
                f"is {self.sources[near[0]].name} meant?" if near else "SHOW STREAMS and SHOW TABLES list what there is"
            )
            raise SqlError(f"there is no stream or table {name}: {hint}")
        return found

    def query(self, query_id: str) -> QueryEntry:
        """The query of that id, in any case."""
        found = next((one for one in self.queries.values() if one.id.lower() == query_id.lower()), None)
        if found is None:
            near = get_close_matches(query_id, self.queries, 1)
            hint = f"is {near[0]} meant?" if near else "SHOW QUERIES lists what there is"
            raise SqlError(f"there is no query {query_id}: {hint}")
        return found

    def readers(self, name: str) -> list[str]:
        """The queries that read a stream or table."""
        return [one.id for one in self.queries.values() if name.lower() in map(str.lower, one.sources)]

    def writers(self, name: str) -> list[str]:
        """The queries that write it."""
        return [one.id for one in self.queries.values() if one.sink.lower() == name.lower()]

    def new_query_id(self, what: str, sink: str) -> str:
        """`CSAS_BIG_1`: as ksqlDB names them, never the same twice."""
        self.queries_made += 1
        return f"{what}_{re.sub(r'[^A-Za-z0-9_.-]', '_', sink).upper()}_{self.queries_made}"


class Catalog:
    """The directory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._running: Any = None

    def read(self) -> Contents:
        """What the file says now; a new one where there is none."""
        path = self.home / FILE
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Contents(secrets.token_hex(4))
        except NotADirectoryError:
            raise SqlError(f"{self.home} is no directory: --catalog names one") from None
        try:
            return _read(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise SqlError(f"{path} is damaged: {error}. Restore it, or use another --catalog") from None

    @contextmanager
    def changing(self) -> Iterator[Contents]:
        """The contents, to be changed; written when the block ends without an error."""
        self.home.mkdir(parents=True, exist_ok=True)
        with open(self.home / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self.read()
            yield contents
            write_beside(self.home / FILE, json.dumps(_written(contents), indent=1).encode())

    def checkpoint(self, query_id: str) -> Path:
        """Where Spark keeps how far a query is."""
        return self.home / "checkpoints" / query_id

    def begin_running(self) -> None:
        """Takes the right to run queries, until `end_running`; refused while another process has it."""
        if self._running is not None:
            return
        self.home.mkdir(parents=True, exist_ok=True)
        lock = open(self.home / "running", "a+")  # noqa: SIM115  held as long as queries run
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            pid = lock.read().strip()
            lock.close()
            raise SqlError(
                f"another process (pid {pid}) runs the queries of {self.home}: end it first, or use another --catalog"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._running = lock

    def end_running(self) -> None:
        """Gives the right back."""
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def is_run_elsewhere(self) -> bool:
        """Whether another process runs the queries."""
        if self._running is not None:
            return False
        try:
            with open(self.home / "running") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False


def _written(contents: Contents) -> dict[str, Any]:
    return {
        "version": VERSION,
        "id": contents.id,
        "cluster": contents.cluster,
        "queries_made": contents.queries_made,
        "sources": [asdict(source) for source in contents.sources.values()],
        "queries": [asdict(query) for query in contents.queries.values()],
    }


def _read(found: Mapping[str, Any]) -> Contents:
    if found["version"] != VERSION:
        raise ValueError(f"it is of version {found['version']}, and this Ottla knows version {VERSION}")
    sources = [
        Source(**{**source, "columns": tuple(Column(**column) for column in source["columns"])})
        for source in found["sources"]
    ]
    queries = [QueryEntry(**{**query, "sources": tuple(query["sources"])}) for query in found["queries"]]
    return Contents(
        found["id"],
        found["cluster"],
        found["queries_made"],
        {source.name.lower(): source for source in sources},
        {query.id: query for query in queries},
    )

"""Writing to a database so that each micro-batch is there once, as new rows or merged into those that there are.

A micro-batch is gathered in a staging table, which Spark's tasks fill over many connections; then one transaction on
one connection takes it over into the table and moves the query's mark in `ottla_pipelines` to the batch. A batch that
is tried again, because the driver died anywhere between, finds its mark or finds nothing of itself. How rows are merged
is said by `jdbc_dialects`, and which rows there are by `jdbc_rows`. Called by `sinks`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect import jdbc_rows
from ottla.pipelines.connect.errors import listed, nearest
from ottla.pipelines.connect.jdbc_dialects import DELETED, Merge, dialect_of, quoted
from ottla.pipelines.connect.packages import require_driver
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.connect.spec import Part

MARKS = "ottla_pipelines"
SQLITE = "jdbc:sqlite:"
"""A database with one writer at a time."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JdbcTable:
    """The table that a pipeline writes to."""

    def __init__(self, sink: Part, keys: Sequence[str] = ()) -> None:
        self._url = sink.options["url"]
        self._table = sink.options["table"]
        self._staging = sink.options.get("staging", _beside(self._table))
        self._properties = {name: sink.options[name] for name in ("driver", "user", "password") if name in sink.options}
        self._mode = sink.options.get("insert-mode", "insert")
        self._deletes = sink.options.get("delete-enabled", False)
        self._creates = sink.options.get("auto-create", False)
        self._keys = list(keys)
        self._dialect = dialect_of(self._url)

    def prepare(self, df: DataFrame) -> None:
        """Make the table of marks, and the table if that is asked for.

        Says at once when the database cannot be reached, or has no such table, column or key.
        """
        names = [name for name in df.columns if name not in (DELETED, jdbc_rows.ORDER)]
        with closing(self._connect(df.sparkSession)) as connection:
            if self._creates and self._found(connection) is None:
                quote = _quote(connection)
                columns = [(quoted(name, quote), df.schema[name].dataType.simpleString()) for name in names]
                for name, type_ in columns:
                    if type_.partition("(")[0] not in (self._dialect.types or {}):
                        raise PipelineError(f"auto-create knows no column for {name} of {type_}")
                table = ".".join(quoted(part, quote) for part in self._table.split("."))
                self._run(connection, self._dialect.create(table, columns, [quoted(one, quote) for one in self._keys]))
            there = dict(zip(names, self._columns(connection, names), strict=True))
            if self._mode == "upsert" and self._dialect.has_on_conflict:
                self._require_unique(connection, [there[name] for name in self._keys])
            if not self._has_marks(connection):
                self._run(connection, f"CREATE TABLE {MARKS} (query VARCHAR(100) PRIMARY KEY, batch BIGINT NOT NULL)")

    def write(self, df: DataFrame, query: str, batch: int) -> None:
        """Write a micro-batch of a query, unless it is there. A query's id is in its checkpoint."""
        spark = df.sparkSession
        with closing(self._connect(spark)) as connection:
            mark = self._mark(connection, query)
            if mark is None:
                self._run(connection, f"INSERT INTO {MARKS} (query, batch) VALUES ('{query}', -1)")
            elif mark >= batch:
                return
            self._make_staging(connection)
        if self._mode != "insert":
            df = jdbc_rows.last(df, self._keys)
        elif jdbc_rows.ORDER in df.columns:
            df = df.drop(jdbc_rows.ORDER)
        if self._url.startswith(SQLITE):
            df = df.coalesce(1)  # tasks beside each other would find the database locked
        df.write.jdbc(self._url, self._staging, mode="overwrite", properties=self._properties)
        with closing(self._connect(spark)) as connection:
            connection.setAutoCommit(False)
            try:
                self._take_over(connection, df.columns, query, batch)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _make_staging(self, connection: Any) -> None:
        """Make the staging table where there is none; Spark replaces it by one with the micro-batch's columns.

        Spark looks for a table by reading it, and takes the refusal for "there is none" only of databases that it has a
        dialect for. SQLite is not among them.
        """
        from py4j.protocol import Py4JJavaError

        try:
            with closing(connection.createStatement()) as statement:
                statement.executeQuery(f"SELECT 1 FROM {self._staging} WHERE 1 = 0").close()
        except Py4JJavaError:
            self._run(connection, f"CREATE TABLE {self._staging} (ottla INTEGER)")

    def _take_over(self, connection: Any, columns: list[str], query: str, batch: int) -> None:
        # The mark goes first: a driver that was taken for dead waits here for the row, and then finds itself late.
        moved = self._run(connection, f"UPDATE {MARKS} SET batch = {batch} WHERE query = '{query}' AND batch < {batch}")
        if moved:
            merge, dialect = self._merge(connection, columns), self._dialect
            how = {"insert": dialect.insert, "update": dialect.update, "upsert": dialect.upsert}[self._mode]
            for statement in (*dialect.delete(merge), *how(merge)):
                self._run(connection, statement)

    def _merge(self, connection: Any, columns: list[str]) -> Merge:
        quote = _quote(connection)
        names = [name for name in columns if name != DELETED]
        pairs = {
            name: (quoted(there, quote), quoted(name, quote))
            for name, there in zip(names, self._columns(connection, names), strict=True)
        }
        return Merge(
            self._name(connection), self._staging, list(pairs.values()), [pairs[name] for name in self._keys],
            quoted(DELETED, quote) if DELETED in columns else "",
        )  # fmt: skip

    def _name(self, connection: Any) -> str:
        """The table as the database reads it: quoted, so that it may be named as a word of SQL."""
        found = self._found(connection)
        if found is None:
            return str(self._table)  # a synonym, a name that is quoted in the file, or none that there is
        schema, name = found
        quote = _quote(connection)
        return f"{quoted(schema, quote)}.{quoted(name, quote)}" if "." in self._table else quoted(name, quote)

    def _found(self, connection: Any) -> tuple[str, str] | None:
        """The schema and the name of the table in the database's own letters; None where there is no such table."""
        described = connection.getMetaData()
        escape = str(described.getSearchStringEscape() or "")
        *before, name = self._table.split(".")
        wanted = before[-1].lower() if before else (connection.getSchema() or "").lower()
        for letters in dict.fromkeys((name, name.lower(), name.upper())):
            pattern = re.sub(r"([_%])", lambda found: f"{escape}{found[1]}", letters) if escape else letters
            with closing(described.getTables(None, None, pattern, None)) as tables:
                while tables.next():
                    schema = str(tables.getString("TABLE_SCHEM") or "")
                    if tables.getString("TABLE_NAME") == letters and (
                        not schema or not wanted or schema.lower() == wanted
                    ):
                        return schema, letters
        return None

    def _require_unique(self, connection: Any, keys: list[str]) -> None:
        """An upsert names the key that it goes by, and the database wants it to be one."""
        found = self._found(connection)
        if found is None:
            return
        schema, name = found
        described, indexes = connection.getMetaData(), dict[str, set[str]]()
        with closing(described.getPrimaryKeys(None, schema or None, name)) as columns:
            while columns.next():
                indexes.setdefault("", set()).add(str(columns.getString("COLUMN_NAME")))
        with closing(described.getIndexInfo(None, schema or None, name, True, True)) as columns:
            while columns.next():
                if columns.getString("COLUMN_NAME") is not None:
                    index = str(columns.getString("INDEX_NAME"))
                    indexes.setdefault(index, set()).add(str(columns.getString("COLUMN_NAME")))
        if set(keys) not in indexes.values():
            raise PipelineError(f"the table {self._table} has no primary key or unique index of {listed(keys)}")

    def _columns(self, connection: Any, wanted: list[str]) -> list[str]:
        """The table's columns for these fields: a database may have taken their names in another case."""
        with closing(connection.createStatement()) as statement:
            described = statement.executeQuery(f"SELECT * FROM {self._name(connection)} WHERE 1 = 0").getMetaData()
            names = [str(described.getColumnName(index + 1)) for index in range(described.getColumnCount())]
        by_case = {name.lower(): name for name in names} | {name: name for name in names}
        for name in wanted:
            if name not in by_case and name.lower() not in by_case:
                raise PipelineError(f"the table {self._table} has no column {name}: {nearest(name, names)}")
        return [by_case.get(name) or by_case[name.lower()] for name in wanted]

    def _mark(self, connection: Any, query: str) -> int | None:
        with closing(connection.createStatement()) as statement:
            found = statement.executeQuery(f"SELECT batch FROM {MARKS} WHERE query = '{query}'")
            return int(found.getLong(1)) if found.next() else None

    def _has_marks(self, connection: Any) -> bool:
        tables = connection.getMetaData().getTables(None, None, "%", None)
        while tables.next():
            if str(tables.getString("TABLE_NAME")).lower() == MARKS:
                return True
        return False

    def _run(self, connection: Any, sql: str) -> int:
        with closing(connection.createStatement()) as statement:
            return int(statement.executeUpdate(sql))

    def _connect(self, spark: SparkSession) -> Any:
        """A connection of the driver's Java process, with a driver that Spark's own class loader finds."""
        from py4j.protocol import Py4JJavaError

        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise PipelineError("a sink jdbc needs a Spark that runs here, and not one over Spark Connect")
        require_driver(spark, self._properties["driver"])
        try:
            properties = jvm.java.util.Properties()
            for name in ("user", "password"):
                if name in self._properties:
                    properties.setProperty(name, self._properties[name])
            return jvm.java.sql.DriverManager.getConnection(self._url, properties)
        except Py4JJavaError as error:
            raise PipelineError(f"{self._url} cannot be reached: {error.java_exception.toString()}") from None


def _quote(connection: Any) -> str:
    return str(connection.getMetaData().getIdentifierQuoteString()).strip()


def _beside(table: str) -> str:
    """The name of a staging table beside it: plain where the table's is, and else quoted as the standard has it."""
    parts = f"{table}_ottla".split(".")
    return ".".join(part if _PLAIN.fullmatch(part) else quoted(part, '"') for part in parts)

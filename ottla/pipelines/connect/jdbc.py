"""Writing to a database so that each micro-batch is there once.

A micro-batch is gathered in a staging table, which Spark's tasks fill over many connections; then one transaction on
one connection inserts it into the table and moves the query's mark in `ottla_pipelines` to the batch. A batch that
is tried again, because the driver died anywhere between, finds its mark or finds nothing of itself. The SQL is that of
the standard, which every database with transactions has. Called by `sinks`.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect.errors import nearest
from ottla.pipelines.connect.packages import require_driver
from ottla.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipelines.connect.spec import Part

MARKS = "ottla_pipelines"
SQLITE = "jdbc:sqlite:"
"""A database with one writer at a time."""


class JdbcTable:
    """The table that a pipeline writes to."""

    def __init__(self, sink: Part) -> None:
        self._url = sink.options["url"]
        self._table = sink.options["table"]
        self._staging = sink.options.get("staging", f"{self._table}_ottla")
        self._properties = {name: sink.options[name] for name in ("driver", "user", "password") if name in sink.options}

    def prepare(self, df: DataFrame) -> None:
        """Make the table of marks; says at once when the database cannot be reached, or has no such table or column."""
        with closing(self._connect(df.sparkSession)) as connection:
            self._columns(connection, df.columns)
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
            quote = connection.getMetaData().getIdentifierQuoteString().strip()
            there = ", ".join(f"{quote}{name}{quote}" for name in self._columns(connection, columns))
            staged = ", ".join(f"{quote}{name}{quote}" for name in columns)
            self._run(connection, f"INSERT INTO {self._table} ({there}) SELECT {staged} FROM {self._staging}")

    def _columns(self, connection: Any, wanted: list[str]) -> list[str]:
        """The table's columns for these fields: a database may have taken their names in another case."""
        with closing(connection.createStatement()) as statement:
            described = statement.executeQuery(f"SELECT * FROM {self._table} WHERE 1 = 0").getMetaData()
            names = [str(described.getColumnName(index + 1)) for index in range(described.getColumnCount())]
        by_case = {name.lower(): name for name in names}
        for name in wanted:
            if name.lower() not in by_case:
                raise PipelineError(f"the table {self._table} has no column {name}: {nearest(name, names)}")
        return [by_case[name.lower()] for name in wanted]

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

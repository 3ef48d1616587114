"""Formats that Spark has only with a package of theirs: whether it is there, is made for this Spark, and which one
would be.

Delta and Iceberg reach into Spark's insides, so each of their packages is for one minor version of Spark and fails in
the middle of a query on another: Delta 4.4.0 for Spark 4.2 writes on Spark 4.3 and cannot read. That is refused here,
before the first record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ottla.pipelines.errors import MissingDependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Package:
    """A format's package on Maven Central, as it was in November 2026."""

    artifact: str
    """In which `{spark}` is the minor version of Spark."""
    newest: str
    newest_spark: str
    """The last minor version of Spark that the newest release is made for."""
    entry: str
    """A class of it, to find its jar by."""

    def wanted(self, spark_version: str) -> str:
        """The package for this Spark, in words that Maven takes, as far as its version is known."""
        minor = _minor(spark_version)
        artifact = self.artifact.format(spark=minor)
        if _numbers(minor) <= _numbers(self.newest_spark):
            return f"{artifact}:{self.newest}"
        return f"{artifact}, of a release after {self.newest}, which ends at Spark {self.newest_spark}"

    def made_for(self, jar: str) -> str | None:
        """The minor version of Spark in the name of a jar; None where the name has none."""
        stem = re.escape(self.artifact.partition(":")[2]).replace(re.escape("{spark}"), r"(\d+\.\d+)")
        found = re.search(stem, jar)
        return None if found is None else found[1]


PACKAGES = {
    "delta": Package(
        artifact="io.delta:delta-spark_{spark}_2.13",
        newest="4.4.0",
        newest_spark="4.2",
        entry="io.delta.sql.DeltaSparkSessionExtension",
    ),
    "iceberg": Package(
        artifact="org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
        newest="1.12.0",
        newest_spark="4.1",
        entry="org.apache.iceberg.spark.SparkCatalog",
    ),
}


def require_format(spark: SparkSession, name: str) -> None:
    """One line where Spark does not know the format, or its package is another Spark's."""
    package = PACKAGES[name]
    jar = _jar_of(spark, package.entry)
    made_for = None if jar is None else package.made_for(jar)
    if made_for is not None and made_for != _minor(spark.version):
        raise MissingDependency(
            f"{jar} is for Spark {made_for}, and this is Spark {spark.version}: {name} needs "
            f"{package.wanted(spark.version)}"
        )
    try:
        spark.read.format(name).load("ottla-asks-whether-you-are-there")
    except (PySparkException, Py4JJavaError) as error:
        if "[DATA_SOURCE_NOT_FOUND]" in str(error):
            raise MissingDependency(
                f"{name} needs its package for this version of Spark: {package.wanted(spark.version)}; "
                "`spark: {spark.jars.packages: ...}` in the file fetches it"
            ) from None
        # It is there, and has said what it thinks of the name.


DRIVERS = {
    "com.mysql.cj.jdbc.Driver": "com.mysql:mysql-connector-j",
    "com.microsoft.sqlserver.jdbc.SQLServerDriver": "com.microsoft.sqlserver:mssql-jdbc",
    "oracle.jdbc.OracleDriver": "com.oracle.database.jdbc:ojdbc17",
    "org.h2.Driver": "com.h2database:h2",
    "org.mariadb.jdbc.Driver": "org.mariadb.jdbc:mariadb-java-client",
    "org.postgresql.Driver": "org.postgresql:postgresql",
    "org.sqlite.JDBC": "org.xerial:sqlite-jdbc",
}
"""The packages that have the drivers of well-known databases."""


def require_driver(spark: SparkSession, driver: str) -> None:
    """One line where Spark has no such driver; over Spark Connect only its server knows."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return
    try:
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(driver)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.lang.ClassNotFoundException":
            raise
        package = DRIVERS.get(driver, "group:artifact")
        raise MissingDependency(
            f"Spark has no driver {driver}: "
            f'`spark: {{spark.jars.packages: "{package}:VERSION"}}` in the file fetches it'
        ) from None


def _jar_of(spark: SparkSession, entry: str) -> str | None:
    """The file that a class would be loaded from; None without the class, or over Spark Connect."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        return None
    try:
        found = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(entry)
        return str(found.getProtectionDomain().getCodeSource().getLocation().getPath()).rpartition("/")[2]
    except Py4JError:
        return None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

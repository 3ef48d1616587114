"""Spark's own Kafka connector, added to a running session: the judge of `format("ottla")`.

`add_connector(spark)` makes `format("kafka")` known to that session; it skips the test with the reason when this
machine has no Maven or no registry. Called by tests marked `java`, and `connector_jars` by benchmarks, which give the
jars to their session when it starts.

Maven Central has no connector of Spark 4.3 yet; that of 4.2.0 is the newest that is there, and it runs on 4.3.0. The
provider of delegation tokens beside it is missing there for that version, and nothing that we do asks it for tokens, so
the newest one that can be had stands in.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.maven import Artifact, jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_VERSION = "4.2.0"
ARTIFACTS: tuple[Artifact, ...] = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def add_connector(spark: SparkSession) -> None:
    """`format("kafka")` works in this session from here on; a second call adds nothing."""
    known = {Path(row[0]).name for row in spark.sql("LIST JARS").collect()}
    for jar in connector_jars():
        if jar.name not in known:
            spark.sql(f"ADD JAR '{jar}'")


def connector_jars() -> list[Path]:
    """The jars, fetched once, without what they stand on: Spark has that."""
    found = jars(f"spark-connector-{CONNECTOR_VERSION}", *ARTIFACTS, transitive=False)
    return sorted(Path(found).parent.glob("*.jar"))

"""Spark's own Kafka connector, added to a running session: the judge of `format("ottla")`.

`add_connector(spark)` makes `format("kafka")` known to that session; it skips the test with the reason when this
machine has no Maven or no registry. Called by tests marked `java`, and `connector_jars` by benchmarks, which give the
jars to their session when it starts.

Maven Central has no connector of Spark 4.3 yet; that of 4.2.0 is the newest that is there, and it runs on 4.3.0. The
provider of delegation tokens beside it is missing there for that version, and nothing that we do asks it for tokens, so
the newest one that can be had stands in.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.maven import FETCH_S, Artifact, cache_dir

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
    if shutil.which("mvn") is None:
        pytest.skip("needs `mvn` for the jars of Spark's Kafka connector")
    home = cache_dir() / f"spark-connector-{CONNECTOR_VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".lock", "w") as lock:  # xdist workers and concurrent runs fetch once
        fcntl.flock(lock, fcntl.LOCK_EX)
        return [_fetched(home, artifact) for artifact in ARTIFACTS]


def _fetched(home: Path, artifact: Artifact) -> Path:
    jar = home / f"{artifact[1]}-{artifact[2]}.jar"
    if jar.exists():
        return jar
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={':'.join(artifact)}", f"-DoutputDirectory={home}"]
    fetched = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=FETCH_S, check=False)
    if fetched.returncode != 0:
        lines = (fetched.stdout + fetched.stderr).strip().splitlines() or ["no output"]
        pytest.skip(f"Maven could not fetch {jar.name}: {lines[0]}")
    return jar

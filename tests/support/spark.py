"""The Spark of the tests: one small session a run, on this machine's Java.

`start_spark()` makes it; the fixture `spark` in tests/pipelines/conftest.py is it. A test that kills its driver starts
another Python process, which calls this too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from ottla.pipelines.errors import MissingDependency
from ottla.pipelines.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 2
QUICK_DRIVER = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""In the environment of who starts a driver that lives for seconds or minutes: without the compiler for those that live
for hours, and its threads, a start and eight small queries take 12 s of a processor instead of 23."""


def start_spark(app_name: str = "ottla-tests", conf: Mapping[str, str | int] | None = None) -> SparkSession:
    """A session of two cores and little memory; skips the test with the reason where Spark cannot run."""
    settings: dict[str, str | int] = {
        "spark.sql.shuffle.partitions": CORES,
        "spark.driver.memory": "1g",
        # Tests look at every micro-batch, not at the last hundred.
        "spark.sql.streaming.numRecentProgressUpdates": 1000,
        **(conf or {}),
    }
    try:
        return session(app_name, master=f"local[{CORES}]", conf=settings)
    except MissingDependency as missing:
        pytest.skip(str(missing))

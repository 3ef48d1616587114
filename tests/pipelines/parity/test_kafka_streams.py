"""Kafka Streams 4.3.1 and `ottla.pipelines.streams` on the same input topics of an Ottla broker: equal results.

Input is in order, a little, half, or all of it out of order (`inputs`). A table's result is the last value of each key;
a stream's, and that of a window which is emitted once, is every record. Times are compared as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.testing import Cluster
from tests.pipelines.parity.results import OURS, Results, difference
from tests.pipelines.parity.topologies import OUTPUTS, topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


@pytest.mark.timeout(600)  # Spark on a busy machine
@pytest.mark.parametrize("name", OUTPUTS)
def test_results_equal_those_of_kafka_streams_however_late_the_input(
    spark: SparkSession, cluster: Cluster, theirs: Results, name: str, tmp_path: Path
) -> None:
    running = topology(name, OURS).start(
        spark, cluster.bootstrap_servers, checkpoint=str(tmp_path / name), available_now=True
    )
    running.raise_failure()
    running.stop()
    ours = Results(cluster.bootstrap_servers, OURS)
    wrong = {}
    for output in OUTPUTS[name]:
        wanted, found = theirs.of(output), ours.of(output)
        assert wanted, f"Kafka Streams has written nothing to {output}"
        if found != wanted:
            wrong[output] = difference(wanted, found)
    assert not wrong

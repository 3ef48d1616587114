"""Kafka Streams' results, made once for all parity tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.pipelines.parity.inputs import CASES, TOPICS, write
from tests.pipelines.parity.results import OURS, THEIRS, Results
from tests.pipelines.parity.topologies import OUTPUTS
from tests.support.kafka_streams import run_streams

PROGRAM = Path(__file__).parent / "kafka_streams"


@pytest.fixture(scope="session")
def theirs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All topologies on Kafka Streams, on input of which both sides have a copy."""
    for side in (THEIRS, OURS):
        for name in (*TOPICS, *(output for outputs in OUTPUTS.values() for output in outputs)):
            cluster.create_topic(f"{side}-{name}", partitions=len(CASES), retention_ms=-1)  # the times are long past
        write(cluster.bootstrap_servers, side)
    run_streams(
        PROGRAM, cluster.bootstrap_servers, "judge", tmp_path_factory.mktemp("streams"), THEIRS, "all", timeout=300
    )
    return Results(cluster.bootstrap_servers, THEIRS)

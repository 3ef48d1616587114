"""A standalone cluster, whose executors are processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.pipelines import spark
from ottla.testing import Cluster
from tests.pipelines.clusters import program
from tests.pipelines.clusters.outcome import check_outcome, make_topics
from tests.pipelines.clusters.processes import standalone


@pytest.mark.timeout(600)  # four Java processes on a busy machine
def test_the_program_runs_on_a_standalone_cluster(cluster: Cluster, tmp_path: Path) -> None:
    topics = make_topics(cluster, "standalone")
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": False,
    }
    with standalone(tmp_path / "spark") as master:
        found = program.run(
            tmp_path / "program.log", {"master": master, "conf": conf}, cluster.bootstrap_servers, tmp_path, topics
        )
    assert found["executors"] == ["org.apache.spark.executor.CoarseGrainedExecutorBackend"]
    check_outcome(cluster, topics, found)


def test_the_nodes_python_is_the_one_that_pyspark_python_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """For `format("ottla")` too, which Spark would run in PYSPARK_DRIVER_PYTHON, on the nodes as well."""
    monkeypatch.setattr(os, "environ", {**os.environ, "PYSPARK_PYTHON": "/of/the/nodes/python"})
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    spark._prepare("yarn", None)
    assert os.environ["PYSPARK_PYTHON"] == "/of/the/nodes/python"
    assert "PYSPARK_DRIVER_PYTHON" not in os.environ

"""Spark Connect: programs that have no Spark of their own, and Spark's declarative pipelines, which run through it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.pipelines import spark
from ottla.pipelines.errors import MissingDependency
from ottla.testing import Cluster
from tests.pipelines.clusters import program
from tests.pipelines.clusters.outcome import check_outcome, make_topics
from tests.pipelines.clusters.processes import connect_server


def test_without_its_packages_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_grpc(name: str) -> object:
        return None if name.startswith("grpc") else find_spec(name)

    monkeypatch.setattr(spark, "find_spec", without_grpc)
    with pytest.raises(MissingDependency, match=r"^Spark Connect needs grpcio and grpcio-status: pip install 'ottla\["):
        spark.session(remote="sc://localhost")


@pytest.mark.timeout(600)
def test_the_program_runs_over_spark_connect(cluster: Cluster, tmp_path: Path) -> None:
    topics = make_topics(cluster, "connect")
    with connect_server(tmp_path / "spark") as remote:
        found = program.run(tmp_path / "program.log", {"remote": remote}, cluster.bootstrap_servers, tmp_path, topics)
    assert found["session"] == "pyspark.sql.connect.session"
    check_outcome(cluster, topics, found)

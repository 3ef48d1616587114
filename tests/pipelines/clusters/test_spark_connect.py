"""Spark Connect: programs that have no Spark of their own, and Spark's declarative pipelines, which run through it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ottla.client import Producer
from ottla.pipelines import spark
from ottla.pipelines.errors import MissingDependency
from ottla.testing import Cluster
from tests.pipelines.clusters import program
from tests.pipelines.clusters.outcome import check_outcome, committed, make_topics
from tests.pipelines.clusters.processes import connect_server, environment, spark_home
from tests.pipelines.clusters.program import PARTITIONS
from tests.support.clients import new_topic

PAGE = Path(__file__).parents[3] / "docs" / "pipelines" / "declarative.md"
BLOCK = re.compile(r"^```(?:yaml|python)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file of the project, and its name."""


def test_without_its_packages_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_grpc(name: str) -> object:
        return None if name.startswith("grpc") else find_spec(name)

    monkeypatch.setattr(spark, "find_spec", without_grpc)
    with pytest.raises(MissingDependency, match=r"^Spark Connect needs grpcio and grpcio-status: pip install 'ottla\["):
        spark.session(remote="sc://localhost")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the one Spark Connect server of these tests."""
    with connect_server(tmp_path_factory.mktemp("connect") / "server") as address:
        yield address


@pytest.mark.timeout(600)  # a second Java on a busy machine
def test_the_program_runs_over_spark_connect(cluster: Cluster, remote: str, tmp_path: Path) -> None:
    check_program(cluster, {"remote": remote}, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="one Java more: runs when OTTLA_SOAK is set")
def test_the_program_runs_over_a_spark_connect_server_of_its_own(cluster: Cluster, tmp_path: Path) -> None:
    """Started by `session`, which then has all of its settings, and says nothing of those that cannot change."""
    conf = {"spark.driver.memory": "1g", "spark.ui.showConsoleProgress": False}
    check_program(cluster, {"remote": "local[2]", "conf": conf}, tmp_path)
    assert "CANNOT_MODIFY_CONFIG" not in (tmp_path / "program.log").read_text()


def check_program(cluster: Cluster, session: dict[str, Any], directory: Path) -> None:
    topics = make_topics(cluster, "connect")
    found = program.run(directory / "program.log", session, cluster.bootstrap_servers, directory, topics)
    assert found["session"] == "pyspark.sql.connect.session"
    check_outcome(cluster, topics, found)


@pytest.mark.timeout(600)
def test_a_declarative_pipeline_reads_and_writes_topics_exactly_once(
    cluster: Cluster, remote: str, tmp_path: Path
) -> None:
    """That of docs/pipelines/declarative.md, by Spark's own command; a second run adds what has come since."""
    orders = cluster.create_topic(new_topic("declared"), PARTITIONS)
    shouted = cluster.create_topic(new_topic("declared-shouted"), PARTITIONS)
    project = tmp_path / "project"
    for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        text = found[2].replace("localhost:9092", cluster.bootstrap_servers).replace('"orders-shouted"', repr(shouted))
        text = text.replace('"subscribe", "orders"', f'"subscribe", {orders!r}').replace("/tmp/", f"{tmp_path}/")
        file = project / found[1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert sorted(path.name for path in project.rglob("*.*")) == ["orders.py", "spark-pipeline.yaml"]
    wanted = set()
    for lot in range(2):
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(lot * 100, lot * 100 + 100):
                producer.send(orders, f"order {number}".encode(), key=f"k{number}".encode())
                wanted.add((f"k{number}".encode(), f"ORDER {number}".encode()))
        command = [str(spark_home() / "bin" / "spark-pipelines"), "run", "--remote", remote]
        ended = subprocess.run(
            command, cwd=project, env=environment(), capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
        assert "Flow shout has COMPLETED." in ended.stdout + ended.stderr
        records = committed(cluster, shouted, len(wanted))
        assert sorted((record.key or b"", record.value or b"") for record in records) == sorted(wanted)

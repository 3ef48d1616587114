"""YARN, whose containers are the executors, and with `--deploy-mode cluster` the driver too; runs with OTTLA_SOAK=1."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.pipelines.clusters import program
from tests.pipelines.clusters.hadoop import yarn
from tests.pipelines.clusters.outcome import check_outcome, make_topics
from tests.pipelines.clusters.processes import environment, whole_home

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="five Javas take minutes: OTTLA_SOAK=1 runs them"),
    pytest.mark.timeout(600),
]

EXECUTOR = "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend"
CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.cores": "2",
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.yarn.am.memory": "512m",
    "spark.yarn.jars": f"local:{whole_home()}/jars/*",  # 300 MB, and the node has them
}


@pytest.fixture(scope="module")
def conf_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the settings of the one YARN of these tests are."""
    with yarn(tmp_path_factory.mktemp("hadoop") / "yarn") as directory:
        yield directory


def test_the_program_runs_on_yarn(
    cluster: Cluster, conf_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is the program itself, as with `spark-submit --deploy-mode client`."""
    topics = make_topics(cluster, "yarn")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(conf_dir))
    conf = {**CONF, "spark.driver.host": "127.0.0.1", "spark.yarn.stagingDir": str(tmp_path / "staging")}
    session = {"master": "yarn", "conf": conf}
    found = program.run(tmp_path / "program.log", session, cluster.bootstrap_servers, tmp_path, topics)
    assert found["executors"] == [EXECUTOR]
    check_outcome(cluster, topics, found)


def test_the_program_runs_on_yarn_with_its_driver(cluster: Cluster, conf_dir: Path, tmp_path: Path) -> None:
    """By `spark-submit`; what the program says is in its container's log."""
    topics = make_topics(cluster, "yarn-driver")
    conf = {**CONF, "spark.yarn.stagingDir": str(tmp_path / "staging")}
    command = [
        str(whole_home() / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster",
        *(word for name, value in conf.items() for word in ("--conf", f"{name}={value}")),
        program.__file__, program.tell({}, cluster.bootstrap_servers, tmp_path, topics),
    ]  # fmt: skip
    told = environment() | {"HADOOP_CONF_DIR": str(conf_dir), "SPARK_HOME": str(whole_home())}
    ended = subprocess.run(command, cwd=tmp_path, env=told, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-4000:]
    said = [path.read_text() for path in (conf_dir.parent / "logs").rglob("stdout") if path.stat().st_size]
    assert len(said) == 1, "the driver says one line, and the others nothing"
    found = program.heard(said[0])
    assert found["executors"] == [EXECUTOR]
    check_outcome(cluster, topics, found)

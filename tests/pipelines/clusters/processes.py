"""Spark's own servers, from the jars of the installed package: a standalone master with a worker, and Spark Connect.

`connect_server` and `standalone` start them and stop them; each skips the test with the reason where there is no Java.
`running` is any server's process; `hadoop` has others.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.pipelines.errors import MissingDependency
from ottla.pipelines.java import find_java
from ottla.pipelines.spark import LOOPBACK
from ottla.pipelines.spark_home import light_home
from tests.pipelines.clusters.program import SHORT_LIVED
from tests.support.clients import eventually
from tests.support.server import free_ports

START_S = 90.0
STOP_S = 30.0


def environment() -> dict[str, str]:
    """As an operator sets it: which Java, which Python, which address."""
    try:
        java = find_java().home
    except MissingDependency as missing:
        pytest.skip(str(missing))
    return {
        **os.environ,
        **SHORT_LIVED,
        "JAVA_HOME": str(java),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "1g",
    }


def spark_home() -> Path:
    whole = whole_home()
    return light_home(whole) or whole


def whole_home() -> Path:
    """The installed package, with the archive that a cluster's workers are sent."""
    package = find_spec("pyspark")
    assert package is not None, "the tests of pipelines need it"
    assert package.origin is not None
    return Path(package.origin).parent


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The address of a Spark Connect server, of two cores."""
    (port,) = free_ports(1)
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": LOOPBACK,
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    command = [
        str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]  # fmt: skip
    with running(command, directory / "connect-server.log", port):
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """The address of a standalone master with one worker of two cores."""
    (port,) = free_ports(1)
    deploy = "org.apache.spark.deploy"
    master = f"spark://{LOOPBACK}:{port}"
    at = ["--host", LOOPBACK, "--webui-port", "0"]
    own = ["--cores", "2", "--memory", "1g", "--work-dir", str(directory / "work")]
    start = str(spark_home() / "bin" / "spark-class")
    first = [start, f"{deploy}.master.Master", *at, "--port", str(port)]
    second = [start, f"{deploy}.worker.Worker", *at, *own, master]
    with running(first, directory / "master.log", port), running(second, directory / "worker.log"):
        yield master


@contextmanager
def running(command: list[str], log: Path, port: int | None = None) -> Iterator[None]:
    """The process, and that it listens on `port`."""
    log.parent.mkdir(exist_ok=True)
    with open(log, "ab") as told:
        process = subprocess.Popen(
            command, cwd=log.parent, env=environment(), stdin=subprocess.DEVNULL, stdout=told, stderr=told,
        )  # fmt: skip

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        return port is None or _listens(port)

    try:
        eventually(is_ready, f"{log.stem} listens", START_S)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), 1).close()
    except OSError:
        return False
    return True

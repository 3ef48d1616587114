"""The prompt on a terminal and a script as a service, each with a Spark of its own: with OTTLA_SOAK=1."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Producer
from ottla.testing import Cluster
from tests.cli.test_sql import Terminal
from tests.pipelines.sql.test_formats import raw

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="it starts a Spark of its own: OTTLA_SOAK=1 runs it"),
]


@pytest.fixture
def terminal(cluster: Cluster, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(cluster, tmp_path, timeout_s=200)
    yield made
    made.close()


def test_ctrl_c_ends_a_select_and_neither_the_prompt_nor_the_queries(cluster: Cluster, terminal: Terminal) -> None:
    """Ctrl-C reaches the whole group of processes, Java among them, as at a terminal."""
    terminal.wait_for("ottla> ")
    terminal.type("CREATE STREAM t (v STRING) WITH (TOPIC = 'sql.t', VALUE_FORMAT = 'KAFKA', PARTITIONS = 1);\n")
    terminal.wait_for("ottla> ")
    terminal.type("CREATE STREAM u WITH (KAFKA_TOPIC = 'sql.u') AS SELECT upper(v) AS w FROM t;\n")
    assert "Stream u was created; its query CSAS_U_1 runs." in terminal.wait_for("ottla> ")
    for number in range(3):
        terminal.type("SELECT w FROM u EMIT CHANGES;\n")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("sql.t", f"record{number}".encode()).result()
        terminal.wait_for(f"RECORD{number}")
        os.killpg(terminal.process.pid, signal.SIGINT)
        assert "ended" in terminal.wait_for("ottla> ")
    terminal.type("SELECT count(*) AS n FROM range(100000000000) WHERE id % 7 = 8;\n")
    terminal.wait_for("range(")
    terminal.wait_for_silence(5)
    os.killpg(terminal.process.pid, signal.SIGINT)
    assert "ended" in terminal.wait_for("ottla> "), "a job of Spark's is cancelled"
    terminal.type("SELECT sum(length(w)) AS n FROM u;\n")
    assert "21" in terminal.wait_for("ottla> ")
    terminal.type("SHOW QUERIES;\n")
    assert "CSAS_U_1 | RUNNING" in terminal.wait_for("ottla> ")
    terminal.type("exit\n")
    assert terminal.process.wait(60) == 0


def test_a_script_that_is_started_again_goes_on_with_its_queries(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "service.sql"
    file.write_text(
        "CREATE STREAM IF NOT EXISTS a (v STRING) WITH (TOPIC = 'sql.a', VALUE_FORMAT = 'KAFKA', PARTITIONS = 1);\n"
        "CREATE STREAM IF NOT EXISTS b WITH (KAFKA_TOPIC = 'sql.b') AS SELECT upper(v) AS w FROM a;\n"
    )
    words = [sys.executable, "-m", "ottla.cli.main", "sql", "--bootstrap-server", cluster.bootstrap_servers]
    cluster.create_topic("sql.a", 1)
    cluster.create_topic("sql.b", 1)
    for wanted in (["ONE"], ["ONE", "TWO"]):
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("sql.a", wanted[-1].lower().encode()).result()
        service = subprocess.Popen([*words, "--catalog", str(tmp_path / "home"), "-f", str(file)])
        try:
            deadline = time.monotonic() + 200
            while len(raw(cluster, "sql.b")) < len(wanted):
                assert service.poll() is None, "it goes on"
                assert time.monotonic() < deadline
                time.sleep(0.5)
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0
        finally:
            service.kill()
            service.wait()
        assert [value for _, value in raw(cluster, "sql.b")] == [word.encode() for word in wanted], "each once"

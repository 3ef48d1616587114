"""`ottla pipeline serve`: a pipeline on Spark that comes by REST, runs, and goes on without the server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.pipelines.connect.state import Home
from tests.support.clients import eventually
from tests.unit.pipelines.connect.test_rest import Client

START_S = 120


@pytest.mark.timeout(400)
def test_a_pipeline_comes_by_rest_runs_on_spark_and_survives_the_server(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    home = Home("moved", tmp_path / "ottla" / "pipelines")
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline"]
    server = subprocess.Popen(
        [*command, "serve", "--listen", "127.0.0.1:0", "--master", "local[1]"],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        told = re.fullmatch(r"Pipelines are served at http://127\.0\.0\.1:(\d+): none yet\n", server.stdout.readline())
        assert told is not None
        ask = Client(int(told[1]))
        config = {
            "source": {"type": "json", "path": str(tmp_path / "in"), "schema": "id BIGINT"},
            "transforms": [{"sql": "SELECT id * 2 AS twice FROM records"}],
            "sink": {"type": "json", "path": str(tmp_path / "out")},
        }
        assert ask("POST", "/connectors", {"name": "moved", "config": config})[0] == 201
        assert ask.state("moved") == "UNASSIGNED"

        def written() -> list[int]:
            lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
            return sorted(json.loads(line)["twice"] for line in lines)

        eventually(lambda: written() == [2, 4], "the records are written", START_S)
        assert ask.state("moved") == "RUNNING"
        server.send_signal(signal.SIGTERM)
        said, _ = server.communicate(timeout=30)
        assert said == "The server has ended; its pipelines go on.\n"
        (tmp_path / "in" / "b.json").write_text('{"id": 3}\n')
        eventually(lambda: written() == [2, 4, 6], "it goes on", START_S)
    finally:
        server.kill()
        server.communicate()
        if home.is_running:
            stopped = subprocess.run([*command, "stop", "moved"], env=environment, capture_output=True, check=True)
            assert stopped.stdout == b"moved has stopped.\n"
    state = home.read()
    assert state is not None
    assert (state.status, state.records) == ("stopped", 3)

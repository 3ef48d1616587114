"""Kafka Connect's REST API over pipelines: what is asked and answered, over a socket, with processes that run."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla import __version__
from ottla.cli.pipeline import command
from ottla.pipelines.connect import Pipeline
from ottla.pipelines.connect import supervisor as supervising
from ottla.pipelines.connect.restart import WAIT_MAX_S, WINDOW_S, Restart, Restarts
from ottla.pipelines.connect.state import Home
from ottla.pipelines.connect.supervisor import Supervisor
from ottla.pipelines.errors import PipelineError

uvicorn = pytest.importorskip("uvicorn")
rest = pytest.importorskip("ottla.pipelines.connect.rest")

PROGRAM = Path(__file__).with_name("running_program.py")


def config(program: str = "run", **more: Any) -> dict[str, Any]:
    return {
        "source": {"type": "topic", "topic": "orders", "bootstrap.servers": "localhost:1", "value": "string"},
        "sink": {"type": "topic", "topic": "copy", "bootstrap.servers": "localhost:1"},
        "spark": {"program": program},
        **more,
    }


class Client:
    """A client of the API."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, method: str, path: str, body: object = None, type_: str = "application/json") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": type_} if data is not None else {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def state(self, name: str) -> str:
        status, found = self("GET", f"/connectors/{name}/status")
        assert status == 200, found
        return str(found["connector"]["state"])

    def reaches(self, name: str, state: str) -> None:
        eventually(lambda: self.state(name) == state, lambda: f"{name} is {state}, and not {self.state(name)}")


def eventually(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


@contextmanager
def served(base: Path) -> Iterator[Client]:
    """A server of the pipelines below a directory."""
    supervisor = Supervisor(base, command=lambda file: [sys.executable, str(PROGRAM), str(file)])
    with supervisor.running(), socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(
            uvicorn.Config(rest.app(supervisor, f"127.0.0.1:{port}"), log_level="warning", lifespan="off")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data home, in which nothing runs when the test has ended."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(supervising, "LOOK_S", 0.02)
    found = tmp_path / "ottla" / "pipelines"
    yield found
    for path in found.iterdir() if found.is_dir() else ():
        home = Home(path.name, found)
        if path.is_dir() and home.is_running:
            home.ask_to_stop()
            eventually(lambda home=home: not home.is_running, lambda: "it stops")  # type: ignore[misc]


def test_a_captured_database_is_a_connector_like_any_other(base: Path) -> None:
    source = {
        "type": "postgresql-cdc", "database-hostname": "localhost", "database-dbname": "shop", "database-user": "etl",
        "table-include-list": "public.people",
    }  # fmt: skip
    with served(base) as ask:
        assert ask("PUT", "/connectors/shop/config", config(source={**source, "slot-name": "My-Slot"})) == (
            400,
            {
                "error_code": 400,
                "message": "Connector configuration is invalid and contains the following 1 error(s):\n"
                "pipeline.yaml:9: source postgresql-cdc: a slot's name is up to 63 small letters, digits and '_', "
                "and not My-Slot",
            },
        )
        status, found = ask("PUT", "/connectors/shop/config", config(source=source))
        assert (status, found["type"], found["config"]["source"]) == (201, "source", source)
        ask.reaches("shop", "RUNNING")
        assert ask("DELETE", "/connectors/shop") == (204, None)


def test_a_connector_is_created_looked_at_paused_changed_and_removed(base: Path) -> None:
    with served(base) as ask:
        assert ask("GET", "/connectors") == (200, [])
        status, root = ask("GET", "/")
        assert (status, sorted(root)) == (200, ["commit", "kafka_cluster_id", "version"])
        wanted = {"name": "orders", **config()}
        info = {"name": "orders", "config": wanted, "tasks": [{"connector": "orders", "task": 0}], "type": "sink"}
        assert ask("POST", "/connectors", {"name": "orders", "config": config()}) == (201, info)
        ask.reaches("orders", "RUNNING")
        assert ask("GET", "/connectors") == (200, ["orders"])
        assert ask("GET", "/connectors/orders") == (200, info)
        assert ask("GET", "/connectors/orders/config") == (200, wanted)
        assert ask("GET", "/connectors/orders/topics") == (200, {"orders": {"topics": ["orders", "copy"]}})
        status, found = ask("GET", "/connectors/orders/status")
        worker = found["connector"]["worker_id"]
        state = {"state": "RUNNING", "worker_id": worker, "version": __version__}
        task = {"id": 0, **state}
        running = {"name": "orders", "connector": state, "tasks": [task], "type": "sink"}
        assert (status, found) == (200, running)
        assert ask("GET", "/connectors?expand=status&expand=info&expand=other") == (
            200, {"orders": {"status": running, "info": info}},
        )  # fmt: skip
        assert ask("GET", "/connectors/orders/tasks") == (
            200, [{"id": {"connector": "orders", "task": 0}, "config": wanted}],
        )  # fmt: skip
        assert ask("GET", "/connectors/orders/tasks/0/status") == (200, task)

        assert ask("PUT", "/connectors/orders/pause") == (202, None)
        ask.reaches("orders", "PAUSED")
        assert not Home("orders", base).is_running
        assert ask("PUT", "/connectors/orders/resume") == (202, None)
        ask.reaches("orders", "RUNNING")
        first = Home("orders", base).read()
        assert ask("POST", "/connectors/orders/restart") == (204, None)
        ask.reaches("orders", "RUNNING")
        second = Home("orders", base).read()
        assert first is not None
        assert second is not None
        assert first.pid != second.pid, "another process"
        assert ask("POST", "/connectors/orders/restart?onlyFailed=true") == (202, running), "it has not failed"
        assert ask("POST", "/connectors/orders/tasks/0/restart") == (204, None)
        ask.reaches("orders", "RUNNING")

        changed = {"name": "orders", **config(), "errors": "skip"}
        assert ask("PUT", "/connectors/orders/config", changed) == (200, {**info, "config": changed})
        ask.reaches("orders", "RUNNING")
        assert ask("PUT", "/connectors/more/config", config("end"))[0] == 201
        ask.reaches("more", "STOPPED")  # it has come to its end

        assert ask("PUT", "/connectors/orders/stop") == (204, None)
        ask.reaches("orders", "STOPPED")
        assert ask("GET", "/connectors/orders/status")[1]["tasks"] == []
        assert ask("DELETE", "/connectors/orders") == (204, None)
        assert ask("GET", "/connectors") == (200, ["more"])
        body = {"name": "orders", "config": config(), "initial_state": "stopped"}
        assert ask("POST", "/connectors", body)[0] == 201
        assert ask.state("orders") == "STOPPED"


def test_errors_have_the_codes_and_the_bodies_of_connect(base: Path) -> None:
    def error(status: int, message: str) -> tuple[int, dict[str, Any]]:
        return status, {"error_code": status, "message": message}

    with served(base) as ask:
        assert ask("POST", "/connectors", {"name": "one", "config": config(), "initial_state": "PAUSED"})[0] == 201
        unknown = error(404, "Connector two not found")
        for method, path in (("GET", ""), ("GET", "/config"), ("GET", "/tasks"), ("PUT", "/stop"), ("DELETE", "")):
            assert ask(method, f"/connectors/two{path}") == unknown
        assert ask("GET", "/connectors/two/status") == error(404, "No status found for connector two")
        assert ask("PUT", "/connectors/two/pause") == error(404, "Unknown connector two")
        assert ask("PUT", "/connectors/two/resume") == error(404, "Unknown connector two")
        assert ask("POST", "/connectors/two/restart") == error(404, "Unknown connector: two")
        assert ask("GET", "/connectors/two/topics") == (200, {"two": {"topics": []}})
        assert ask("GET", "/connectors/one/tasks/7/status") == error(404, "No status found for task one-7")
        assert ask("GET", "/nothing") == error(404, "HTTP 404 Not Found")
        assert ask("PATCH", "/connectors") == error(405, "HTTP 405 Method Not Allowed")
        again = ask("POST", "/connectors", {"name": "one", "config": config()})
        assert again == error(409, "Connector one already exists")
        assert ask("PUT", "/connectors/three/config", {**config(), "name": "four"}) == error(
            400, "Connector name configuration (four) doesn't match connector name in the URL (three)"
        )
        status, found = ask("PUT", "/connectors/three/config", {**config(), "errors": "ignore", "sinc": 1})
        assert (status, found["error_code"]) == (400, 400)
        assert found["message"].splitlines() == [
            "Connector configuration is invalid and contains the following 2 error(s):",
            "pipeline.yaml:17: errors is one of stop, skip and dead-letter, and not ignore",
            "pipeline.yaml:18: there is no sinc in a pipeline: did you mean sink?",
        ]
        assert ask("GET", "/connectors") == (200, ["one"]), "nothing stays of what was refused"
        assert not (base / "three").exists()
        assert ask("POST", "/connectors", b"{")[0] == 500, "as Connect answers"
        assert ask("POST", "/connectors", {"name": "x"})[0] == 500
        assert ask("POST", "/connectors", {"name": "../x", "config": config()})[0] == 400
        form = ask("POST", "/connectors", {"name": "x", "config": config()}, "text/plain")
        assert form == error(415, "HTTP 415 Unsupported Media Type")
        assert ask("POST", "/connectors", b" " * ((1 << 20) + 1))[0] == 413


def test_a_pipeline_that_fails_is_started_again_within_its_bounds_and_then_left(base: Path) -> None:
    with served(base) as ask:
        assert ask("PUT", "/connectors/left/config", config("fail"))[0] == 201
        ask.reaches("left", "FAILED")
        found = ask("GET", "/connectors/left/status")[1]
        assert found["tasks"][0]["trace"] == "Traceback: the disk is full"
        assert ask("PUT", "/connectors/crashed/config", config("crash"))[0] == 201
        ask.reaches("crashed", "FAILED")
        assert ask("GET", "/connectors/crashed/status")[1]["connector"]["trace"] == "cannot begin\n"

        pids: set[int] = set()
        restart = {"on-failure": True, "max": 2, "backoff": "10 milliseconds"}
        assert ask("PUT", "/connectors/tried/config", config("fail", restart=restart))[0] == 201

        def has_tried_three_times() -> bool:
            state = Home("tried", base).read()
            pids.update([] if state is None else [state.pid])
            return len(pids) == 3

        eventually(has_tried_three_times, lambda: f"{len(pids)} runs")
        time.sleep(0.3)  # in which a further one would have begun
        assert has_tried_three_times()
        assert ask.state("tried") == "FAILED"
        assert ask("POST", "/connectors/tried/restart?onlyFailed=true&includeTasks=true")[0] == 202
        eventually(lambda: not has_tried_three_times(), lambda: "somebody's restart begins anew")


def test_runs_survive_the_server_and_the_next_one_finds_them(base: Path) -> None:
    with served(base) as ask:
        assert ask("PUT", "/connectors/on/config", config())[0] == 201
        assert ask("PUT", "/connectors/off/config", config())[0] == 201
        ask.reaches("on", "RUNNING")
        ask("PUT", "/connectors/off/pause")
        ask.reaches("off", "PAUSED")
        with pytest.raises(PipelineError, match="another `ottla pipeline serve` looks after"), served(base):
            pass
    before = Home("on", base).read()
    assert before is not None
    assert Home("on", base).is_running
    with served(base) as ask:
        assert (ask.state("on"), ask.state("off")) == ("RUNNING", "PAUSED")
        after = Home("on", base).read()
        assert after is not None
        assert after.pid == before.pid
        assert ask("DELETE", "/connectors/on") == (204, None)
        eventually(lambda: not Home("on", base).is_running, lambda: "it is stopped")


def test_a_file_that_somebody_keeps_is_served_and_not_replaced(base: Path, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(json.dumps({"name": "orders", **config("end"), "trigger": "${env:NOWHERE_SET}"}))
    supervisor = Supervisor(base)
    with pytest.raises(PipelineError, match="the environment has no NOWHERE_SET"):
        supervisor.add_file(file)
    file.write_text(json.dumps({"name": "orders", **config()}))
    supervisor.add_file(file)
    with pytest.raises(PipelineError, match=f"Connector orders is described by {file}: change that and restart it"):
        supervisor.change("orders", {"name": "orders", **config("end")})
    with pytest.raises(PipelineError, match="what is served is a YAML file"):
        supervisor.add_file(tmp_path / "orders.py")


def test_the_wait_between_restarts_doubles_and_an_hour_has_so_many() -> None:
    policy, restarts = Restart(on_failure=True, restarts_max=8, backoff_s=1.0), Restarts()
    waits = []
    for now_s in range(8):
        waits.append(restarts.wait_s(policy, now_s))
        restarts.note(now_s)
    assert waits == [1, 2, 4, 8, 16, 32, WAIT_MAX_S, WAIT_MAX_S]
    assert restarts.wait_s(policy, 8) is None
    assert restarts.wait_s(policy, WINDOW_S) == WAIT_MAX_S, "the first is an hour ago"
    restarts.forget()
    assert restarts.wait_s(policy, 9) == 1
    assert restarts.wait_s(Restart(), 9) is None


def test_restart_says_whether_and_how_often(tmp_path: Path) -> None:
    def restart(**told: object) -> Restart:
        return Pipeline("x", source=config()["source"], sink=config()["sink"], restart=told).restart

    assert restart() == Restart(on_failure=False, restarts_max=10, backoff_s=1.0)
    assert restart(**{"on-failure": True, "max": 3, "backoff": "2 minutes"}) == Restart(True, 3, 120.0)
    with pytest.raises(PipelineError, match="restart: backoff is a time such as 10 seconds, and not soon"):
        restart(backoff="soon")
    with pytest.raises(PipelineError, match="restart: max takes a whole number, and not 0"):
        restart(max=0)
    with pytest.raises(PipelineError, match="restart has no option always: there is on-failure, max and backoff"):
        restart(always=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--listen", "8083"], "--listen takes HOST:PORT such as 127.0.0.1:8083, and not 8083"),
        (["--listen", "192.0.2.1:0"], "192.0.2.1:0 cannot be listened on: "),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_server_that_cannot_begin_says_so_in_one_line(base: Path, words: list[str], said: str) -> None:
    found = CliRunner().invoke(command, ["serve", *words])
    assert found.exit_code == 1
    assert found.output.startswith(f"Error: {said}") or found.output.startswith(said)
    assert len(found.output.splitlines()) == 1


def test_the_command_says_where_it_listens_and_ends_by_a_signal(base: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "pipeline", "serve", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        told = re.fullmatch(r"Pipelines are served at http://127\.0\.0\.1:(\d+): none yet\n", server.stdout.readline())
        assert told is not None
        assert Client(int(told[1]))("GET", "/connectors") == (200, [])
        server.send_signal(signal.SIGTERM)
        said, _ = server.communicate(timeout=20)
    finally:
        server.kill()
        server.communicate()
    assert (said, server.returncode) == ("The server has ended; its pipelines go on.\n", 0)

"""The REST API beside Kafka Connect's own worker: the same requests have the same codes, keys and errors.

A standalone worker answers 500 to `stop` and `restart` of a connector that it does not have, where distributed ones
answer 404, as is done here; these two are not asked.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import Cluster
from tests.support.clients import eventually
from tests.support.maven import jars
from tests.unit.pipelines.connect import test_rest
from tests.unit.pipelines.connect.test_rest import Client

ON = os.environ.get("OTTLA_SOAK") == "1"
KAFKA = "4.3.1"
WORKER = """\
bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={base}/offsets
listeners=http://127.0.0.1:{port}
"""
base = test_rest.base
Step = tuple[str, str, Any, bool]
"""Method, path, body, and whether the error's message is the same; `CONFIG` stands for a config of either."""
CONFIG = object()
STEPS: list[Step] = [
    ("GET", "/connectors", None, False),
    ("POST", "/connectors", {"name": "one", "config": CONFIG}, False),
    ("POST", "/connectors", {"name": "one", "config": CONFIG}, True),
    ("GET", "/connectors", None, False),
    ("GET", "/connectors/one", None, False),
    ("GET", "/connectors/one/config", None, False),
    ("GET", "/connectors/one/topics", None, False),
    ("GET", "/connectors/one/tasks", None, False),
    ("GET", "/connectors/one/tasks/7/status", None, True),
    ("PUT", "/connectors/one/config", CONFIG, False),
    ("PUT", "/connectors/two/config", {"name": "three"}, True),
    ("PUT", "/connectors/one/pause", None, False),
    ("PUT", "/connectors/one/resume", None, False),
    ("POST", "/connectors/one/restart", None, False),
    ("POST", "/connectors/one/restart?includeTasks=true", None, False),
    ("GET", "/connectors?expand=info", None, False),
    *(("GET", f"/connectors/two{path}", None, True) for path in ("", "/config", "/status", "/topics", "/tasks")),
    ("GET", "/connectors/two/tasks/0/status", None, True),
    ("PUT", "/connectors/two/pause", None, True),
    ("PUT", "/connectors/two/resume", None, True),
    ("DELETE", "/connectors/two", None, True),
    ("POST", "/connectors", b"{", False),
    ("POST", "/connectors", {"name": "x", "config": CONFIG, "initial_state": "sleeping"}, False),
    ("GET", "/nothing", None, True),
    ("PATCH", "/connectors", None, True),
    ("PUT", "/connectors/one/stop", None, False),
    ("GET", "/connectors/one", None, False),
    ("DELETE", "/connectors/one", None, False),
    ("GET", "/connectors/one", None, True),
    ("GET", "/connectors", None, False),
]


@contextmanager
def worker(servers: str, directory: Path) -> Iterator[Client]:
    """A standalone worker of Kafka Connect."""
    path = jars(
        f"kafka-connect-{KAFKA}",
        ("org.apache.kafka", "connect-runtime", KAFKA),
        ("org.apache.kafka", "connect-file", KAFKA),
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (directory / "worker.properties").write_text(WORKER.format(servers=servers, base=directory, port=port))
    with open(directory / "worker.log", "wb") as output:
        process = subprocess.Popen(
            ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path,
             "org.apache.kafka.connect.cli.ConnectStandalone", str(directory / "worker.properties")],
            stdout=output, stderr=output,
        )  # fmt: skip
        try:
            ask = Client(port)

            def answers() -> bool:
                assert process.poll() is None, (directory / "worker.log").read_text()[-3000:]
                try:
                    return ask("GET", "/connectors")[0] == 200
                except (OSError, ValueError):  # before it is up it answers with a page
                    return False

            eventually(answers, "the worker answers", 120)
            yield ask
        finally:
            process.kill()
            process.wait()


def filled(body: Any, config: dict[str, Any]) -> Any:
    if body is CONFIG:
        return config
    return {name: filled(value, config) for name, value in body.items()} if isinstance(body, dict) else body


def shape(value: Any) -> Any:
    """The keys of a body, all the way down, but for those of a config, which are the connector's own."""
    if isinstance(value, dict):
        return {name: None if name == "config" else shape(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value and not isinstance(value[0], str) else "a list"
    return type(value).__name__


@pytest.mark.skipif(not ON, reason="OTTLA_SOAK=1 asks a worker of Kafka Connect the same")
@pytest.mark.java
@pytest.mark.timeout(600)
def test_the_same_requests_have_the_same_answers(cluster: Cluster, base: Path, tmp_path: Path) -> None:
    theirs = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "orders",
        "file": str(tmp_path / "out"),
    }  # fmt: skip
    ours = test_rest.config()
    differences = []
    with worker(cluster.bootstrap_servers, tmp_path) as kafka, test_rest.served(base) as ottla:
        for method, path, body, same_message in STEPS:
            status, wanted = kafka(method, path, filled(body, theirs))
            found_status, found = ottla(method, path, filled(body, ours))
            is_config = path.endswith("/config") and status == 200
            same_shape = is_config or shape(found) == shape(wanted)
            same = found_status == status and same_shape and (not same_message or found == wanted)
            if not same:
                differences.append(f"{method} {path}: {status} {wanted}, and here {found_status} {found}")
    assert not differences, "\n".join(differences)

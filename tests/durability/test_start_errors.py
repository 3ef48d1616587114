"""What keeps a node from starting: one clear line on stderr, exit code 1, and the directory as it was."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kafka import kafka_classpath
from tests.support.server import JAVA, Server, Settings, run_ottla

CLUSTER = "9i0_JSaRSF6dr5bWoMQO8g"
OTHER_CLUSTER = "WdKyKKmQSAiEX4-qKEX5tw"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def formatted(directory: Path, settings: Settings | None = None, cluster: str = CLUSTER) -> tuple[Settings, Path]:
    """Settings, and the file of them; what they name is formatted."""
    settings = settings or Settings(directory / "data")
    properties = settings.write(directory / "server.properties")
    made = run_ottla("storage", "format", "-t", cluster, "-c", properties)
    assert made.returncode == 0, made.stderr
    return settings, properties


def refusal(properties: Path, *arguments: str) -> str:
    """The one line with which `ottla server start` refuses."""
    ended = run_ottla("server", "start", properties, "--log-level", "FATAL", *arguments)
    assert ended.returncode == 1, (ended.returncode, ended.stderr)
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("ottla: ")
    return lines[0]


def tree(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
        if path.name != ".lock"
    }


def test_a_directory_that_another_node_uses(tmp_path: Path) -> None:
    _, properties = formatted(tmp_path)
    with Server.ottla(properties) as first:
        # Another port, so that only the directory is in the way.
        second = Settings(tmp_path / "data").write(tmp_path / "second.properties")
        line = refusal(second)
        assert "Failed to acquire lock on file .lock" in line
        assert str(tmp_path / "data") in line
        first.stop()
        first.start()  # what the second one did has not taken the lock from the first, nor left anything behind
    assert first.errors() == []


def test_a_directory_that_was_never_formatted(tmp_path: Path) -> None:
    properties = Settings(tmp_path / "data").write(tmp_path / "server.properties")
    line = refusal(properties)
    assert str(tmp_path / "data") in line
    assert "ottla storage format" in line
    (tmp_path / "data").mkdir(exist_ok=True)
    assert "ottla storage format" in refusal(properties)
    assert tree(tmp_path / "data") == {}


def test_directories_of_two_clusters(tmp_path: Path) -> None:
    first, _ = formatted(tmp_path, Settings(tmp_path / "one"))
    formatted(tmp_path, Settings(tmp_path / "two"), OTHER_CLUSTER)
    first["log.dirs"] = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    before = tree(tmp_path)
    line = refusal(first.write(tmp_path / "both.properties"))
    assert CLUSTER in line
    assert OTHER_CLUSTER in line
    (tmp_path / "both.properties").unlink()
    assert tree(tmp_path) == before


def test_the_directory_of_another_node(tmp_path: Path) -> None:
    settings, properties = formatted(tmp_path)
    before = tree(tmp_path)
    line = refusal(properties, "--override", "node.id=7", "--override",
                   f"controller.quorum.voters=7@127.0.0.1:{settings.controller_port}")  # fmt: skip
    assert "Stored node id 1" in line
    assert "7" in line
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("log.cleanup.policy=sometimes", ["log.cleanup.policy", "sometimes"]),
        ("log.segment.bytes=plenty", ["log.segment.bytes", "plenty"]),
        ("log.segment.bytes=1", ["log.segment.bytes", "1048576"]),
        ("compression.type=rar", ["compression.type", "rar"]),
        ("process.roles=broker,cook", ["process.roles", "cook"]),
        ("listeners=PLAINTEXT://127.0.0.1:http,CONTROLLER://127.0.0.1:0", ["listeners"]),
        ("node.id=one", ["one"]),
        ("noequals", ["--override", "noequals"]),
    ],
)
def test_a_value_that_a_setting_does_not_take(override: str, words: list[str], tmp_path: Path) -> None:
    properties = Settings(tmp_path / "data").write(tmp_path / "server.properties")
    line = refusal(properties, "--override", override)
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("listener.security.protocol.map=PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT", ["PLAINTEXT", "SASL_SSL"]),
        ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL", ["CONTROLLER", "SSL"]),
        ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", ["authorizer.class.name"]),
    ],
)
def test_a_node_that_would_be_open_although_it_was_told_to_be_safe(
    override: str, words: list[str], tmp_path: Path
) -> None:
    """Such listeners served cleartext to anonymous clients."""
    _, properties = formatted(tmp_path)
    before = tree(tmp_path)
    line = refusal(properties, "--override", override)
    for word in (*words, "not"):
        assert word in line
    assert tree(tmp_path) == before
    ended = run_ottla("up", "--data", tmp_path / "up", "--port", "0", "--set", override)
    assert (ended.returncode, ended.stdout, ended.stderr.splitlines()) == (1, "", [line])
    assert not (tmp_path / "up").exists()


@pytest.mark.parametrize("which", ["broker", "controller", "metrics"])
def test_a_port_that_is_taken(which: str, tmp_path: Path) -> None:
    settings, properties = formatted(tmp_path)
    chosen = {"broker": settings.port, "controller": settings.controller_port, "metrics": 0}[which]
    with socket.create_server(("127.0.0.1", chosen)) as taken:
        port = taken.getsockname()[1]
        line = refusal(properties, *(["--metrics", str(port)] if which == "metrics" else []))
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line
    with Server.ottla(properties) as server:  # nothing of the attempt is in the way of the next one
        server.stop()
    assert server.errors() == []


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    settings, properties = formatted(tmp_path)
    listeners = settings["listeners"].replace("PLAINTEXT://127.0.0.1", "PLAINTEXT://no-such-host.invalid")
    assert "no-such-host.invalid" in refusal(properties, "--override", f"listeners={listeners}")


def test_a_properties_file_that_is_missing_or_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.properties"
    assert str(missing) in refusal(missing)
    directory = tmp_path / "directory.properties"
    directory.mkdir()
    assert str(directory) in refusal(directory)
    broken = tmp_path / "broken.properties"
    broken.write_text("node.id=\\u12\n")
    assert str(broken) in refusal(broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_properties_file_without_permission(tmp_path: Path) -> None:
    properties = Settings(tmp_path / "data").write(tmp_path / "server.properties")
    properties.chmod(0)
    assert "Permission denied" in refusal(properties)


def _no_file(path: Path) -> None:
    path.unlink()


def _a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _rubbish(path: Path) -> None:
    path.write_bytes(b"version=9\nnode.id=x\n")


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [_no_file, _a_directory, _rubbish, _emptied])
def test_a_meta_properties_that_is_missing_or_damaged(damage: Callable[[Path], None], tmp_path: Path) -> None:
    _, properties = formatted(tmp_path)
    damage(tmp_path / "data" / "meta.properties")
    assert str(tmp_path / "data") in refusal(properties)


@pytest.mark.parametrize("name", ["quorum-state", "00000000000000000000.log"])
def test_a_metadata_log_with_a_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    _, properties = formatted(tmp_path)
    with Server.ottla(properties):
        pass
    path = tmp_path / "data" / "__cluster_metadata-0" / name
    _a_directory(path)
    assert name in refusal(properties)


@pytest.mark.parametrize("name", ["__cluster_metadata-0/quorum-state", "bootstrap.checkpoint"])
def test_a_file_of_the_metadata_that_is_damaged(name: str, tmp_path: Path) -> None:
    """The refusal was a stack trace."""
    _, properties = formatted(tmp_path)
    with Server.ottla(properties):
        pass
    (tmp_path / "data" / name).write_text('{"leaderId":')
    assert f"{tmp_path / 'data' / name}" in refusal(properties)


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    properties = Settings(tmp_path / "data").write(tmp_path / "server.properties")
    (tmp_path / "data").write_text("not a directory")
    assert str(tmp_path / "data") in refusal(properties)


def test_a_stop_leaves_the_marker_of_a_clean_shutdown_and_a_kill_does_not(tmp_path: Path) -> None:
    _, properties = formatted(tmp_path)
    marker = tmp_path / "data" / CLEAN_SHUTDOWN
    server = Server.ottla(properties)
    server.start()
    assert not marker.exists()
    server.stop()  # which asserts exit code 0
    assert marker.exists()
    server.start()
    server.kill()
    assert not marker.exists()


@pytest.mark.java
def test_kafka_refuses_the_directory_that_ottla_uses_and_ottla_the_one_that_kafka_uses(tmp_path: Path) -> None:
    _, properties = formatted(tmp_path)
    second = Settings(tmp_path / "data").write(tmp_path / "second.properties")
    with Server.ottla(properties) as ottla:
        command = [*JAVA, "-cp", kafka_classpath(), "kafka.Kafka", str(second)]
        begun = time.monotonic()
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 1, (ended.returncode, time.monotonic() - begun)
        ottla.stop()
    assert ottla.errors() == []
    with Server.kafka(properties):
        assert "Failed to acquire lock on file .lock" in refusal(second)

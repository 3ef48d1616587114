"""Kafka's StorageTool and `ottla storage`: what one formats, the other knows, and Ottla runs on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

STORAGE_TOOL = "kafka.tools.StorageTool"


def settings(directory: Path) -> Path:
    """A node with two log directories and a quorum that its metadata log tells of."""
    made = Settings([directory / "a", directory / "b"])
    del made["controller.quorum.voters"]
    made["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{made.controller_port}"
    return made.write(directory / "server.properties")


def storage_tool(*arguments: str | Path) -> tuple[int, str]:
    done = run_java(STORAGE_TOOL, [str(argument) for argument in arguments])
    return done.returncode, done.stdout


def ottla_storage(*arguments: str | Path) -> tuple[int, str]:
    done = run_ottla("storage", *arguments)
    return done.returncode, done.stdout


def expect_known(properties: Path, cluster_id: str) -> None:
    """Both tools say the same of the directories, and find nothing wrong."""
    ours, theirs = ottla_storage("info", "-c", properties), storage_tool("info", "-c", properties)
    assert ours == theirs
    assert theirs[0] == 0, theirs[1]
    assert f"cluster.id={cluster_id}" in theirs[1]


def serve(properties: Path) -> None:
    """Ottla starts, makes a topic, and stops in order."""
    with Server.ottla(properties) as server, RawClient(server.port) as client:
        client.create_topic("made", partitions=4)
    assert server.errors() == []


def test_ottla_starts_on_what_the_storage_tool_formats_and_the_tool_knows_it_afterwards(tmp_path: Path) -> None:
    properties = settings(tmp_path)
    code, cluster_id = storage_tool("random-uuid")
    assert code == 0
    cluster_id = cluster_id.strip()
    assert storage_tool("format", "-t", cluster_id, "-c", properties, "--standalone")[0] == 0
    expect_known(properties, cluster_id)
    serve(properties)
    expect_known(properties, cluster_id)


def test_the_storage_tool_knows_what_ottla_formats_and_does_not_format_it_again(tmp_path: Path) -> None:
    properties = settings(tmp_path)
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    unformatted = ottla_storage("info", "-c", properties)
    assert unformatted == storage_tool("info", "-c", properties)
    assert unformatted[0] == 1
    assert ottla_storage("format", "-t", cluster_id, "-c", properties, "--standalone")[0] == 0
    expect_known(properties, cluster_id)
    again: list[str | Path] = ["format", "-t", cluster_id, "-c", properties, "--standalone"]
    assert storage_tool(*again)[0] == 1
    ignored, theirs = ottla_storage(*again, "--ignore-formatted"), storage_tool(*again, "--ignore-formatted")
    assert (ignored[0], theirs[0]) == (0, 0)
    serve(properties)
    expect_known(properties, cluster_id)

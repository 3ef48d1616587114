"""The transcripts of Streams groups, played to a real Kafka 4.3.1: answers and records are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server, Settings, run_ottla
from tests.support.transcript import check, transcripts
from tests.unit.coordinator.group.streams.doors import SETTINGS, SocketDoor
from tests.unit.coordinator.group.streams.player import Player

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    properties = settings.write(directory / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
    assert formatted.returncode == 0, formatted.stderr
    with Server.kafka(properties) as server:
        yield server


@pytest.mark.parametrize("path", transcripts("streams_group"), ids=lambda path: path.stem)
def test_kafka_answers_and_writes_what_the_transcript_says(kafka: Server, path: Path) -> None:
    door = SocketDoor(kafka.port)
    player = Player(door)
    try:
        check(path, player.execute, rewrite=False)
    finally:
        player.leave()
        door.clean()
        door.close()

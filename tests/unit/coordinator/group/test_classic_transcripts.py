"""Classic groups, as transcripts: tests/transcripts/classic_group, which a real Kafka plays as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.support.transcript import check, outputs, play, transcripts
from tests.unit.coordinator.group.classic_player import LateAnswer, Player
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor

TOPICS = {"t": 2, "u": 1}
SETTINGS = {
    "group.initial.rebalance.delay.ms": "250",
    "group.min.session.timeout.ms": "100",
    "group.max.size": "3",
    "offsets.topic.num.partitions": "1",
}
TRIES = 4


@pytest.mark.parametrize("path", transcripts("classic_group"), ids=lambda path: path.stem)
def test_a_classic_group_does_as_written(path: Path, rewrite: bool) -> None:
    door = VirtualDoor(TOPICS, SETTINGS)
    try:
        check(path, Player(door, path.stem).execute, rewrite=rewrite)
    finally:
        door.close()


@pytest.fixture(scope="module")
def kafka_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    properties = settings.write(directory / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
    assert formatted.returncode == 0, formatted.stderr
    with Server.kafka(properties) as server:
        with RawClient(server.port) as client:
            for name, partitions in TOPICS.items():
                client.create_topic(name, partitions=partitions)
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
            while client.send(find, 4, FindCoordinatorResponse).coordinators[0].error_code:
                time.sleep(0.1)  # it makes the topic
            while client.send(ListGroupsRequest(), 5, ListGroupsResponse).error_code:
                time.sleep(0.1)
        yield server.port


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", transcripts("classic_group"), ids=lambda path: path.stem)
def test_a_real_kafka_plays_the_same_transcript(path: Path, kafka_port: int) -> None:
    """Kafka runs on real time, and a busy machine may answer too late for a transcript: it has several tries."""
    text = path.read_text(encoding="utf-8")
    played = ""
    for attempt in range(TRIES):
        door = SocketDoor(kafka_port)
        try:
            player = Player(door, f"{path.stem}-{attempt}")
            expected = iter(outputs(text))
            played = play(text, lambda command: player.execute_expecting(command, next(expected)))  # noqa: B023
        except LateAnswer:
            continue
        finally:
            door.close()
        if played == text:
            return
    assert played == text

"""Share groups, as transcripts: tests/transcripts/share_group, which a real Kafka plays as well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.group.assignors import HashOrder
from ottla.coordinator.group.share.simple_assignor import place_hash
from ottla.server.promises import mapped
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.share_fetch import ShareFetchResponse
from ottla.wire.metadata import FeatureLevelRecord
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.support.transcript import check, outputs, play, transcripts
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor
from tests.unit.coordinator.share.player import LateAnswer, SharePlayer

TOPICS = {"t": 2, "u": 1}
SETTINGS = {
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.record.lock.duration.ms": "1500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.assignment.interval.ms": "0",
    "group.share.max.size": "2",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
GROUP = 32
TRIES = 4
DRAWS_MAX = 40
"""Every second topic will do."""


class ShareDoor(VirtualDoor):
    """Records are read from their files before they cross the wire's codecs, as the network does it."""

    def begin(self, who: str, request: Message, version: int) -> None:
        super().begin(who, request, version)
        who, route, read, answer = self._pending.pop()
        if not isinstance(answer, Message):
            answer = mapped(self.node.world.tasks, answer, _in_memory)
        self._pending.append((who, route, read, answer))


def _in_memory(answer: Any) -> Any:
    if isinstance(answer, ShareFetchResponse):
        for topic in answer.responses:
            for one in topic.partitions:
                if one.records and not isinstance(one.records, bytes):
                    one.records = one.records.read()  # type: ignore[attr-defined]
    return answer


@pytest.mark.parametrize("path", transcripts("share_group"), ids=lambda path: path.stem)
def test_a_share_group_does_as_written(path: Path, rewrite: bool) -> None:
    door = ShareDoor({f"{path.stem}-{name}": count for name, count in TOPICS.items()}, SETTINGS)
    door.node.create_topic("__share_group_state", 1)
    door.node.publish(FeatureLevelRecord(name="share.version", feature_level=1))
    door.node.set_config(path.stem, "share.auto.offset.reset", "earliest", kind=GROUP)
    try:
        check(path, SharePlayer(door, path.stem).execute, rewrite=rewrite)
    finally:
        door.close()


@pytest.fixture(scope="module")
def kafka_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("kafka")
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    properties = settings.write(directory / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    assert run_ottla("storage", "format", "-t", cluster_id, "-c", properties).returncode == 0
    with Server.kafka(properties) as server:
        with RawClient(server.port) as client:
            for key_type, key in ((0, "any"), (2, f"any:{Uuid(bytes(16))}:0")):
                find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
                while client.send(find, 6, FindCoordinatorResponse).coordinators[0].error_code:
                    time.sleep(0.1)  # it makes the topic
        yield server.port


@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", transcripts("share_group"), ids=lambda path: path.stem)
def test_a_real_kafka_plays_the_same_share_transcript(path: Path, kafka_port: int) -> None:
    """Kafka runs on real time, and a busy machine may answer too late for a transcript: it has several tries."""
    text = path.read_text(encoding="utf-8")
    played = ""
    for attempt in range(TRIES):
        prefix = prepared(kafka_port, f"{path.stem}-{attempt}")
        door = SocketDoor(kafka_port)
        try:
            player = SharePlayer(door, prefix)
            expected = iter(outputs(text))
            played = play(text, lambda command: player.execute(command, len(next(expected))))  # noqa: B023
        except LateAnswer:
            continue
        finally:
            door.close()
        if played == text:
            return
    assert played == text


def prepared(port: int, stem: str) -> str:
    """Make topics, and a group that reads them from the beginning; the prefix of their names, which is the group's.

    A member that has both partitions of a topic gives up the one that comes first in a table of Java's, and in which
    order these are there hangs on the topic's id, which Kafka draws: only one that has partition 0 first, as the
    topics of the transcripts, can be played with.
    """
    with RawClient(port) as client:
        for number in range(DRAWS_MAX):
            prefix = f"{stem}-{number}"
            ids = {name: client.create_topic(f"{prefix}-{name}", partitions=count) for name, count in TOPICS.items()}
            if all(_order(ids[name], count) == list(range(count)) for name, count in TOPICS.items()):
                break
        else:
            raise AssertionError(f"no topic of {DRAWS_MAX} has its partitions in order")
        change = AlterableConfig("share.auto.offset.reset", 0, "earliest")
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, prefix, [change])])
        client.send(request, 1, IncrementalAlterConfigsResponse)
        return prefix


def _order(topic_id: Uuid, count: int) -> list[int]:
    return [index for _, index in HashOrder(place_hash, [(topic_id, index) for index in range(count)])]

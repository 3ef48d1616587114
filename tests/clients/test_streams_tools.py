"""Kafka's `kafka-streams-groups` tool, against Ottla and against Kafka 4.3.1.

The same Streams group in both, with offsets and internal topics, and the same commands: the tool prints the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.records import RecordBatchBuilder
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.support.kafka import run_java
from tests.support.nodes import Nodes, coordinator_port, leader_port, masked_addresses, running
from tests.support.raw import RawClient
from tests.support.server import Server
from tests.unit.coordinator.group.streams.doors import SETTINGS, SocketDoor
from tests.unit.coordinator.group.streams.player import Player

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "StreamsTools.java"
WHILE_MEMBERS_RUN = [
    "--list --state stable",
    "--list --state empty",
    "--describe --all-groups",
    "--describe --group app --verbose",
    "--describe --group app --state --verbose",
    "--describe --group app --members --verbose",
    "--describe --group unknown",
    "--reset-offsets --group app --all-input-topics --to-earliest --dry-run",
    "--delete --group app",
]
WHEN_ALL_HAVE_LEFT = [
    "--describe --group app --state",
    "--reset-offsets --group app --all-input-topics --to-earliest --dry-run",
    "--reset-offsets --group app --input-topic words:0 --shift-by -2 --execute",
    "--reset-offsets --group app --input-topic words --to-latest --execute --delete-internal-topic "
    "app-counts-repartition",
    "--delete-offsets --group app --input-topic words:1",
    "--delete --group unknown",
    "--delete --group app",
    "--list",
]
SCRIPT = [
    "topic words 2",
    "join m1 topology=counts process=p1 tags=zone:a",
    "wait 1000",
    "heartbeat m1",
    "join m2 topology=counts process=p2 endpoint=host-2:7070",
    "heartbeat m1 owns=0-0,1-0",
    "heartbeat m2",
    "heartbeat m2 owns=0-1,1-1",
    "state",
]


def test_the_streams_groups_tool_tells_the_same_of_ottla_and_of_kafka(tmp_path: Path) -> None:
    ours = told(tmp_path / "ottla", "ottla")
    theirs = told(tmp_path / "kafka", "kafka")
    for command, told_of_ours, told_of_theirs in zip(WHILE_MEMBERS_RUN + WHEN_ALL_HAVE_LEFT, ours, theirs, strict=True):
        assert told_of_ours == told_of_theirs, command
    text = "\n".join(line for block in ours for line in block)
    assert "Stable" in text
    assert "Deletion of requested streams groups ('app') was successful." in text


def told(directory: Path, kind: str) -> list[list[str]]:
    """What the tool prints of a new cluster, command by command; the order of members and partitions is Java's."""
    with running(kind, directory, SETTINGS) as server:
        door = SocketDoor(coordinator_port(server.port, "app"))
        player = Player(door)
        for line in SCRIPT:
            state = player.execute(line)
        assert state[0].startswith("Stable"), state
        for partition in range(2):
            with RawClient(leader_port(server.port, "words", partition)) as client:
                produce(client, "words", partition)
        epoch = player.epochs["m1"]
        for line in (f"commit m1 words 0 {epoch}", f"commit m2 words 1 {epoch}"):
            assert player.execute(line)[0] == "committed"
        blocks = run(server, WHILE_MEMBERS_RUN)
        player.leave()
        blocks += run(server, WHEN_ALL_HAVE_LEFT)
        door.close()
        if server.name == "ottla":
            assert server.errors() == []
    return blocks


def run(server: Server | Nodes, commands: list[str]) -> list[list[str]]:
    done = run_java(str(SOURCE), [server.address], stdin="\n".join(commands))
    assert done.returncode == 0, done.stderr
    blocks: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("> "):
            blocks.append([])
        else:
            blocks[-1].append(masked_addresses(server, line))
    assert len(blocks) == len(commands), done.stdout
    return [sorted(block) for block in blocks]


def produce(client: RawClient, topic: str, partition: int) -> None:
    """Ten records, so that there is something to be behind of."""
    builder = RecordBatchBuilder()
    for number in range(10):
        builder.append(1_767_225_600_000 + number, None, b"some words")
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, builder.build())])]
    response = client.send(ProduceRequest(None, -1, 1000, data), 9, ProduceResponse)
    assert response.responses[0].partition_responses[0].error_code == 0, response

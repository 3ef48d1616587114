"""Consumer groups that are handed from Ottla to a real Kafka and back, on one log directory, with members at work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.unit.coordinator.group.clusters import SocketCluster
from tests.unit.coordinator.group.consumer_player import ConsumerPlayer
from tests.unit.coordinator.group.doors import SocketDoor

SETTINGS = {"group.consumer.assignment.interval.ms": "0", "offsets.topic.num.partitions": "1"}


def answered(player: ConsumerPlayer, command: str) -> list[str]:
    """Carry out a command that is answered with one response, however long a busy machine takes for it."""
    return player.execute_expecting(command, ["one"])


@contextmanager
def players(server: Server, before: dict[str, ConsumerPlayer], names: list[str]) -> Iterator[dict[str, ConsumerPlayer]]:
    """A player for each group, which goes on where the one before was."""
    with server:
        with RawClient(server.port) as client:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["any"])
            while client.send(find, 4, FindCoordinatorResponse).coordinators[0].error_code:
                time.sleep(0.1)
            if not before:
                client.create_topic("t", partitions=4)
        door, cluster = SocketDoor(server.port), SocketCluster(server.port)
        made = {name: ConsumerPlayer(door, cluster, name) for name in names}
        while "COORDINATOR" in answered(made[names[0]], "show")[0]:
            time.sleep(0.1)  # the groups are being loaded
        for name, player in made.items():
            if name in before:
                player.take_over(before[name])
        yield made
        cluster.close()
        door.close()
        server.stop()


@pytest.mark.java
@pytest.mark.timeout(200)
def test_groups_go_from_ottla_to_kafka_and_back_without_a_rebalance(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "data")
    settings.update(SETTINGS)
    properties = settings.write(tmp_path / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    assert run_ottla("storage", "format", "-t", cluster_id, "-c", properties).returncode == 0
    names = ["plain", "static", "regex", "mixed"]
    with players(Server.ottla(properties), {}, names) as groups:
        for command in ("beat a join topics=t", "beat b join topics=t", "beat a owns=t-0+t-1", "beat b"):
            answered(groups["plain"], command)
        for command in ("beat a join topics=t instance=i", "beat b join topics=t+x", "beat a away"):
            answered(groups["static"], command)
        for command in ("beat a join regex=t.*", "beat a"):
            answered(groups["regex"], command)
        for command in ("beat a join topics=t", "enter b protocols=range:t", "sync b"):
            answered(groups["mixed"], command)
        shown = {name: answered(groups[name], "show") for name in names}
    with players(Server.kafka(properties), groups, names) as kafkas:
        assert {name: answered(kafkas[name], "show") for name in names} == shown
        assert answered(kafkas["plain"], "beat a") == ["a: epoch 3"]
        assert answered(kafkas["regex"], "beat a") == ["a: epoch 2"]
        assert answered(kafkas["static"], "beat c join topics=t instance=i")[0].startswith("c: epoch 3, has t-")
        assert answered(kafkas["mixed"], "heartbeat b") == ["b: alive"]
        answered(kafkas["plain"], "beat c join topics=t")
        shown = {name: answered(kafkas[name], "show") for name in names}
    with players(Server.ottla(properties), kafkas, names) as ottlas:
        assert {name: answered(ottlas[name], "show") for name in names} == shown
        assert answered(ottlas["regex"], "beat a") == ["a: epoch 2"]
        assert answered(ottlas["plain"], "beat a owns=t-0+t-1")[0].startswith("a: epoch")
        assert answered(ottlas["mixed"], "heartbeat b") == ["b: alive"]

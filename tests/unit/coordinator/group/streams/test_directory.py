"""A Streams group in a data directory that goes from Ottla to a real Kafka and back: nobody notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.server import Server, Settings, run_ottla
from tests.unit.coordinator.group.streams.doors import SETTINGS, SocketDoor
from tests.unit.coordinator.group.streams.player import Player

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

BEGIN = [
    "topic words 3",
    "set streams.num.standby.replicas=1",
    "join m1 topology=counts process=p1 endpoint=host-1:7070",
    "wait 1000",
    "heartbeat m1",
    "join m2 topology=counts process=p2",
    "heartbeat m1",
]


def test_a_streams_group_goes_on_where_it_was_with_each_next_broker(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "data")
    settings.update(SETTINGS)
    properties = settings.write(tmp_path / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    assert run_ottla("storage", "format", "-t", cluster_id, "-c", properties).returncode == 0
    told: list[list[str]] = []
    epochs: dict[str, int] = {}

    def visit(make: Callable[[Path], Server], commands: list[str]) -> None:
        """What the group is when the broker has started, and after these commands."""
        with make(properties) as server:
            door = SocketDoor(server.port)
            player = Player(door)
            player.epochs = epochs
            told.append(player.do_state())
            for command in commands:
                player.execute(command)
            told.append(player.do_state())
            door.close()

    visit(Server.ottla, BEGIN)
    # The first member has been told to give up tasks, and is now heard by another broker.
    visit(Server.kafka, ["heartbeat m1 owns=", "heartbeat m2"])
    visit(Server.ottla, ["heartbeat m1", "heartbeat m2", "heartbeat m1", "heartbeat m2"])
    assert told[1] == told[2]
    assert told[3] == told[4]
    assert told[1][0].startswith("Reconciling"), told[1]
    assert told[5][0].startswith("Stable"), told[5]

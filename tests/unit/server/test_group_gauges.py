"""`ottla/server/group_gauges.py`."""

from __future__ import annotations

from ottla.server.group_gauges import publish_group_gauges
from tests.unit.coordinator.group.classic_player import Player
from tests.unit.coordinator.group.doors import VirtualDoor


def page(door: VirtualDoor) -> dict[str, float]:
    lines = [line for line in door.node.context.metrics.exposition().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_groups_are_told_by_protocol_and_state_and_what_they_did_is_counted() -> None:
    door = VirtualDoor({"t": 2, "u": 1}, {"group.initial.rebalance.delay.ms": 0})
    publish_group_gauges(door.node.broker)
    player = Player(door, "g")
    player.execute("enter a")
    classic, groups = "kafka_coordinator_group_groupmetadatamanager_", "kafka_server_group_coordinator_metrics_"
    assert page(door)[f"{classic}numgroupscompletingrebalance"] == 1
    player.execute("sync a assign=a:x")
    player.execute("commit a t-0=1 t-1=2")
    player.execute("commit a t-0=2 u-0=5")
    player.execute("commit - group=other t-0=1")
    player.execute("delete-offsets u-0")
    told = page(door)
    expected = {
        f"{classic}numgroups": 2,
        f"{classic}numgroupsstable": 1,
        f"{classic}numgroupsempty": 1,
        f"{classic}numgroupscompletingrebalance": 0,
        f"{classic}numoffsets": 3,
        f'{groups}group_count{{protocol="classic"}}': 2,
        f'{groups}group_count{{protocol="consumer"}}': 0,
        f'{groups}consumer_group_count{{state="Stable"}}': 0,
        f'{groups}num_partitions{{state="active"}}': 1,
        f'{groups}num_partitions{{state="loading"}}': 0,
        f"{groups}group_completed_rebalance_total": 1,
        f"{groups}offset_commit_total": 5,
        f"{groups}offset_deletion_total": 1,
        f"{groups}offset_expiration_total": 0,
    }
    assert {name: told.get(name) for name in expected} == expected

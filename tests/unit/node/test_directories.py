"""The log directories before a start: formatted, of one cluster, of this node; one line that says what to do."""

from __future__ import annotations

import random

import pytest

from ottla.config import BrokerConfig
from ottla.node.directories import CannotStart, check_directories, format_new
from ottla.sim import VirtualWorld, virtual_world
from ottla.storage import MetaProperties, read_meta_properties, write_meta_properties
from ottla.types import Uuid


def config(*directories: str, node_id: int = 1) -> BrokerConfig:
    return BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": node_id,
            "controller.quorum.voters": f"{node_id}@127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "log.dirs": ",".join(directories),
        }
    )


@pytest.fixture
def world() -> VirtualWorld:
    return virtual_world(random.Random(1))


def test_new_directories_are_formatted_with_one_cluster_and_ids_of_their_own(world: VirtualWorld) -> None:
    format_new(world, config("/a", "/b"))
    found = check_directories(world, config("/a", "/b"))
    assert sorted(found.ids) == ["/a", "/b"]
    assert len(set(found.ids.values())) == 2
    assert world.disk.exists("/a/bootstrap.checkpoint")
    format_new(world, config("/a", "/b"))
    assert check_directories(world, config("/a", "/b")) == found, "what was formatted stays as it is"


def test_an_unformatted_directory_says_how_to_format_it(world: VirtualWorld) -> None:
    with pytest.raises(CannotStart, match="Format them first: ottla storage format"):
        check_directories(world, config("/a"))


def test_another_nodes_directory_is_refused(world: VirtualWorld) -> None:
    format_new(world, config("/a"))
    with pytest.raises(CannotStart, match=r"Stored node id 1 in /a doesn't match the configured node id 2"):
        check_directories(world, config("/a", node_id=2))


def test_directories_of_two_clusters_are_refused(world: VirtualWorld) -> None:
    format_new(world, config("/a"))
    world.disk.make_dirs("/b")
    other = MetaProperties("another-cluster", 1, Uuid(b"0123456789abcdef"))
    write_meta_properties(world.disk, "/b", other, 0)
    with pytest.raises(CannotStart, match="belong to different clusters"):
        check_directories(world, config("/a", "/b"))


def test_a_damaged_meta_properties_is_named(world: VirtualWorld) -> None:
    format_new(world, config("/a"))
    file = world.disk.open("/a/meta.properties")
    file.truncate(20)
    file.close()
    with pytest.raises(CannotStart, match=r"/a/meta\.properties"):
        check_directories(world, config("/a"))


def test_a_directory_that_was_added_later_joins_the_cluster(world: VirtualWorld) -> None:
    format_new(world, config("/a"))
    before = check_directories(world, config("/a"))
    after = check_directories(world, config("/a", "/new"))
    assert after.cluster_id == before.cluster_id
    joined = read_meta_properties(world.disk, "/new")
    assert joined is not None
    assert (joined.cluster_id, joined.directory_id) == (before.cluster_id, after.ids["/new"])

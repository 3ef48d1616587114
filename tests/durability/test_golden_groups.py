"""The groups of the directory that a real Kafka wrote, served by `ottla server start` on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.golden import golden_data_dir, golden_expected
from tests.support.raw import RawClient
from tests.support.server import Server, Settings

EXPECTED = golden_expected()["groups"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("golden")
    settings = Settings(golden_data_dir(directory / "data"))
    with Server.ottla(settings.write(directory / "server.properties")) as running:
        yield running
        running.stop()
    assert running.errors() == []


def committed(server: Server, group: str, partitions: list[str]) -> dict[str, int]:
    consumer = Consumer({"bootstrap.servers": server.address, "group.id": group})
    names = [name.rpartition("-") for name in partitions]
    told = consumer.committed([TopicPartition(topic, int(index)) for topic, _, index in names], timeout=20)
    consumer.close()
    return {f"{one.topic}-{one.partition}": one.offset for one in told}


def test_the_groups_have_committed_what_they_had(server: Server) -> None:
    """Through librdkafka, as it was asked of Kafka: -1001 where a group has committed nothing."""
    assert {group: committed(server, group, list(offsets)) for group, offsets in EXPECTED.items()} == EXPECTED


def test_the_groups_are_of_the_protocol_and_in_the_state_they_were(server: Server) -> None:
    with RawClient(server.port) as client:
        listed = client.send(ListGroupsRequest(), 5, ListGroupsResponse)
        assert listed.error_code == 0
        assert {one.group_id: (one.group_type, one.group_state, one.protocol_type) for one in listed.groups} == {
            "readers": ("classic", "Empty", "consumer"),
            "new-readers": ("consumer", "Empty", "consumer"),
            "x": ("classic", "Empty", ""),
        }
        (described,) = client.send(DescribeGroupsRequest(["readers"]), 6, DescribeGroupsResponse).groups
        assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])


def test_a_group_goes_on_in_it_and_keeps_what_it_commits_over_a_restart(server: Server) -> None:
    consumer = Consumer(
        {"bootstrap.servers": server.address, "group.id": "readers", "enable.auto.commit": False,
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe(["plain"])
    message = None
    for _ in range(40):
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            break
    assert message is not None
    name = f"plain-{message.partition()}"
    assert message.offset() == EXPECTED["readers"][name], "it goes on where Kafka's group has stopped"
    consumer.commit(message=message, asynchronous=False)
    consumer.close()
    after = {**EXPECTED["readers"], name: EXPECTED["readers"][name] + 1}
    assert committed(server, "readers", list(after)) == after
    server.stop()
    server.start()
    assert committed(server, "readers", list(after)) == after

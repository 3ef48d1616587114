"""Which protocol a consumer ends up with, and what it says when there is none for it.

Against Ottla, and against a real Kafka with OTTLA_TESTS_AGAINST=kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ottla.errors import GroupIdNotFound, InconsistentGroupProtocol, InvalidRegularExpression, UnsupportedVersion
from tests.clients.groups.conftest import SETTINGS
from tests.clients.ours.group_members import Member, make_topic, port_of, run, settings_of, until, until_shared, write
from tests.clients.ours.test_share import share_consumer
from tests.support.clients import new_topic
from tests.support.nodes import KIND, running
from tests.support.raw import RawClient

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def old_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose cluster has not got the new protocol: group.version is 0."""
    directory = tmp_path_factory.mktemp("old")
    with running(KIND, directory, SETTINGS, features=["group.version=0"]) as started:
        yield started.address


def test_auto_is_classic_where_the_cluster_has_nothing_else(old_address: str) -> None:
    topic = make_topic(old_address, "old")

    async def story() -> None:
        members = [Member(old_address, f"g-{topic}", name, {}) for name in ("a", "b")]
        for member in members:
            await member.subscribe([topic])
            member.start()
        await until_shared(members, [2, 2])
        assert members[0].consumer.group_metadata().member_id.startswith("consumer-")
        for member in members:
            await member.close()

    run(story())


def test_asking_for_the_consumer_protocol_where_there_is_none_is_one_clear_error(old_address: str) -> None:
    topic = make_topic(old_address, "old")

    async def story() -> None:
        member = Member(old_address, f"g-{topic}", "m", {"group.protocol": "consumer"})
        await member.subscribe([topic])
        member.start()
        await until(lambda: member.has_ended, "the poll fails")
        with pytest.raises(UnsupportedVersion, match=r"does not support .*protocol"):
            await member.stop()
        await member.consumer.close(5)

    run(story())


@pytest.mark.parametrize("protocol", ["classic", "consumer", "auto"])
def test_a_consumer_in_a_share_group_is_told_that_it_is_one_of_another_protocol(address: str, protocol: str) -> None:
    topic = make_topic(address, "other-kind")

    async def story() -> None:
        group = f"g-{topic}"
        async with share_consumer(address, group) as sharing:
            await sharing.subscribe(topic)
            await sharing.poll(2)
            member = Member(address, group, "m", {"group.protocol": protocol})
            await member.subscribe([topic])
            member.start()
            await until(lambda: member.has_ended, "the poll fails")
            with pytest.raises((GroupIdNotFound, InconsistentGroupProtocol), match="another protocol"):
                await member.stop()
            await member.consumer.close(5)

    run(story())


def test_a_pattern_that_is_not_one_is_told_by_the_broker(address: str) -> None:
    from ottla.client import SubscriptionPattern

    async def story() -> None:
        member = Member(address, new_topic("bad-pattern"), "m", {"group.protocol": "consumer"})
        await member.subscribe(SubscriptionPattern("("))
        member.start()
        await until(lambda: member.has_ended, "the poll fails")
        with pytest.raises(InvalidRegularExpression, match="RE2"):
            await member.stop()
        await member.consumer.close(5)

    run(story())


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_a_pattern_that_the_client_matches_finds_topics_that_come_later(address: str, protocol: str) -> None:
    """The leader sees the new topic first, and gives a part of it to a member that has not seen it yet."""
    stem = new_topic("pattern")

    async def story() -> None:
        def make(name: str) -> None:
            with RawClient(port_of(address)) as client:
                client.create_topic(f"{stem}-{name}", partitions=2)

        make("one")
        settings = settings_of(protocol)
        ages = {"leader": 300, "other": 300 if protocol == "consumer" else 60_000}
        members = [
            Member(address, f"g-{stem}", name, {**settings, "metadata.max.age.ms": age}) for name, age in ages.items()
        ]
        for count, member in enumerate(members, 1):
            await member.subscribe(re.compile(f"{stem}-.*"))
            member.start()
            await until_shared(members[:count], [2] if count == 1 else [1, 1])
        make("two")
        await until_shared(members, [2, 2])
        write(address, f"{stem}-two", 10, partitions=2)
        await until(lambda: sum(len(member.records) for member in members) == 10, "the records of the new topic")
        for member in members:
            await member.close()

    run(story())

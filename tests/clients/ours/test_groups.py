"""Our consumers in groups: handing over, restarting, being late, coming and going; in every protocol.

Against Ottla, and against a real Kafka with OTTLA_TESTS_AGAINST=kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from random import Random

import pytest

from ottla.client import AsyncConsumer, CommitFailed, OffsetAndMetadata, SubscriptionPattern, TopicPartition
from ottla.errors import FencedInstanceId, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.clients.ours.group_members import (
    PROTOCOLS,
    Book,
    Member,
    make_topic,
    port_of,
    run,
    settings_of,
    until,
    until_shared,
    write,
)
from tests.support.clients import new_topic
from tests.support.nodes import coordinator_port
from tests.support.raw import RawClient

pytestmark = pytest.mark.timeout(120)

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
def test_a_member_that_commits_when_it_gives_up_hands_over_without_a_gap_or_a_repetition(
    address: str, protocol: str
) -> None:
    """The first member reads half, the second joins; what both have read together is every record once."""
    topic = make_topic(address, "handover")
    write(address, topic, 400, partitions=4)

    async def story() -> None:
        book = Book()
        first = Member(address, f"g-{topic}", "first", settings_of(protocol), book)
        second = Member(address, f"g-{topic}", "second", settings_of(protocol), book)
        first.commits_on_revoke = second.commits_on_revoke = True
        await first.subscribe([topic])
        first.start()
        await until_shared([first], [4])
        await until(lambda: len(first.records) >= 100, "a first part")
        await second.subscribe([topic])
        second.start()
        await until_shared([first, second], [2, 2])
        write(address, topic, 400, partitions=4, start=400)
        await until(lambda: len(first.records) + len(second.records) >= 800, "all records")
        await first.close()
        await until_shared([second], [4])
        write(address, topic, 40, partitions=4, start=800)
        await until(lambda: len(first.records) + len(second.records) >= 840, "the last ones")
        await second.close()
        read = Counter(int(record.value) for record in first.records + second.records)
        assert set(read) == set(range(840))
        assert [number for number, times in read.items() if times > 1] == []
        assert book.double == []
        assert book.owner == {}

    run(story())


@every_protocol
def test_auto_commit_hands_over_what_was_polled_and_close_commits_the_rest(address: str, protocol: str) -> None:
    topic = make_topic(address, "auto-commit")
    write(address, topic, 200, partitions=4)
    settings = {**settings_of(protocol), "enable.auto.commit": True, "auto.commit.interval.ms": 60_000}

    async def story() -> None:
        first = Member(address, f"g-{topic}", "first", settings)
        second = Member(address, f"g-{topic}", "second", settings)
        await first.subscribe([topic])
        first.start()
        await until(lambda: len(first.records) == 200, "all records")
        await second.subscribe([topic])
        second.start()
        await until_shared([first, second], [2, 2])
        await first.close()
        await second.close()
        third = Member(address, f"g-{topic}", "third", settings)
        committed = await third.consumer.committed([TopicPartition(topic, index) for index in range(4)])
        assert [place and place.offset for place in committed.values()] == [50] * 4
        assert second.records == []
        await third.close()

    run(story())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_that_comes_back_in_time_finds_its_partitions_and_nobody_else_hears_of_it(
    address: str, protocol: str
) -> None:
    topic = make_topic(address, "static")

    async def story() -> None:
        group = f"g-{topic}"

        def member(name: str) -> Member:
            return Member(address, group, name, {**settings_of(protocol), "group.instance.id": name})

        one, two = member("one"), member("two")
        for each in (one, two):
            await each.subscribe([topic])
            each.start()
        await until_shared([one, two], [2, 2])
        await asyncio.sleep(0.5)
        heard, owned = list(one.news), set(two.assignment)
        await two.close()
        again = member("two")
        await again.subscribe([topic])
        again.start()
        await until_shared([again], [2])
        assert again.assignment == owned
        await asyncio.sleep(0.5)
        assert one.news == heard
        await one.close()
        await again.close(leave_group=True)

    run(story())


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
def test_a_static_member_is_fenced_by_another_of_its_name(address: str, protocol: str) -> None:
    topic = make_topic(address, "fenced")

    async def story() -> None:
        settings = {**settings_of(protocol), "group.instance.id": "only"}
        old = Member(address, f"g-{topic}", "old", settings)
        await old.subscribe([topic])
        old.start()
        await until_shared([old], [4])
        new = Member(address, f"g-{topic}", "new", settings)
        await new.subscribe([topic])
        new.start()
        await until_shared([new], [4])
        await until(lambda: old.has_ended, "the old one hears of it")
        with pytest.raises(FencedInstanceId, match="only"):
            await old.stop()
        await old.consumer.close(5)
        assert len(new.assignment) == 4
        await new.close(leave_group=True)

    run(story())


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_members_that_stay_keep_what_they_keep_and_nothing_is_owned_twice(address: str, protocol: str) -> None:
    """Three members come one after the other, and go; partitions that do not move are never taken away."""
    topic = make_topic(address, "moving", 6)

    async def story() -> None:
        book = Book()
        members = [Member(address, f"g-{topic}", name, settings_of(protocol), book) for name in "abc"]
        for count, member in enumerate(members, 1):
            await member.subscribe([topic])
            member.start()
            await until_shared(members[:count], [6 // count] * count)
        taken = [partition for kind, found in members[0].heard if kind == "revoked" for partition in found]
        assert len(taken) == len(set(taken)) == 4  # of six, it keeps the same two all the while
        await members[0].close()
        await until_shared(members[1:], [3, 3])
        assert book.double == []
        for member in members[1:]:
            await member.close()
        assert book.owner == {}
        assert book.double == []

    run(story())


@every_protocol
def test_a_member_that_polls_too_late_is_out_loudly_and_comes_back(
    address: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(address, "late")
    write(address, topic, 40, partitions=4)

    async def story() -> None:
        slow = Member(address, f"g-{topic}", "slow", {**settings_of(protocol), "max.poll.interval.ms": 1_000})
        quick = Member(address, f"g-{topic}", "quick", settings_of(protocol))
        await slow.subscribe([topic])
        slow.start()
        await until_shared([slow], [4])
        await until(lambda: len(slow.records) == 40, "all records")
        await slow.stop()
        await quick.subscribe([topic])
        quick.start()
        await until_shared([quick], [4])  # the slow one has left: it does not hold the others up
        with pytest.raises(CommitFailed):
            await slow.consumer.commit({TopicPartition(topic, 0): 1})
        slow.start()
        await until(lambda: len(slow.assignment) == 2 and len(quick.assignment) == 2, "the slow one is back")
        assert [kind for kind, _ in slow.news[:3]] == ["assigned", "lost", "assigned"]
        await slow.close()
        await quick.close()

    with caplog.at_level(logging.ERROR, logger="ottla.client"):
        run(story())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "max.poll.interval.ms" in caplog.text
    assert "max.poll.records" in caplog.text


@every_protocol
def test_a_waiting_poll_is_not_late(address: str, protocol: str) -> None:
    topic = make_topic(address, "waiting")

    async def story() -> None:
        member = Member(address, f"g-{topic}", "m", {**settings_of(protocol), "max.poll.interval.ms": 600})
        await member.subscribe([topic])
        while len(member.assignment) < 4:
            await member.consumer.poll(0.2)
        await member.consumer.poll(1.5)
        assert member.news == [("assigned", [f"{topic}-{index}" for index in range(4)])]
        await member.close()

    run(story())


@every_protocol
def test_twenty_members_that_come_and_go_share_everything_and_nothing_twice(address: str, protocol: str) -> None:
    topic = make_topic(address, "churn", 12)

    async def story() -> None:
        chance = Random(protocol)
        book = Book()
        members: list[Member] = []
        for number in range(20):
            member = Member(address, f"g-{topic}", f"m{number}", settings_of(protocol), book)
            await member.subscribe([topic])
            member.start()
            members.append(member)
            await asyncio.sleep(0.1 * chance.random())
            if chance.random() < 0.6 and len(members) > 1:
                await members.pop(chance.randrange(len(members))).close()
        shares = [12 // len(members) + (index < 12 % len(members)) for index in range(len(members))]
        await until_shared(members, shares, 40)
        assert sorted(str(one) for member in members for one in member.assignment) == sorted(
            f"{topic}-{index}" for index in range(12)
        )
        assert book.double == []
        await asyncio.gather(*(member.close() for member in members))
        assert book.owner == {}

    run(story())


def test_auto_takes_the_consumer_protocol_and_joins_a_classic_group_that_has_members(address: str) -> None:
    """A group of classic members takes one of the new protocol in (KIP-848), and both share."""
    topic = make_topic(address, "mixed")

    async def story() -> None:
        old = Member(address, f"g-{topic}", "old", settings_of("cooperative"))
        await old.subscribe([topic])
        old.start()
        await until_shared([old], [4])
        new = Member(address, f"g-{topic}", "new", {})
        await new.subscribe([topic])
        new.start()
        await until_shared([old, new], [2, 2])
        metadata = new.consumer.group_metadata()
        assert not metadata.member_id.startswith("consumer-")  # as classic ones are made, by the broker
        assert metadata.generation_id > 0
        await old.close()
        await until_shared([new], [4])
        await new.close()

    run(story())


@every_protocol
def test_a_topic_that_grows_is_shared_out_again(address: str, protocol: str) -> None:
    topic = make_topic(address, "growing", 2)

    async def story() -> None:
        members = [
            Member(address, f"g-{topic}", name, {**settings_of(protocol), "metadata.max.age.ms": 300})
            for name in ("a", "b")
        ]
        for member in members:
            await member.subscribe([topic])
            member.start()
        await until_shared(members, [1, 1])
        grow(address, topic, 4)
        await until_shared(members, [2, 2])
        for member in members:
            await member.close()

    run(story())


def grow(address: str, topic: str, count: int) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, count, None)], timeout_ms=10_000)
    with RawClient(port_of(address)) as client:
        (made,) = client.send(request, 3, CreatePartitionsResponse).results
        assert made.error_code == 0


def test_a_pattern_that_the_broker_matches_finds_topics_that_come_later(address: str) -> None:
    stem = new_topic("matched")

    async def story() -> None:
        def make(name: str) -> None:
            with RawClient(port_of(address)) as client:
                client.create_topic(f"{stem}-{name}", partitions=2)

        make("one")
        member = Member(address, f"g-{stem}", "m", {"group.protocol": "consumer"})
        await member.subscribe(SubscriptionPattern(f"{stem}-.*"))
        member.start()
        await until_shared([member], [2])
        make("two")
        write(address, f"{stem}-two", 10, partitions=2)
        await until_shared([member], [4], 40)
        await until(lambda: len(member.records) == 10, "the records of the new topic")
        await member.close()

    run(story())


# Commits


@every_protocol
def test_commits_are_kept_with_their_text_and_epoch_and_asynchronous_ones_end_in_order(
    address: str, protocol: str
) -> None:
    topic = make_topic(address, "commits")
    write(address, topic, 40, partitions=4)
    first = TopicPartition(topic, 0)

    async def story() -> None:
        member = Member(address, f"g-{topic}", "m", settings_of(protocol))
        await member.subscribe([topic])
        member.start()
        await until(lambda: len(member.records) == 40, "all records")
        await member.stop()
        consumer = member.consumer
        await consumer.commit({first: OffsetAndMetadata(5, "a note", 0)})
        assert await consumer.committed([first]) == {first: OffsetAndMetadata(5, "a note", 0)}
        ended: list[tuple[int, KafkaError | None]] = []
        for offset in range(6, 30):
            consumer.commit_async(lambda found, error: ended.append((found[first].offset, error)), {first: offset})
        await consumer.commit({first: 30})
        assert ended == [(offset, None) for offset in range(6, 30)]
        assert (await consumer.committed([first]))[first] == OffsetAndMetadata(30)
        await consumer.commit()
        assert {place and place.offset for place in (await consumer.committed(member.assignment)).values()} == {10}
        measured = consumer.metrics()
        assert measured.value("commit-total") == 27
        assert measured.value("assigned-partitions") == 4
        assert measured.value("rebalance-total") >= 1
        await until(lambda: consumer.metrics().value("heartbeat-total") >= 1, "a heartbeat")
        await member.close()

    run(story())


@every_protocol
def test_who_is_not_a_member_cannot_commit_for_a_group_that_has_some(address: str, protocol: str) -> None:
    topic = make_topic(address, "stranger")

    async def story() -> None:
        member = Member(address, f"g-{topic}", "m", settings_of(protocol))
        await member.subscribe([topic])
        member.start()
        await until_shared([member], [4])
        config: dict[str, object] = {"bootstrap.servers": address, "group.id": f"g-{topic}"}
        stranger: AsyncConsumer[bytes | None, bytes | None]
        async with AsyncConsumer(config, enable_auto_commit=False) as stranger:
            await stranger.assign([TopicPartition(topic, 0)])
            with pytest.raises(CommitFailed):
                await stranger.commit({TopicPartition(topic, 0): 1})
            await member.close()
            await stranger.commit({TopicPartition(topic, 0): 1})
            committed = await stranger.committed([TopicPartition(topic, 0)])
            assert committed == {TopicPartition(topic, 0): OffsetAndMetadata(1)}

    run(story())


@every_protocol
def test_a_member_that_was_taken_out_hears_of_it_and_joins_again(address: str, protocol: str) -> None:
    """The session has run out while nothing was sent: here, the member is taken out by the hand of an admin."""
    topic = make_topic(address, "removed")

    async def story() -> None:
        member = Member(address, f"g-{topic}", "m", settings_of(protocol))
        await member.subscribe([topic])
        member.start()
        await until_shared([member], [4])
        remove(address, f"g-{topic}", member.consumer.group_metadata().member_id, protocol)
        await until(lambda: len(member.news) >= 3 and len(member.assignment) == 4, "the member is back")
        assert [kind for kind, _ in member.news] == ["assigned", "lost", "assigned"]
        await member.close()

    run(story())


def remove(address: str, group: str, member_id: str, protocol: str) -> None:
    """Leave in the member's name."""
    with RawClient(coordinator_port(port_of(address), group)) as client:
        if protocol == "consumer":
            beat = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=-1)
            assert client.send(beat, 0, ConsumerGroupHeartbeatResponse).error_code == 0
        else:
            leave = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id)])
            assert client.send(leave, 5, LeaveGroupResponse).error_code == 0


def test_unsubscribing_and_subscribing_again_is_leaving_and_joining(address: str) -> None:
    topic, other = make_topic(address, "first"), make_topic(address, "second", 2)

    async def story() -> None:
        for protocol in PROTOCOLS:
            member = Member(address, f"g-{topic}-{protocol}", "m", settings_of(protocol))
            await member.subscribe([topic])
            member.start()
            await until_shared([member], [4])
            await member.stop()
            await member.subscribe([other])  # another subscription, as a member
            member.start()
            await until_shared([member], [2])
            await member.stop()
            await member.consumer.unsubscribe()
            assert member.assignment == set()
            await member.subscribe([topic, other])
            member.start()
            await until_shared([member], [6])
            await member.close()

    run(story())

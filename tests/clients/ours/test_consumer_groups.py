"""A consumer in a group: listeners and callbacks where the user is, iteration and commits, in both protocols."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client import AsyncConsumer, Consumer, RebalanceListener, SubscriptionPattern
from ottla.client.errors import IllegalState, NoOffsetForPartition, Wakeup
from ottla.client.group import OffsetAndMetadata
from ottla.types import TopicPartition
from tests.clients.ours.consumers import FACES, PATIENCE_S, make_topic, numbers, partitions, read, values, write
from tests.support.clients import eventually

Make = Callable[..., Any]
PROTOCOLS = ("classic", "consumer")


@pytest.fixture(params=[(face, protocol) for face in FACES for protocol in PROTOCOLS], ids="-".join)
def make(request: pytest.FixtureRequest, address: str) -> Make:
    """Makes a member of a face and a protocol."""
    face, protocol = request.param
    group = f"g-{uuid.uuid4().hex[:12]}"

    def made(**settings: Any) -> Any:
        given = {"auto_offset_reset": "earliest", "group_protocol": protocol, "group_id": group, **settings}
        return FACES[face](bootstrap_servers=address, **given)

    return made


@pytest.fixture(params=PROTOCOLS)
def make_sync(request: pytest.FixtureRequest, address: str) -> Make:
    """Makes a member that blocks."""
    group = f"g-{uuid.uuid4().hex[:12]}"

    def made(**settings: Any) -> Consumer[Any, Any]:
        given = {"auto_offset_reset": "earliest", "group_protocol": request.param, "group_id": group, **settings}
        return Consumer(bootstrap_servers=address, **given)

    return made


def test_a_group_goes_on_where_its_last_member_committed(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    for partition in range(2):
        write(address, topic, numbers(50), partition=partition)
    seen: list[tuple[int, int]] = []
    for count in (30, 30, 40):
        with make(max_poll_records=10) as consumer:  # auto-commit, on close
            consumer.subscribe([topic])
            seen += [(one.partition, one.offset) for one in read(consumer, count)]
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(50)]


def test_an_iteration_commits_what_was_given_out_and_nothing_else(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(40))
    [place] = partitions(topic)
    with make(enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            consumer.commit()
            assert consumer.committed([place])[place].offset == record.offset + 1
            if record.offset == 4:
                break
    with make() as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            assert record.offset >= 5
            if record.offset == 11:
                break
    with make() as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(PATIENCE_S)[0].offset == 12


def test_offsets_are_committed_by_hand_with_their_metadata(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    [place] = partitions(topic)
    with make(enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        read(consumer, 10)
        consumer.commit({place: OffsetAndMetadata(3, "a note", 0)})
        assert consumer.committed([place]) == {place: OffsetAndMetadata(3, "a note", 0)}
        consumer.commit({place: 7})
        assert consumer.committed([place, TopicPartition(topic, 1)])[place] == OffsetAndMetadata(7)
        with pytest.raises(ValueError, match="negative"):
            consumer.commit({place: -1})
        assert consumer.group_metadata().generation_id > 0
        assert consumer.position(place) == 10


def test_callbacks_of_asynchronous_commits_come_in_order_within_polls(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    [place] = partitions(topic)
    told: list[int] = []
    with make(enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        read(consumer, 10)
        for offset in range(1, 6):
            consumer.commit_async(lambda offsets, error: told.append(offsets[place].offset), {place: offset})
        time.sleep(0.3)
        assert told == []
        eventually(lambda: consumer.poll(0.05) == [] and len(told) == 5, "all were told")
        consumer.commit_async(lambda offsets, error: told.append(offsets[place].offset))
        consumer.commit()
        assert told == [1, 2, 3, 4, 5, 10]


def test_auto_commit_commits_with_the_poll_after_the_interval(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    [place] = partitions(topic)
    with make(auto_commit_interval_ms=200) as consumer, make(enable_auto_commit=False) as other:
        consumer.subscribe(topic)
        read(consumer, 4, max_records=4)
        time.sleep(0.3)
        # Four were given, and nobody knows whether the user is done with them until the next poll.
        assert other.committed([place])[place] is None or other.committed([place])[place].offset < 4
        read(consumer, 2, max_records=2)
        eventually(lambda: (found := other.committed([place])[place]) is not None and found.offset == 4, "committed")


def test_a_pattern_finds_topics_that_are_made_later(make: Make, address: str) -> None:
    stem = f"p-{uuid.uuid4().hex[:8]}"
    write(address, f"{stem}-1", [b"one"])
    write(address, f"not-{stem}-1", [b"no"])
    with make(metadata_max_age_ms=300) as consumer:
        consumer.subscribe(re.compile(f"{stem}-.*"))
        assert values(read(consumer, 1)) == [b"one"]
        assert consumer.subscription() == {f"{stem}-1"}
        write(address, f"{stem}-2", [b"two"])
        assert values(read(consumer, 1)) == [b"two"]
        assert consumer.subscription() == {f"{stem}-1", f"{stem}-2"}
        with pytest.raises(IllegalState, match="mutually exclusive"):
            consumer.subscribe([stem])


def test_after_unsubscribe_everything_can_be_chosen_anew(make: Make, address: str) -> None:
    first, second = make_topic(address), make_topic(address)
    write(address, first, [b"first"])
    write(address, second, [b"second"])
    with make() as consumer:
        consumer.subscribe(first)
        assert values(read(consumer, 1)) == [b"first"]
        consumer.subscribe([second])  # instead of the first, not beside it
        assert values(read(consumer, 1)) == [b"second"]
        eventually(lambda: consumer.poll(0.05) == [] and consumer.assignment() == set(partitions(second)), "only that")
        consumer.subscribe([])
        assert (consumer.assignment(), consumer.subscription()) == (set(), set())
        consumer.assign(partitions(first))
        consumer.seek_to_beginning()
        assert values(read(consumer, 1)) == [b"first"]
        consumer.unsubscribe()
        consumer.subscribe([first])
        consumer.poll(0.1)


def test_wakeup_ends_the_wait_for_an_assignment(make: Make) -> None:
    with make(allow_auto_create_topics=False) as consumer:
        consumer.subscribe(["not-there-at-all"])
        threading.Timer(0.3, consumer.wakeup).start()
        begun = time.monotonic()
        with pytest.raises(Wakeup):
            consumer.poll(30)
        assert time.monotonic() - begun < 10


def test_interceptors_hear_of_commits_in_the_callers_thread(make_sync: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(5))
    told: list[tuple[Any, int]] = []

    class Hears:
        def on_commit(self, offsets: Any) -> None:
            told.append((offsets, threading.get_ident()))

    with make_sync(interceptor_classes=[Hears()], enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        read(consumer, 5)
        consumer.commit()
        assert told == [({TopicPartition(topic, 0): OffsetAndMetadata(5, "", 0)}, threading.get_ident())]


# Listeners


class Book(RebalanceListener):
    """Writes down what it is told, and in which thread; commits what is taken."""

    def __init__(self, consumer: Consumer[Any, Any]) -> None:
        self.consumer = consumer
        self.told: list[tuple[str, list[int], int]] = []

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._write("assigned", partitions)
        for partition in partitions:
            assert partition in self.consumer.assignment()
            assert self.consumer.position(partition) >= 0

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self._write("revoked", partitions)
        self.consumer.commit()

    def _write(self, what: str, partitions: list[TopicPartition]) -> None:
        self.told.append((what, [one.partition for one in partitions], threading.get_ident()))

    def said(self) -> list[tuple[str, list[int]]]:
        assert {ident for _, _, ident in self.told} <= {threading.get_ident()}
        return [(what, partitions) for what, partitions, _ in self.told if partitions]


def test_a_listener_is_told_in_the_callers_thread_and_may_commit_there(make_sync: Make, address: str) -> None:
    topic = make_topic(address, 2)
    for partition in range(2):
        write(address, topic, numbers(20), partition=partition)
    with make_sync(enable_auto_commit=False) as first:
        book = Book(first)
        first.subscribe(topic, book)
        read(first, 40)
        assert book.said() == [("assigned", [0, 1])]
        with make_sync(enable_auto_commit=False) as second:
            second.subscribe(topic)
            deadline = time.monotonic() + PATIENCE_S
            while len(first.assignment()) != 1 or len(second.assignment()) != 1:
                assert time.monotonic() < deadline, (first.assignment(), second.assignment())
                assert first.poll(0.05) == []
                assert second.poll(0.05) == []  # the first one's commit came before
        said = book.said()
        assert said[1][0] == "revoked"
        deadline = time.monotonic() + PATIENCE_S
        while len(first.assignment()) != 2:
            assert time.monotonic() < deadline
            assert first.poll(0.05) == []
    assert book.said()[-1] == ("revoked", [0, 1])


def test_what_a_listener_seeks_is_where_reading_begins(make_sync: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(20))

    with make_sync(auto_offset_reset="none") as consumer:

        def on_assigned(found: list[TopicPartition]) -> None:
            for partition in found:
                consumer.seek(partition, 15)
            time.sleep(0.2)

        consumer.subscribe(topic, on_assigned=on_assigned)
        assert values(read(consumer, 5)) == numbers(5, 15)
        assert consumer.metrics().value("partition-assigned-latency-max") >= 200


def test_what_a_listener_raises_comes_from_the_poll_and_the_assignment_stands(make_sync: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(3))

    def on_assigned(found: list[TopicPartition]) -> None:
        raise LookupError("no store")

    with make_sync() as consumer:
        consumer.subscribe(topic, on_assigned=on_assigned)
        with pytest.raises(LookupError, match="no store"):
            read(consumer, 1)
        assert consumer.assignment() == set(partitions(topic))
        assert values(read(consumer, 3)) == numbers(3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_async_listener_may_be_coroutines(address: str, protocol: str) -> None:
    topic = make_topic(address, 2)
    write(address, topic, numbers(10))
    told: list[str] = []

    async def main() -> None:
        async with AsyncConsumer[Any, Any](
            bootstrap_servers=address,
            group_id=topic,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:

            async def on_assigned(found: list[TopicPartition]) -> None:
                assert await consumer.position(TopicPartition(topic, 0)) == 0
                told.append("assigned")

            async def on_revoked(found: list[TopicPartition]) -> None:
                await consumer.commit()
                told.append("revoked")

            await consumer.subscribe(topic, on_assigned=on_assigned, on_revoked=on_revoked)
            count = 0
            async for _ in consumer:
                count += 1
                if count == 6:
                    break
        async with AsyncConsumer[Any, Any](bootstrap_servers=address, group_id=topic) as consumer:
            found = await consumer.committed([TopicPartition(topic, 0)])
            assert found[TopicPartition(topic, 0)] == OffsetAndMetadata(6, "", 0)

    asyncio.run(main())
    assert told == ["assigned", "revoked"]


def test_the_broker_matches_a_pattern_of_its_own_kind(address: str) -> None:
    stem = f"s-{uuid.uuid4().hex[:8]}"
    for number in range(2):
        write(address, f"{stem}-{number}", [b"%d" % number])
    with Consumer[Any, Any](
        bootstrap_servers=address, group_id=stem, group_protocol="consumer", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{stem}-[0-9]+"))
        assert sorted(values(read(consumer, 2))) == [b"0", b"1"]


def test_a_user_who_polls_too_late_hears_of_it_and_joins_again(
    make_sync: Make, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    with make_sync(max_poll_interval_ms=700, enable_auto_commit=False) as consumer:
        lost: list[Any] = []
        consumer.subscribe(topic, on_lost=lost.append, on_revoked=lost.append)
        read(consumer, 10)
        with caplog.at_level(logging.ERROR):
            time.sleep(1.5)
        assert "max.poll.interval.ms" in caplog.text
        write(address, topic, [b"more"])
        assert values(read(consumer, 11))[-1] == b"more"  # nothing was committed: from the beginning
        assert lost == [partitions(topic)]


def test_the_protocol_is_chosen_when_nobody_says_which(address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(5))
    with Consumer[Any, Any](bootstrap_servers=address, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe(topic)
        assert values(read(consumer, 5)) == numbers(5)


def test_an_error_that_comes_while_a_poll_begins_is_raised_at_once_and_not_at_its_end(address: str) -> None:
    topic = make_topic(address)
    for number in range(8):
        with Consumer[Any, Any](
            bootstrap_servers=address,
            group_id=f"{topic}-{number}",
            group_protocol="classic",
            auto_offset_reset="none",
            enable_auto_commit=False,
        ) as consumer:
            consumer.subscribe(topic)
            started = time.monotonic()
            with pytest.raises(NoOffsetForPartition):
                consumer.poll(30)
            assert time.monotonic() - started < 20

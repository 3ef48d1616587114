"""A consumer without a group, in both its faces: places, policies, transactions, and what a user does in between."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.client import AsyncConsumer, Consumer
from ottla.client.consumer.fetcher import AHEAD
from ottla.client.errors import (
    ClientClosed,
    IllegalState,
    KafkaTimeout,
    NoOffsetForPartition,
    OffsetsOutOfRange,
    RecordDeserialization,
    Wakeup,
)
from ottla.errors import InvalidGroupId
from ottla.types import TopicPartition
from tests.clients.ours.consumers import FACES, PATIENCE_S, make_topic, numbers, partitions, read, values, write
from tests.support.clients import CODECS, eventually
from tests.support.nodes import NODE_IDS

Make = Callable[..., Any]


@pytest.fixture(params=list(FACES))
def make(request: pytest.FixtureRequest, address: str) -> Make:
    """Makes a consumer of the face at the broker; it reads from the beginning unless told otherwise."""

    def made(**settings: Any) -> Any:
        return FACES[request.param](bootstrap_servers=address, **{"auto_offset_reset": "earliest", **settings})

    return made


# Reading


@pytest.mark.parametrize("codec", CODECS)
def test_all_records_come_once_and_in_order_with_every_codec(make: Make, address: str, codec: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(3000), settings={"compression.type": codec, "batch.num.messages": 700})
    with make(max_poll_records=250) as consumer:
        consumer.assign(partitions(topic))
        records = read(consumer, 3000)
        assert consumer.poll(0) == []
    assert values(records) == numbers(3000)
    assert [record.offset for record in records] == list(range(3000))


def test_a_record_has_everything_that_was_written(make: Make, address: str) -> None:
    topic = make_topic(address)
    producer = Producer({"bootstrap.servers": address})
    now_ms = int(time.time() * 1000)
    producer.produce(topic, b"value", b"key", timestamp=now_ms, headers=[("a", b"1"), ("b", None), ("a", b"2")])
    producer.produce(topic, None, b"key2")
    producer.flush()
    with make() as consumer:
        consumer.assign(partitions(topic))
        first, tombstone = read(consumer, 2)
    assert first.topic_partition == TopicPartition(topic, 0)
    assert (first.offset, first.timestamp, first.timestamp_type.label) == (0, now_ms, "CreateTime")
    assert (first.key, first.value, first.leader_epoch) == (b"key", b"value", 0)
    assert first.headers == (("a", b"1"), ("b", None), ("a", b"2"))
    assert (first.serialized_key_size, first.serialized_value_size) == (3, 5)
    assert (tombstone.key, tombstone.value, tombstone.serialized_value_size) == (b"key2", None, -1)


def test_a_poll_gives_no_more_than_it_was_asked_for(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(1000))
    with make(max_poll_records=300) as consumer:
        consumer.assign(partitions(topic))
        assert len(consumer.poll(10)) == 300
        assert len(consumer.poll(10, max_records=7)) == 7
        assert consumer.position(TopicPartition(topic, 0)) == 307


def test_a_hundred_partitions_are_read_to_their_ends(make: Make, address: str) -> None:
    topic = make_topic(address, 100)
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(2000):
        producer.produce(topic, b"%d" % number, partition=number % 100)
    producer.flush()
    with make(fetch_max_bytes=20_000) as consumer:
        consumer.assign(partitions(topic, 100))
        records = read(consumer, 2000)
        assert sorted(int(value) for value in values(records)) == list(range(2000))
        for partition in range(100):
            own = [record.offset for record in records if record.partition == partition]
            assert own == list(range(20)), partition
            assert consumer.lag(TopicPartition(topic, partition)) == 0


def test_a_batch_larger_than_every_limit_is_read_whole(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, [b"x" * 500_000, b"y" * 500_000])
    with make(fetch_max_bytes=1000, max_partition_fetch_bytes=1000) as consumer:
        consumer.assign(partitions(topic))
        assert [len(record.value) for record in read(consumer, 2)] == [500_000, 500_000]


def test_records_that_are_written_while_a_poll_waits_end_the_wait(make: Make, address: str) -> None:
    topic = make_topic(address)
    with make() as consumer:
        consumer.assign(partitions(topic))
        assert consumer.poll(0.2) == []
        timer = threading.Timer(0.3, write, [address, topic, [b"late"]])
        begun = time.monotonic()
        timer.start()
        assert values(consumer.poll(15)) == [b"late"]
        assert time.monotonic() - begun < 10
        timer.join()


def test_a_topic_that_is_made_later_is_read_from_then_on(make: Make, address: str) -> None:
    with make(allow_auto_create_topics=False, metadata_max_age_ms=500) as consumer:
        topic = f"{make_topic(address)}-later"
        consumer.assign(partitions(topic))
        assert consumer.poll(0.3) == []
        write(address, topic, numbers(3))  # the broker creates it
        assert values(read(consumer, 3)) == numbers(3)


# Places


def test_seek_by_time_goes_to_the_first_record_that_is_not_older(make: Make, address: str) -> None:
    topic = make_topic(address, 3)
    begun_ms = int(time.time() * 1000) - 60_000
    for partition in range(2):
        write(address, topic, numbers(100), partition=partition, timestamp=begun_ms, step_ms=10)
    all_of_it = partitions(topic, 3)
    with make() as consumer:
        consumer.assign(all_of_it)
        found = consumer.offsets_for_times(dict.fromkeys(all_of_it, begun_ms + 205))
        assert [(place.offset, place.timestamp) for place in (found[one] for one in all_of_it[:2])] == [
            (21, begun_ms + 210),
            (21, begun_ms + 210),
        ]
        assert found[all_of_it[2]] is None
        consumer.seek_to_time(begun_ms + 205)
        records = read(consumer, 2 * 79)
        assert {(record.partition, record.offset) for record in records} == {
            (partition, offset) for partition in range(2) for offset in range(21, 100)
        }
        consumer.seek_to_time(begun_ms + 9_000)
        assert consumer.position(all_of_it[0]) == 100
        with pytest.raises(ValueError, match="cannot be negative"):
            consumer.offsets_for_times({all_of_it[0]: -1})


def test_seek_goes_anywhere_and_what_was_fetched_before_does_not_come(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(1000))
    [place] = partitions(topic)
    with make(max_poll_records=10) as consumer:
        consumer.assign([place])
        for offset in (500, 0, 990, 3, 3, 700):
            consumer.seek(place, offset)
            assert consumer.position(place) == offset
            assert values(consumer.poll(10)) == numbers(10, offset)
        consumer.seek_to_beginning()
        assert values(consumer.poll(10)) == numbers(10)
        consumer.seek_to_end([place])
        assert consumer.position(place) == 1000
        assert consumer.poll(0.1) == []
        with pytest.raises(ValueError, match="negative"):
            consumer.seek(place, -1)
        with pytest.raises(IllegalState, match="No current assignment for partition other-0"):
            consumer.seek(TopicPartition("other", 0), 1)


def test_the_ends_of_partitions_are_known_without_reading_them(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    write(address, topic, numbers(7), partition=1)
    both = partitions(topic, 2)
    with make(allow_auto_create_topics=False) as consumer:
        assert consumer.beginning_offsets(both) == dict.fromkeys(both, 0)
        assert consumer.end_offsets(both) == {both[0]: 0, both[1]: 7}
        assert consumer.assignment() == set()
        assert len(consumer.partitions_for(topic)) == 2
        assert {info.leader for info in consumer.partitions_for(topic)} <= set(NODE_IDS)
        assert len(consumer.list_topics()[topic]) == 2
        with pytest.raises(KafkaTimeout, match="no-such-topic"):
            consumer.end_offsets([TopicPartition("no-such-topic", 0)], timeout=0.5)


def test_a_topic_that_does_not_exist_has_no_partitions(make: Make) -> None:
    with make(allow_auto_create_topics=False) as consumer:
        assert consumer.partitions_for("no-such-topic-either") == []


def test_paused_partitions_keep_what_was_fetched_and_go_on_where_they_were(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    for partition in range(2):
        write(address, topic, numbers(50), partition=partition)
    both = partitions(topic, 2)
    with make(max_poll_records=5) as consumer:
        consumer.assign(both)
        seen = read(consumer, 10)
        consumer.pause([both[0]])
        assert consumer.paused() == {both[0]}
        rest_of_1 = 50 - sum(record.partition == 1 for record in seen)
        ones = read(consumer, rest_of_1)
        assert {record.partition for record in ones} == {1}
        assert consumer.poll(0.2) == []
        consumer.resume([both[0]])
        seen += ones + read(consumer, 100 - len(seen) - len(ones))
        for partition in range(2):
            assert [record.offset for record in seen if record.partition == partition] == list(range(50))


@pytest.mark.parametrize("timeout", [0, 2 * PATIENCE_S])
def test_pausing_a_partition_whose_fetches_wait_does_not_stop_the_others(
    make: Make, address: str, timeout: float
) -> None:
    """Two fetches of the busy one wait for the user, and the quiet one is not fetched without it. Once the busy one is
    paused nobody takes those two: what the quiet one gets from then on must come all the same."""
    topic = make_topic(address, 2)
    write(address, topic, numbers(1000), settings={"batch.num.messages": 100})
    busy, quiet = partitions(topic, 2)
    with make(max_partition_fetch_bytes=1000) as consumer:
        consumer.assign([busy, quiet])
        assert len(consumer.poll(PATIENCE_S, max_records=1)) == 1
        eventually(lambda: _is_at_rest(consumer, busy), "fetched ahead as far as may be, and all else done")
        consumer.pause([busy])
        write(address, topic, numbers(1), partition=1)
        eventually(lambda: bool(consumer.poll(timeout)), "the quiet partition's record")
        assert consumer.position(quiet) == 1


def _is_at_rest(consumer: Any, partition: TopicPartition) -> bool:
    """Whether the fetches of a partition wait for the user and nothing is on its way, such as a second look at the
    metadata, which would have the fetcher look again as well."""
    core = getattr(consumer, "consumer", consumer)._core
    age_ms = core.world.clock.monotonic_ms() - core.metadata.updated_ms
    is_full: bool = core.subscription.partitions[partition].buffered_count == AHEAD
    return is_full and age_ms > 3 * core.config.retry_backoff_ms


# Beginning without an offset


def test_without_a_policy_the_user_decides_where_to_begin(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(5))
    with make(auto_offset_reset="none") as consumer:
        consumer.assign(partitions(topic))
        with pytest.raises(NoOffsetForPartition) as raised:
            consumer.poll(10)
        assert raised.value.partitions == set(partitions(topic))
        consumer.seek(TopicPartition(topic, 0), 2)
        assert values(read(consumer, 3)) == numbers(3, 2)


def test_latest_reads_only_what_is_written_from_then_on(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(5))
    with make(auto_offset_reset="latest") as consumer:
        consumer.assign(partitions(topic))
        assert consumer.position(TopicPartition(topic, 0)) == 5
        write(address, topic, [b"new"])
        assert values(read(consumer, 1)) == [b"new"]


def test_a_duration_goes_back_so_far_and_to_the_end_when_nothing_is_so_young(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    now_ms = int(time.time() * 1000)
    write(address, topic, numbers(10), timestamp=now_ms - 10 * 3_600_000, step_ms=3_600_000)
    write(address, topic, numbers(4), partition=1, timestamp=now_ms - 10 * 3_600_000)
    with make(auto_offset_reset="by_duration:PT4H30M") as consumer:
        consumer.assign(partitions(topic, 2))
        assert values(read(consumer, 4)) == numbers(4, 6)
        assert consumer.position(TopicPartition(topic, 1)) == 4


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 0), ("latest", 20)])
def test_an_offset_out_of_range_is_reset_by_the_policy(make: Make, address: str, policy: str, expected: int) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(20))
    [place] = partitions(topic)
    with make(auto_offset_reset=policy) as consumer:
        consumer.assign([place])
        consumer.seek(place, 1000)
        deadline = time.monotonic() + 15
        while consumer.position(place) == 1000 and time.monotonic() < deadline:
            if records := consumer.poll(0.05):
                assert records[0].offset == expected
                return
        assert consumer.position(place) == expected


def test_an_offset_out_of_range_without_a_policy_is_told_with_its_place(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(20))
    [place] = partitions(topic)
    with make(auto_offset_reset="none") as consumer:
        consumer.assign([place])
        consumer.seek(place, 1000)
        with pytest.raises(OffsetsOutOfRange) as raised:
            consumer.poll(10)
        assert raised.value.offsets == {place: 1000}
        consumer.seek(place, 19)
        assert values(read(consumer, 1)) == numbers(1, 19)


@pytest.mark.parametrize("timeout", [0, 2 * PATIENCE_S])
def test_after_an_error_the_next_polls_fetch_again(make: Make, address: str, timeout: float) -> None:
    """Nothing is fetched until the user has heard of an error. What asks again then is the next poll, whether it waits
    or not: here it meets the error again, because nobody has sought."""
    topic = make_topic(address)
    [place] = partitions(topic)

    def is_told() -> bool:
        try:
            consumer.poll(timeout)
        except OffsetsOutOfRange:
            return True
        return False

    with make(auto_offset_reset="none") as consumer:
        consumer.assign([place])
        consumer.seek(place, 1000)
        for _ in range(3):
            eventually(is_told, "a poll that tells of the offset")
        consumer.seek(place, 0)
        write(address, topic, numbers(1))
        assert values(read(consumer, 1)) == numbers(1)


# Transactions


def aborted_and_committed(address: str, topic: str) -> list[bytes]:
    """Transactions of two producers, some aborted, with plain records between them; what is committed, in order."""
    committed = []
    for number in range(6):
        producer = Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{number % 2}"})
        producer.init_transactions(20)
        producer.begin_transaction()
        own = [b"%d-%d" % (number, index) for index in range(5)]
        for value in own:
            producer.produce(topic, value, partition=0)
        producer.flush()
        if number % 3 == 1:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
            committed += own
        plain = b"plain-%d" % number
        write(address, topic, [plain])
        committed.append(plain)
    return committed


def test_read_committed_leaves_out_what_was_aborted_and_nobody_sees_the_marks(make: Make, address: str) -> None:
    topic = make_topic(address)
    committed = aborted_and_committed(address, topic)
    [place] = partitions(topic)
    with make(isolation_level="read_committed") as consumer:
        consumer.assign([place])
        assert values(read(consumer, len(committed))) == committed
        end = consumer.end_offsets([place])[place]
        eventually(lambda: consumer.poll(0.05) == [] and consumer.position(place) == end, "the end is reached")
        assert consumer.lag(place) == 0
        # From the middle of an aborted transaction on, too.
        for offset in range(end):
            consumer.seek(place, offset)
            expected = [record for record in committed if record in values_from(address, topic, offset)]
            if expected:
                assert consumer.poll(10)[0].value == expected[0], offset
                break
    with make() as consumer:
        consumer.assign([place])
        everything = values(read(consumer, 36))
        assert [value for value in everything if value in committed] == committed
        assert len(everything) == 36


def values_from(address: str, topic: str, offset: int) -> list[bytes]:
    with Consumer[bytes, bytes](bootstrap_servers=address, isolation_level="read_committed") as consumer:
        consumer.assign(partitions(topic))
        consumer.seek(TopicPartition(topic, 0), offset)
        return values(consumer.poll(10))


def test_read_committed_waits_before_an_open_transaction(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, [b"before"])
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    write(address, topic, [b"behind"])
    with make(isolation_level="read_committed") as consumer:
        consumer.assign(partitions(topic))
        assert values(read(consumer, 1)) == [b"before"]
        assert consumer.poll(0.3) == []
        producer.commit_transaction(20)
        assert values(read(consumer, 2)) == [b"open", b"behind"]


# Iterating


def test_an_iteration_that_is_left_has_read_what_it_has_given(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    for partition in range(2):
        write(address, topic, numbers(40), partition=partition)
    with make() as consumer:
        consumer.assign(partitions(topic, 2))
        seen = []
        for record in consumer:
            seen.append(record)
            if len(seen) == 13:
                break
        for partition in range(2):
            own = [record.offset for record in seen if record.partition == partition]
            assert consumer.position(TopicPartition(topic, partition)) == len(own)
        seen += read(consumer, 5, max_records=5)
        for record in consumer:
            seen.append(record)
            if len(seen) == 80:
                break
        for partition in range(2):
            assert [record.offset for record in seen if record.partition == partition] == list(range(40))


def test_a_seek_within_an_iteration_is_where_it_goes_on(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(100))
    [place] = partitions(topic)
    with make() as consumer:
        consumer.assign([place])
        seen = []
        for record in consumer:
            seen.append(record.offset)
            if len(seen) == 3:
                consumer.seek(place, 90)
            if record.offset == 92:
                break
        assert seen == [0, 1, 2, 90, 91, 92]


def test_closing_ends_an_iteration(address: str) -> None:
    topic = make_topic(address)
    consumer = Consumer[bytes, bytes](bootstrap_servers=address)
    consumer.assign(partitions(topic))
    threading.Timer(0.3, consumer.close).start()
    assert list(consumer) == []
    with pytest.raises(ClientClosed):
        consumer.poll(0)
    consumer.close()


def test_an_async_iteration_can_be_cancelled_and_taken_up_again(address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(20))

    async def main() -> list[bytes]:
        seen: list[bytes] = []
        async with AsyncConsumer[bytes, bytes](bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
            await consumer.assign(partitions(topic))

            async def iterate() -> None:
                async for record in consumer:
                    seen.append(record.value)
                    await asyncio.sleep(0.01 if len(seen) < 10 else 0)
                    if len(seen) == 30:
                        return

            for _ in range(3):
                task = asyncio.create_task(iterate())
                await asyncio.sleep(0.06)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            write(address, topic, numbers(10, 20))
            await asyncio.wait_for(iterate(), 15)
        return seen

    assert asyncio.run(main()) == numbers(30)


# What a user does in between


def test_wakeup_from_another_thread_ends_a_long_poll_once(make: Make, address: str) -> None:
    topic = make_topic(address)
    with make() as consumer:
        consumer.assign(partitions(topic))
        timer = threading.Timer(0.2, consumer.wakeup)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(Wakeup):
            consumer.poll(30)
        assert time.monotonic() - begun < 10
        timer.join()
        write(address, topic, [b"after"])
        assert values(read(consumer, 1)) == [b"after"]
        consumer.wakeup()
        time.sleep(0.05)
        with pytest.raises(Wakeup):
            consumer.poll(0)
        assert consumer.poll(0) == []


def test_wakeup_ends_other_calls_that_wait(make: Make) -> None:
    with make(allow_auto_create_topics=False) as consumer:
        threading.Timer(0.2, consumer.wakeup).start()
        with pytest.raises(Wakeup):
            consumer.end_offsets([TopicPartition("never-there", 3)], timeout=30)
        assert consumer.list_topics() is not None


def test_without_a_group_nothing_is_committed_or_subscribed_to(make: Make, address: str) -> None:
    topic = make_topic(address)
    with make() as consumer:
        refused: list[Callable[[], Any]] = [
            lambda: consumer.subscribe([topic]),
            lambda: consumer.committed(partitions(topic)),
            consumer.commit,
            consumer.commit_async,
            consumer.group_metadata,
        ]
        for call in refused:
            with pytest.raises(InvalidGroupId, match=r"group\.id"):
                call()


def test_positions_can_be_committed_without_being_a_member(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    [place] = partitions(topic)
    with make(group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([place])
        read(consumer, 4, max_records=4)
        consumer.commit()
        assert consumer.committed([place])[place].offset == 4
    with make(group_id=topic) as consumer:  # and this one commits by itself when it is closed
        consumer.assign([place])
        assert values(read(consumer, 3, max_records=3)) == numbers(3, 4)
    with make(group_id=topic) as consumer:
        consumer.assign([place])
        assert consumer.position(place) == 7
        with pytest.raises(IllegalState, match="mutually exclusive"):
            consumer.subscribe([topic])


def test_a_record_that_cannot_be_read_is_told_behind_those_before_it_and_can_be_passed(
    make: Make, address: str
) -> None:
    topic = make_topic(address)
    write(address, topic, [b'{"n": 1}', b'{"n": 2}', b"broken", None, b'{"n": 5}'])
    [place] = partitions(topic)
    with make(value_deserializer=json.loads) as consumer:
        consumer.assign([place])
        assert values(read(consumer, 2)) == [{"n": 1}, {"n": 2}]
        for _ in range(2):
            with pytest.raises(RecordDeserialization) as raised:
                consumer.poll(10)
            assert (raised.value.topic_partition, raised.value.offset) == (place, 2)
            assert consumer.position(place) == 2
        consumer.seek(place, raised.value.offset + 1)
        assert values(read(consumer, 2)) == [None, {"n": 5}]


def test_interceptors_see_records_first_and_may_leave_some_out(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))

    class OnlyEven:
        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records if int(record.value) % 2 == 0]

    class Fails:
        def on_consume(self, records: list[Any]) -> list[Any]:
            raise ValueError("not my day")

    with make(interceptor_classes=[OnlyEven(), Fails()], max_poll_records=1) as consumer:
        consumer.assign(partitions(topic))
        assert values(read(consumer, 5)) == numbers(10)[::2]
        eventually(lambda: consumer.poll(0) == [] and consumer.position(TopicPartition(topic, 0)) == 10, "the end")


def test_a_consumer_is_for_one_task_at_a_time(address: str) -> None:
    async def main() -> None:
        async with AsyncConsumer[bytes, bytes](bootstrap_servers=address) as consumer:
            await consumer.assign(partitions(make_topic(address)))
            polling = asyncio.create_task(consumer.poll(0.5))
            await asyncio.sleep(0.05)
            with pytest.raises(IllegalState, match="one task at a time"):
                await consumer.poll(0)
            assert await polling == []

    asyncio.run(main())


def test_metrics_count_what_was_read_and_how_far_the_end_is(make: Make, address: str) -> None:
    topic = make_topic(address, 2)
    write(address, topic, numbers(300))
    with make() as consumer:
        consumer.assign(partitions(topic, 2))
        read(consumer, 300)
        found = consumer.metrics()
        assert found.value("records-consumed-total") == 300
        assert found.value("records-consumed-total", tags={"topic": topic}) == 300
        assert found.value("bytes-consumed-total") > 300
        assert found.value("fetch-total") >= 1
        tags = {"topic": topic, "partition": "0"}
        assert found.value("records-lag", tags=tags) == 0
        assert found.value("records-lead", tags=tags) == 300
        assert found.value("last-poll-seconds-ago") == 0
        consumer.unsubscribe()
        assert not any(name.tag("partition") for name in consumer.metrics())

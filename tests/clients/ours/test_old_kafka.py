"""Our clients against Kafkas as old as 2.1: what those can do works, what they cannot do is one clear line.

Runs with OTTLA_SOAK=1, because four brokers in turn, two of them with a ZooKeeper, take minutes.
What we write is also read by a stock client where bytes matter.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client import (
    Admin,
    AlterConfigOp,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    ConfigResource,
    Consumer,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    Producer,
)
from ottla.client.admin import ElectionType, GroupState, GroupType
from ottla.errors import TopicAlreadyExists, UnsupportedVersion
from ottla.types import TopicPartition
from tests.clients.ours.consumers import numbers, partitions, read, values
from tests.clients.ours.reading import read_all
from tests.clients.ours.reading import values as read_by_stock_client
from tests.support.clients import CODECS, PATIENCE_S, eventually, new_topic
from tests.support.old_kafka import OLD_KAFKAS, OldKafka

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="four old Kafkas take minutes: OTTLA_SOAK=1 runs them"),
]

CLEAR_WITHIN_S = 5.0
RESTART_RECORDS = 4000


@pytest.fixture(scope="module", params=OLD_KAFKAS, ids=lambda release: release.version)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldKafka]:
    """Each in turn, once for all tests here."""
    with OldKafka(request.param, tmp_path_factory.mktemp("old-kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def admin(kafka: OldKafka) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.address) as made:
        yield made


def created(admin: Admin, partition_count: int = 1, **configs: str) -> str:
    """A new topic that has leaders."""
    name = new_topic("old")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, partition_count, 1, configs=settings)]).all()

    def is_led() -> bool:
        described = admin.describe_topics([name])
        return not described.errors and all(one.leader for one in described.all()[name].partitions)

    eventually(is_led, f"{name} has leaders")
    return name


def write(kafka: OldKafka, topic: str, count: int, *, partition: int = 0, start: int = 0) -> None:
    with Producer(bootstrap_servers=kafka.address) as producer:
        for value in numbers(count, start):
            producer.send(topic, value, partition=partition)


def reader(kafka: OldKafka, **settings: object) -> Consumer[Any, Any]:
    return Consumer(bootstrap_servers=kafka.address, **{"auto_offset_reset": "earliest", **settings})


# Topics


def test_a_topic_is_created_described_given_more_partitions_and_deleted(admin: Admin) -> None:
    name = created(admin, 2, retention_ms="60000")
    assert name in admin.list_topics()
    with pytest.raises(TopicAlreadyExists):
        admin.create_topics([NewTopic(name, 1, 1)]).all()
    admin.create_partitions({name: NewPartitions(3)}).all()
    eventually(lambda: len(admin.describe_topics([name]).all()[name].partitions) == 3, "the third partition is there")
    (node,) = admin.describe_cluster().nodes
    assert [one.leader for one in admin.describe_topics([name]).all()[name].partitions] == [node] * 3
    admin.delete_topics([name]).all()
    eventually(lambda: name not in admin.list_topics(), "the topic is gone")


# Producing and reading


@pytest.mark.parametrize("codec", CODECS)
def test_what_an_idempotent_producer_writes_is_read_with_every_codec(kafka: OldKafka, admin: Admin, codec: str) -> None:
    topic = created(admin)
    with Producer(bootstrap_servers=kafka.address, compression_type=codec) as producer:
        sent = [producer.send(topic, value, key=b"k", headers=[("h", b"1")]) for value in numbers(1000)]
        producer.flush(PATIENCE_S)
    assert [one.result(0).offset for one in sent] == list(range(1000))
    stock = read_all(kafka.address, topic)
    with reader(kafka) as consumer:
        consumer.assign(partitions(topic))
        ours = read(consumer, 1000)
    assert values(ours) == [one.value for one in stock] == numbers(1000)
    assert {(one.key, one.headers) for one in ours} == {(b"k", (("h", b"1"),))}
    assert [one.timestamp for one in ours] == [one.timestamp for one in stock]


def test_big_batches_and_records_are_carried(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    wanted = [b"%06d" % number * 1600 for number in range(400)]  # 9.6 kB each: some hundred in a batch
    with Producer(bootstrap_servers=kafka.address, batch_size=900_000, linger_ms=50) as producer:
        for value in wanted:
            producer.send(topic, value)
        producer.send(topic, b"x" * 900_000)
    assert read_by_stock_client(kafka.address, topic) == [*wanted, b"x" * 900_000]
    with reader(kafka, max_partition_fetch_bytes=1000) as consumer:  # less than any batch here
        consumer.assign(partitions(topic))
        assert values(read(consumer, 401)) == [*wanted, b"x" * 900_000]


@pytest.mark.parametrize("acks", ["0", "1"])
def test_a_producer_without_idempotence_writes_too(kafka: OldKafka, admin: Admin, acks: str) -> None:
    topic = created(admin)
    with Producer(bootstrap_servers=kafka.address, acks=acks, enable_idempotence=False) as producer:
        for value in numbers(100):
            producer.send(topic, value)
    with reader(kafka) as consumer:
        consumer.assign(partitions(topic))
        assert values(read(consumer, 100)) == numbers(100)


def test_the_async_faces_do_the_same(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)

    async def story() -> list[Any]:
        async with AsyncProducer(bootstrap_servers=kafka.address) as producer:
            for value in numbers(10):
                await producer.send(topic, value)
        consumer: AsyncConsumer[Any, Any] = AsyncConsumer(
            bootstrap_servers=kafka.address, group_id=topic, auto_offset_reset="earliest"
        )
        async with consumer:
            await consumer.subscribe([topic])
            found: list[Any] = []
            while len(found) < 10:
                found += await consumer.poll(PATIENCE_S)
            return found

    assert values(asyncio.run(asyncio.wait_for(story(), 60))) == numbers(10)


def test_a_place_is_found_by_time_and_by_its_end(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    (partition,) = partitions(topic)
    begun_ms = int(time.time() * 1000) - 60_000
    with Producer(bootstrap_servers=kafka.address) as producer:
        for number, value in enumerate(numbers(100)):
            producer.send(topic, value, timestamp_ms=begun_ms + 10 * number)
    with reader(kafka) as consumer:
        consumer.assign([partition])
        consumer.seek_to_time(begun_ms + 205)
        assert values(read(consumer, 79)) == numbers(79, 21)
        consumer.seek_to_time(begun_ms + 100_000)
        assert consumer.position(partition) == 100
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 100}
    found = admin.list_offsets({partition: OffsetSpec.for_timestamp(begun_ms + 205)}).all()[partition]
    assert (found.offset, found.timestamp) == (21, begun_ms + 210)


# Groups


@pytest.mark.parametrize("protocol", ["classic", "auto"])
def test_a_group_shares_partitions_and_goes_on_where_it_has_committed(
    kafka: OldKafka, admin: Admin, protocol: str
) -> None:
    """None of these brokers has the new protocol turned on, so `auto` means the classic one."""
    topic = created(admin, 4)
    for partition in range(4):
        write(kafka, topic, 50, partition=partition)
    settings = {"group_id": topic, "group_protocol": protocol, "enable_auto_commit": False}
    with reader(kafka, **settings) as first, reader(kafka, **settings) as second:
        both = (first, second)
        found: list[Any] = []
        for consumer in both:
            consumer.subscribe([topic])

        def is_shared() -> bool:
            for consumer in both:
                found.extend(consumer.poll(0.1))
            return [len(consumer.assignment()) for consumer in both] == [2, 2]

        eventually(is_shared, "each has two partitions")

        def is_read() -> bool:
            # Nothing was committed, so what moved to the other member is read again.
            shared = is_shared()
            return shared and all(one.position(place) == 50 for one in both for place in one.assignment())

        eventually(is_read, "both have read what is theirs")
        assert {(one.partition, one.offset) for one in found} == {(part, at) for part in range(4) for at in range(50)}
        for consumer in both:
            consumer.commit()
        described = admin.describe_consumer_groups([topic]).all()[topic]
        assert (described.state, described.type) == (GroupState.STABLE, GroupType.CLASSIC)
        assert sorted(len(member.assignment) for member in described.members) == [2, 2]
    write(kafka, topic, 5, start=50)
    with reader(kafka, **settings) as later:
        assert later.committed(partitions(topic, 4)) == dict.fromkeys(
            partitions(topic, 4),
            OffsetAndMetadata(50, leader_epoch=0),
        )
        later.subscribe([topic])
        assert values(read(later, 5)) == numbers(5, 50)


def test_positions_are_committed_from_time_to_time_and_at_the_end(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    write(kafka, topic, 10)
    with reader(kafka, group_id=topic) as consumer:
        consumer.subscribe([topic])
        assert values(read(consumer, 10)) == numbers(10)
    offsets = admin.list_consumer_group_offsets([topic]).all()[topic]
    assert offsets[TopicPartition(topic, 0)].offset == 10  # type: ignore[union-attr]  # None would fail too


def test_groups_are_listed_moved_and_deleted(kafka: OldKafka, admin: Admin) -> None:
    topic, group = created(admin), new_topic("group")
    partition = TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets(group, {partition: OffsetAndMetadata(5, "up to here")}).all()
    assert group in {one.group_id for one in admin.list_groups()}
    assert group in {one.group_id for one in admin.list_consumer_groups()}
    assert admin.describe_consumer_groups([group]).all()[group].state is GroupState.EMPTY
    assert admin.list_consumer_group_offsets([group]).all()[group] == {partition: OffsetAndMetadata(5, "up to here")}
    assert admin.list_consumer_group_offsets({group: [partition]}).all()[group] == {
        partition: OffsetAndMetadata(5, "up to here")
    }
    admin.delete_consumer_groups([group]).all()
    assert group not in {one.group_id for one in admin.list_groups()}


# Transactions


def test_transactions_are_committed_and_aborted(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin, 2)
    expected = []
    with Producer(bootstrap_servers=kafka.address, transactional_id=topic) as producer:
        producer.init_transactions(PATIENCE_S)
        for number in range(9):
            producer.begin_transaction()
            for part in range(3):
                producer.send(topic, b"%d %d" % (number, part), partition=part % 2)
            if number % 3 == 2:
                producer.flush(PATIENCE_S)  # so that there is something to hide
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
                expected += [b"%d %d" % (number, part) for part in range(3)]
    assert sorted(filter(None, read_by_stock_client(kafka.address, topic))) == expected
    with reader(kafka, isolation_level="read_committed") as consumer:
        consumer.assign(partitions(topic, 2))
        assert sorted(values(read(consumer, 18))) == expected
        assert consumer.poll(0.3) == []
    assert len(read_by_stock_client(kafka.address, topic, isolation="read_uncommitted")) == 27


def test_offsets_go_with_the_transaction(kafka: OldKafka, admin: Admin) -> None:
    """With the identity of the member where the broker can check it (2.5, KIP-447), else with the group's name."""
    source, target = created(admin), created(admin)
    group = new_topic("group")
    partition = TopicPartition(source, 0)
    write(kafka, source, 10)
    with (
        Producer(bootstrap_servers=kafka.address, transactional_id=group) as producer,
        reader(kafka, group_id=group, enable_auto_commit=False) as consumer,
    ):
        producer.init_transactions(PATIENCE_S)
        consumer.subscribe([source])
        records = read(consumer, 10)
        who = consumer.group_metadata() if kafka.release.number >= (2, 5) else group
        producer.begin_transaction()
        producer.send_offsets_to_transaction({partition: 4}, who)
        producer.abort_transaction(PATIENCE_S)
        assert consumer.committed([partition])[partition] is None
        with producer.transaction():
            for record in records:
                producer.send(target, record.value)
            producer.send_offsets_to_transaction({partition: 10}, who)

        def is_committed() -> bool:
            # Before 2.5 a broker does not wait for the marker, which comes a moment after the answer to EndTxn.
            committed = consumer.committed([partition])[partition]
            return committed is not None and committed.offset == 10

        eventually(is_committed, "the offset is committed")
    assert read_by_stock_client(kafka.address, target) == numbers(10)


# Settings and records


def test_settings_are_described(kafka: OldKafka, admin: Admin) -> None:
    topic = ConfigResource.topic(created(admin, retention_ms="60000"))
    broker = ConfigResource.broker(1)
    told = admin.describe_configs([topic, broker], include_synonyms=True, include_documentation=True).all()
    assert told[topic]["retention.ms"].value == "60000"
    assert not told[topic]["retention.ms"].is_default
    assert told[topic]["segment.bytes"].is_default
    assert told[broker]["offsets.topic.num.partitions"].value == "5"


def test_settings_are_changed_one_by_one_since_2_3(kafka: OldKafka, admin: Admin) -> None:
    resource = ConfigResource.topic(created(admin, retention_ms="60000"))
    changes = {resource: [AlterConfigOp.set("segment.ms", "7000"), AlterConfigOp.delete("retention.ms")]}
    if kafka.release.number < (2, 3):
        with pytest.raises(UnsupportedVersion, match="IncrementalAlterConfigs"):
            admin.incremental_alter_configs(changes).all()
        return
    admin.incremental_alter_configs(changes).all()

    def is_changed() -> bool:
        told = admin.describe_configs([resource]).all()[resource]
        return (told["segment.ms"].value, told["retention.ms"].value) == ("7000", "604800000")

    eventually(is_changed, "both are changed")


def test_records_are_deleted_up_to_an_offset(kafka: OldKafka, admin: Admin) -> None:
    (partition,) = partitions(created(admin))
    write(kafka, partition.topic, 10)
    assert admin.delete_records({partition: 4}).all() == {partition: 4}
    with reader(kafka) as consumer:
        consumer.assign([partition])
        assert values(read(consumer, 6)) == numbers(6, 4)


# What came later

Call = Callable[[Admin, TopicPartition], object]
NEVER_HERE = (4, 1)

CAME_WITH: dict[str, tuple[tuple[int, int], Call]] = {
    "elect_leaders": ((2, 2), lambda admin, one: admin.elect_leaders(ElectionType.PREFERRED, [one]).errors[one]),
    "list_partition_reassignments": ((2, 4), lambda admin, one: admin.list_partition_reassignments()),
    "delete_consumer_group_offsets": (
        (2, 4),
        lambda admin, one: [
            admin.alter_consumer_group_offsets(one.topic, {one: 1}).all(),
            admin.delete_consumer_group_offsets(one.topic, [one]).all(),
        ],
    ),
    "describe_client_quotas": ((2, 6), lambda admin, one: admin.describe_client_quotas()),
    "list_groups of a state": ((2, 6), lambda admin, one: admin.list_groups(states=[GroupState.STABLE])),
    "describe_producers": ((2, 8), lambda admin, one: admin.describe_producers([one]).all()),
    "list_transactions": ((3, 0), lambda admin, one: admin.list_transactions()),
    "list_offsets of the newest record": (
        (3, 0),
        lambda admin, one: admin.list_offsets({one: OffsetSpec.max_timestamp()}).all(),
    ),
    "describe_topics by id": (
        (3, 1),
        lambda admin, one: admin.describe_topics([admin.list_topics()[one.topic].topic_id]).all(),
    ),
    "describe_metadata_quorum": ((3, 3), lambda admin, one: admin.describe_metadata_quorum()),
    "list_client_metrics_resources": ((3, 7), lambda admin, one: admin.list_client_metrics_resources()),
    "list_groups of a type": ((3, 8), lambda admin, one: admin.list_groups(types=[GroupType.CLASSIC])),
    "list_config_resources": (NEVER_HERE, lambda admin, one: admin.list_config_resources()),
    "describe_share_groups": (NEVER_HERE, lambda admin, one: admin.describe_share_groups(["g"]).all()),
}


@pytest.mark.parametrize("call", CAME_WITH)
def test_an_admin_says_at_once_what_the_broker_is_too_old_for(kafka: OldKafka, admin: Admin, call: str) -> None:
    since, work = CAME_WITH[call]
    partition = TopicPartition(created(admin), 0)
    if kafka.release.number >= since:
        assert not isinstance(work(admin, partition), UnsupportedVersion)
        return
    begun = time.monotonic()
    try:
        told = work(admin, partition)
    except UnsupportedVersion as error:
        told = error
    assert isinstance(told, UnsupportedVersion), told
    assert_clear(told, begun)


def assert_clear(error: UnsupportedVersion, begun: float) -> None:
    """One line, soon."""
    assert time.monotonic() - begun < CLEAR_WITHIN_S
    assert len(str(error).splitlines()) == 1
    assert str(error)


def test_asking_for_the_consumer_protocol_is_one_clear_error(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    with reader(kafka, group_id=topic, group_protocol="consumer") as consumer:
        consumer.subscribe([topic])
        begun = time.monotonic()
        with pytest.raises(UnsupportedVersion, match=r"does not support .*protocol") as caught:
            consumer.poll(PATIENCE_S)
        assert_clear(caught.value, begun)


def test_a_static_member_is_refused_before_2_3(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    write(kafka, topic, 3)
    with reader(kafka, group_id=topic, group_instance_id="me", group_protocol="classic") as consumer:
        consumer.subscribe([topic])
        begun = time.monotonic()
        if kafka.release.number >= (2, 3):
            assert values(read(consumer, 3)) == numbers(3)
            return
        with pytest.raises(UnsupportedVersion, match=r"group\.instance\.id") as caught:
            consumer.poll(PATIENCE_S)
        assert_clear(caught.value, begun)


def test_the_identity_of_a_member_goes_with_a_transaction_since_2_5(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)
    write(kafka, topic, 3)
    partition = TopicPartition(topic, 0)
    with (
        Producer(bootstrap_servers=kafka.address, transactional_id=topic) as producer,
        reader(kafka, group_id=topic, enable_auto_commit=False) as consumer,
    ):
        consumer.subscribe([topic])
        read(consumer, 3)
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        begun = time.monotonic()
        if kafka.release.number >= (2, 5):
            producer.send_offsets_to_transaction({partition: 3}, consumer.group_metadata())
            producer.commit_transaction(PATIENCE_S)
            return
        with pytest.raises(UnsupportedVersion) as caught:
            producer.send_offsets_to_transaction({partition: 3}, consumer.group_metadata())
        assert_clear(caught.value, begun)


def test_a_share_consumer_is_told_that_there_are_no_share_groups(kafka: OldKafka, admin: Admin) -> None:
    topic = created(admin)

    async def story() -> None:
        consumer: AsyncShareConsumer[Any, Any] = AsyncShareConsumer(bootstrap_servers=kafka.address, group_id=topic)
        async with consumer:
            await consumer.subscribe(topic)
            begun = time.monotonic()
            with pytest.raises(UnsupportedVersion) as caught:
                await consumer.poll(PATIENCE_S)
            assert_clear(caught.value, begun)

    asyncio.run(asyncio.wait_for(story(), 60))


# A restart: the last, because everything before it has used the broker that ends here


def test_a_restart_in_the_middle_loses_and_repeats_nothing(kafka: OldKafka, admin: Admin) -> None:
    """Of records that are written and read meanwhile, and of a transaction that is open across it."""
    topic, other = created(admin), created(admin)
    is_half_way = threading.Event()

    def produce() -> None:
        with Producer(bootstrap_servers=kafka.address, linger_ms=5) as producer:
            for number, value in enumerate(numbers(RESTART_RECORDS)):
                producer.send(topic, value)
                if number == RESTART_RECORDS // 4:
                    producer.flush(PATIENCE_S)
                    is_half_way.set()
                time.sleep(0.001)

    writing = threading.Thread(target=produce, daemon=True)
    found: list[Any] = []
    with (
        reader(kafka, group_id=topic, auto_commit_interval_ms=200) as consumer,
        Producer(bootstrap_servers=kafka.address, transactional_id=other) as transactional,
    ):
        transactional.init_transactions(PATIENCE_S)
        transactional.begin_transaction()
        transactional.send(other, b"before").result(PATIENCE_S)
        consumer.subscribe([topic])
        writing.start()
        assert is_half_way.wait(PATIENCE_S)
        found += read(consumer, RESTART_RECORDS // 8)
        kafka.restart()
        transactional.send(other, b"after")
        transactional.commit_transaction(PATIENCE_S)
        deadline = time.monotonic() + 3 * PATIENCE_S
        while len(found) < RESTART_RECORDS:
            assert time.monotonic() < deadline, f"{len(found)} records came"
            found += consumer.poll(1)
        writing.join(PATIENCE_S)
    assert values(found) == numbers(RESTART_RECORDS)
    assert read_by_stock_client(kafka.address, topic) == numbers(RESTART_RECORDS)
    assert read_by_stock_client(kafka.address, other) == [b"before", b"after"]
    assert topic in admin.list_topics()  # the connection it had is gone, and it does not show

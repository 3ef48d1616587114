"""confluent-kafka (librdkafka) in groups, with the classic protocol and with the consumer protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it has no __all__

from tests.support.clients import PATIENCE_S, new_topic
from tests.support.nodes import REPLICAS

QUIET: dict[str, Any] = {"error_cb": lambda _: None, "log_level": 2}

EAGER = {"group.protocol": "classic", "partition.assignment.strategy": "range"}
ROUND_ROBIN = {"group.protocol": "classic", "partition.assignment.strategy": "roundrobin"}
COOPERATIVE = {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
CONSUMER_RANGE = {"group.protocol": "consumer", "group.remote.assignor": "range"}

every_protocol = pytest.mark.parametrize(
    "protocol",
    [EAGER, ROUND_ROBIN, COOPERATIVE, CONSUMER, CONSUMER_RANGE],
    ids=["range", "roundrobin", "cooperative", "consumer", "consumer-range"],
)
both_protocols = pytest.mark.parametrize("protocol", [EAGER, CONSUMER], ids=["classic", "consumer"])


class Member:
    """A consumer of a group, and what the group has told it."""

    def __init__(self, address: str, group: str, topics: list[str], **settings: Any) -> None:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        is_classic = config.get("group.protocol") == "classic"
        if is_classic:
            config = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, **config}
        self.assigned: set[tuple[str, int]] = set()
        self.rebalances = 0
        self.lost = 0
        self.records: list[Message] = []
        self._is_cooperative = not is_classic or config.get("partition.assignment.strategy") == "cooperative-sticky"
        self.consumer = Consumer({
            "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 500, "fetch.wait.max.ms": 50,
            **QUIET, **config,
        })  # fmt: skip
        self.consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        self.assigned |= {(one.topic, one.partition) for one in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned -= {(one.topic, one.partition) for one in partitions}

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += 1
        self.assigned -= {(one.topic, one.partition) for one in partitions}

    def poll(self) -> None:
        record = self.consumer.poll(0.02)
        if record is not None:
            error = record.error()
            assert error is None or error.retriable() or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
            if error is None:
                self.records.append(record)

    @property
    def values(self) -> list[bytes]:
        return [value for record in self.records if (value := record.value()) is not None]

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture
def members() -> Iterator[Callable[..., Member]]:
    """Make members that are closed at the end."""
    made: list[Member] = []

    def make(*arguments: Any, **settings: Any) -> Member:
        made.append(Member(*arguments, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, **QUIET})


def create(admin: AdminClient, stem: str, partitions: int = 6) -> str:
    topic = new_topic(stem)
    admin.create_topics([NewTopic(topic, partitions, REPLICAS)])[topic].result(PATIENCE_S)
    return topic


def send(address: str, topic: str, values: list[bytes], *, partitions: int = 6) -> None:
    producer = Producer({"bootstrap.servers": address, **QUIET})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


def poll_until(members: list[Member], claim: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"{what}: {[sorted(one.assigned) for one in members]}"
        for one in members:
            one.poll()


def poll_for(members: list[Member], duration_s: float) -> None:
    end = time.monotonic() + duration_s
    while time.monotonic() < end:
        for one in members:
            one.poll()


def are_shared(members: list[Member], topic: str, partitions: int = 6) -> bool:
    """Whether each partition belongs to one member, and no member has more than its share."""
    counts = [len(one.assigned) for one in members]
    owned = set().union(*(one.assigned for one in members))
    return (
        owned == {(topic, index) for index in range(partitions)}
        and sum(counts) == partitions
        and max(counts) - min(counts) <= 1
    )


@every_protocol
def test_members_share_the_partitions_and_take_over_from_one_who_leaves(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "shared")
    group = new_topic("group")
    first = members(address, group, [topic], **protocol)
    poll_until([first], lambda: are_shared([first], topic), "one member has all")
    second, third = (members(address, group, [topic], **protocol) for _ in range(2))
    everyone = [first, second, third]
    poll_until(everyone, lambda: are_shared(everyone, topic), "three members share")
    values = [b"%d" % number for number in range(60)]
    send(address, topic, values)
    poll_until(everyone, lambda: sum(len(one.records) for one in everyone) >= 60, "all records come")
    assert sorted(value for one in everyone for value in one.values) == sorted(values)
    assert all(one.records for one in everyone)
    second.close()
    rest = [first, third]
    poll_until(rest, lambda: are_shared(rest, topic), "the two that stay share")
    assert first.lost == third.lost == 0


@both_protocols
def test_a_group_goes_on_where_it_has_committed(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "committed", 1)
    group = new_topic("group")
    send(address, topic, [b"%d" % number for number in range(20)], partitions=1)
    first = members(address, group, [topic], **protocol)
    poll_until([first], lambda: len(first.records) >= 8, "records come")
    eighth = first.records[7]
    committed = first.consumer.commit(message=eighth, asynchronous=False)
    assert committed is not None
    assert [(one.partition, one.offset, one.error) for one in committed] == [(0, 8, None)]
    assert [one.offset for one in first.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)] == [8]
    first.close()
    second = members(address, group, [topic], **protocol)
    poll_until([second], lambda: len(second.records) >= 12, "the rest comes")
    assert second.values == [b"%d" % number for number in range(8, 20)]
    done: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    assert [one.offset for one in second.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)] == [8]
    second.consumer.commit(offsets=[TopicPartition(topic, 0, 15, metadata="half way")], asynchronous=True)
    poll_until([second], lambda: second.consumer.committed([TopicPartition(topic, 0)], 5)[0].offset == 15, "committed")
    found = second.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0]
    assert (found.offset, found.metadata) == (15, "half way")
    assert done == []


@both_protocols
def test_a_group_without_commits_begins_where_its_reset_says(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "reset", 1)
    send(address, topic, [b"before"], partitions=1)
    latest = members(address, new_topic("group"), [topic], auto_offset_reset="latest", **protocol)
    earliest = members(address, new_topic("group"), [topic], auto_offset_reset="earliest", **protocol)
    both = [latest, earliest]
    poll_until(both, lambda: bool(earliest.records) and bool(latest.assigned), "both are there")
    poll_for(both, 0.7)
    assert latest.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == OFFSET_INVALID
    send(address, topic, [b"after"], partitions=1)
    poll_until(both, lambda: bool(latest.records) and len(earliest.records) == 2, "the new record comes")
    assert latest.values == [b"after"]
    assert earliest.values == [b"before", b"after"]


@both_protocols
def test_a_static_member_comes_back_without_a_rebalance(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "static")
    group = new_topic("group")
    settings = {**protocol, "group.instance.id": "left"}
    first = members(address, group, [topic], **settings)
    other = members(address, group, [topic], **{**protocol, "group.instance.id": "right"})
    poll_until([first, other], lambda: are_shared([first, other], topic), "both share")
    had, rebalances = set(first.assigned), other.rebalances
    first.close()
    poll_for([other], 0.6)
    again = members(address, group, [topic], **settings)
    poll_until([again, other], lambda: again.assigned == had, "the member has back what it had")
    assert other.rebalances == rebalances
    assert are_shared([again, other], topic)


def test_a_twin_of_a_static_member_fences_the_first(
    address: str, admin: AdminClient, members: Callable[..., Member]
) -> None:
    topic = create(admin, "twins")
    group = new_topic("group")
    settings = {**EAGER, "group.instance.id": "one"}
    first = members(address, group, [topic], **settings)
    poll_until([first], lambda: are_shared([first], topic), "the first has all")
    twin = members(address, group, [topic], **settings)
    poll_until([twin], lambda: are_shared([twin], topic), "the twin has all")
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline, "the first is not told"
        record = first.consumer.poll(0.1)
        error = None if record is None else record.error()
        if error is not None and error.code() == KafkaError._FATAL:
            break
    with pytest.raises(KafkaException) as refused:
        first.consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert refused.value.args[0].code() in (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL)


@both_protocols
def test_a_pattern_takes_topics_that_come_later(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    stem = new_topic("pattern")
    first = create(admin, f"{stem}-a", 2)
    create(admin, f"other-{stem}", 2)
    member = members(address, new_topic("group"), [f"^{stem}-.*"], **protocol)
    poll_until([member], lambda: member.assigned == {(first, 0), (first, 1)}, "the first topic")
    second = create(admin, f"{stem}-b", 1)
    wanted = {(first, 0), (first, 1), (second, 0)}
    poll_until([member], lambda: member.assigned == wanted, "the second topic")


@both_protocols
def test_a_member_that_dies_is_taken_out_when_its_session_ends(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "dying")
    group = new_topic("group")
    settings: dict[str, Any] = dict(protocol)
    if protocol is EAGER:
        settings |= {"session.timeout.ms": 1000, "max.poll.interval.ms": 2000}
    else:
        settings |= {"max.poll.interval.ms": 2000}
    stays = members(address, group, [topic], **settings)
    dies = members(address, group, [topic], **settings)
    poll_until([stays, dies], lambda: are_shared([stays, dies], topic), "both share")
    # It polls no more, so librdkafka leaves the group for it.
    poll_until([stays], lambda: are_shared([stays], topic), "the one that stays has all")


@both_protocols
def test_the_admin_lists_describes_resets_and_deletes_groups(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    topic = create(admin, "administered", 2)
    group = new_topic("group")
    send(address, topic, [b"%d" % number for number in range(10)], partitions=2)
    member = members(address, group, [topic], client_id="the-member", **protocol)
    poll_until([member], lambda: len(member.records) == 10, "records come")
    member.consumer.commit(asynchronous=False)
    found = next(one for one in admin.list_consumer_groups().result(PATIENCE_S).valid if one.group_id == group)
    assert found.state == ConsumerGroupState.STABLE
    assert found.type == (ConsumerGroupType.CLASSIC if protocol is EAGER else ConsumerGroupType.CONSUMER)
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == ("range" if protocol is EAGER else "uniform")
    assert [(one.client_id, one.host) for one in described.members] == [("the-member", "/127.0.0.1")]
    assigned = described.members[0].assignment.topic_partitions
    assert sorted((one.topic, one.partition) for one in assigned) == [(topic, 0), (topic, 1)]
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    member.close()
    request = [ConsumerGroupTopicPartitions(group)]
    offsets = admin.list_consumer_group_offsets(request)[group].result(PATIENCE_S)
    assert sorted((one.partition, one.offset) for one in offsets.topic_partitions) == [(0, 5), (1, 5)]
    altered = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([altered])[group].result(PATIENCE_S)
    again = members(address, group, [topic], **protocol)
    poll_until([again], lambda: len(again.records) == 3, "what was reset comes again")
    assert [record.offset() for record in again.records] == [2, 3, 4]
    again.close()
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in [one.group_id for one in admin.list_consumer_groups().result(PATIENCE_S).valid]


def test_lag_is_the_distance_from_the_committed_offset_to_the_end(
    address: str, admin: AdminClient, members: Callable[..., Member]
) -> None:
    topic = create(admin, "lagging", 1)
    send(address, topic, [b"%d" % number for number in range(30)], partitions=1)
    member = members(address, new_topic("group"), [topic], **CONSUMER)
    poll_until([member], lambda: len(member.records) >= 10, "records come")
    member.consumer.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
    _, end = member.consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_S)
    assert end - member.consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset == 20


# Transactions


def transactional(address: str, name: str, **settings: Any) -> Producer:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, **QUIET, **config})
    producer.init_transactions(PATIENCE_S)
    return producer


def read_all(address: str, topic: str, isolation: str, *, partitions: int = 1) -> list[bytes]:
    """Every record of the topic that a reader of that isolation sees now."""
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "none", "isolation.level": isolation, "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "error", **QUIET,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[bytes] = []
    ends = 0
    deadline = time.monotonic() + PATIENCE_S
    while ends < partitions:
        assert time.monotonic() < deadline, f"only {found}"
        record = consumer.poll(0.5)
        if record is None:
            continue
        error = record.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
        elif (value := record.value()) is not None:
            found.append(value)
    consumer.close()
    return found


def test_committed_records_are_read_and_aborted_ones_are_not(address: str, admin: AdminClient) -> None:
    topic = create(admin, "transactions", 1)
    producer = transactional(address, new_topic("txn"))
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(PATIENCE_S)
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    assert read_all(address, topic, "read_committed") == [b"0", b"2", b"4"]
    assert read_all(address, topic, "read_uncommitted") == [b"%d" % number for number in range(6)]
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(PATIENCE_S)
    assert read_all(address, topic, "read_committed") == [b"0", b"2", b"4"]
    assert read_all(address, topic, "read_uncommitted")[-1] == b"open"
    producer.commit_transaction(PATIENCE_S)
    assert read_all(address, topic, "read_committed")[-1] == b"open"


def test_a_zombie_is_fenced_by_its_successor(address: str, admin: AdminClient) -> None:
    topic = create(admin, "zombies", 1)
    name = new_topic("txn")
    zombie = transactional(address, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"never", partition=0)
    zombie.flush(PATIENCE_S)
    successor = transactional(address, name)
    successor.begin_transaction()
    successor.produce(topic, b"seen", partition=0)
    successor.commit_transaction(PATIENCE_S)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(PATIENCE_S)
    error = refused.value.args[0]
    assert error.fatal()
    assert error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    assert read_all(address, topic, "read_committed") == [b"seen"]


def test_a_transaction_that_is_left_open_aborts_by_itself(address: str, admin: AdminClient) -> None:
    topic = create(admin, "abandoned", 1)
    producer = transactional(address, new_topic("txn"), transaction_timeout_ms=1000)
    producer.begin_transaction()
    producer.produce(topic, b"abandoned", partition=0)
    producer.flush(PATIENCE_S)
    send(address, topic, [b"plain"], partitions=1)
    deadline = time.monotonic() + PATIENCE_S
    while read_all(address, topic, "read_committed") != [b"plain"]:
        assert time.monotonic() < deadline, "the transaction holds the others back"
        time.sleep(0.3)
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


@both_protocols
def test_offsets_in_a_transaction_count_when_it_is_committed(
    address: str, admin: AdminClient, members: Callable[..., Member], protocol: dict[str, str]
) -> None:
    source, sink = create(admin, "source", 1), create(admin, "sink", 1)
    group = new_topic("group")
    send(address, source, [b"%d" % number for number in range(10)], partitions=1)
    member = members(address, group, [source], **protocol)
    poll_until([member], lambda: len(member.records) >= 10, "records come")
    producer = transactional(address, new_topic("txn"))
    for end, is_commit in ((4, True), (9, False)):
        producer.begin_transaction()
        producer.produce(sink, b"up to %d" % end, partition=0)
        offsets = [TopicPartition(source, 0, end)]
        producer.send_offsets_to_transaction(offsets, member.consumer.consumer_group_metadata(), PATIENCE_S)
        if is_commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
        assert member.consumer.committed([TopicPartition(source, 0)], PATIENCE_S)[0].offset == 4
    assert read_all(address, sink, "read_committed") == [b"up to 4"]

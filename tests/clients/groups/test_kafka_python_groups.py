"""kafka-python in groups and transactions."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.clients import PATIENCE_S, new_topic
from tests.support.nodes import REPLICAS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own schemas
    from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import OffsetAndMetadata

POLL_MS = 2000


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """A consumer of a group that polls in a thread of its own, as an application has it."""

    def __init__(self, address: str, group: str, topics: list[str] | str, **settings: Any) -> None:
        self.records: list[Any] = []
        self.assigned: set[Any] = set()
        self.consumer = KafkaConsumer(
            bootstrap_servers=address, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
            session_timeout_ms=20_000, heartbeat_interval_ms=200, metadata_max_age_ms=500, fetch_max_wait_ms=100,
            **settings,
        )  # fmt: skip
        if isinstance(topics, str):
            self.consumer.subscribe(pattern=topics, listener=self)
        else:
            for topic in topics:
                # A member that joins before it knows the topic has to join again when it does.
                self.consumer.partitions_for_topic(topic)
            self.consumer.subscribe(topics, listener=self)
        self._is_over = False
        self._work: list[Callable[[], Any]] = []
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.assigned = set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned = set(assigned)

    def _poll(self) -> None:
        while not self._is_over:
            # Should a poll() time out while the member joins, kafka-python 3.0 forgets the join: the broker's SyncGroup
            # answer with the partitions comes, is not looked at, and the member sends no heartbeats any more. Its debug
            # log shows it. So a poll has more time than a join takes on a busy machine.
            for batch in self.consumer.poll(POLL_MS).values():
                self.records += batch
            while self._work:
                self._work.pop()()

    def do(self, work: Callable[[Any], Any]) -> Any:
        """Run something with the consumer in the thread that owns it."""
        done: list[Any] = []
        self._work.append(lambda: done.append(work(self.consumer)))
        until(lambda: bool(done), "the consumer does what it is told")
        return done[0]

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._thread.join(PATIENCE_S)
            self.consumer.close()


@pytest.fixture
def members() -> Iterator[Callable[..., Member]]:
    made: list[Member] = []

    def make(*arguments: Any, **settings: Any) -> Member:
        made.append(Member(*arguments, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[Any]:
    opened = KafkaAdminClient(bootstrap_servers=address)
    yield opened
    opened.close()


def create(admin: Any, stem: str, partitions: int = 6) -> str:
    topic = new_topic(stem)
    admin.create_topics([NewTopic(topic, partitions, REPLICAS)])
    return topic


def send(address: str, topic: str, values: list[bytes], partitions: int) -> None:
    producer = KafkaProducer(bootstrap_servers=address)
    for number, value in enumerate(values):
        producer.send(topic, value, partition=number % partitions)
    producer.flush(PATIENCE_S)
    producer.close()


def until(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize(
    "assignor",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=["range", "roundrobin", "sticky"],
)
def test_members_share_the_partitions_and_take_over_from_one_who_leaves(
    address: str, admin: Any, members: Callable[..., Member], assignor: Any
) -> None:
    topic = create(admin, "kp-shared")
    group = new_topic("group")
    first = members(address, group, [topic], partition_assignment_strategy=[assignor])
    until(lambda: len(first.assigned) == 6, "one member has all")
    second = members(address, group, [topic], partition_assignment_strategy=[assignor])
    until(lambda: len(first.assigned) == len(second.assigned) == 3, "both share")
    values = [b"%d" % number for number in range(60)]
    send(address, topic, values, 6)
    until(lambda: len(first.records) + len(second.records) >= 60, "all records come")
    assert sorted(record.value for record in first.records + second.records) == sorted(values)
    first.do(lambda consumer: consumer.commit())
    second.do(lambda consumer: consumer.commit())
    second.close()
    until(lambda: len(first.assigned) == 6, "the one that stays has all")
    committed = first.do(lambda consumer: [consumer.committed(TopicPartition(topic, index)) for index in range(6)])
    assert committed == [10] * 6


def test_a_group_goes_on_where_it_has_committed(address: str, admin: Any, members: Callable[..., Member]) -> None:
    topic = create(admin, "kp-committed", 1)
    group = new_topic("group")
    where = TopicPartition(topic, 0)
    send(address, topic, [b"%d" % number for number in range(10)], 1)
    first = members(address, group, [topic])
    until(lambda: len(first.records) == 10, "all records come")
    first.do(lambda consumer: consumer.commit({where: OffsetAndMetadata(4, "half way", -1)}))
    first.close()
    second = members(address, group, [topic])
    until(lambda: len(second.records) == 6, "the rest comes")
    assert [record.offset for record in second.records] == [4, 5, 6, 7, 8, 9]


def test_a_pattern_takes_topics_that_come_later(address: str, admin: Any, members: Callable[..., Member]) -> None:
    stem = new_topic("kp-pattern")
    create(admin, f"{stem}-a", 2)
    one = members(address, new_topic("group"), f"^{stem}-.*")
    until(lambda: len(one.assigned) == 2, "the first topic")
    create(admin, f"{stem}-b", 1)
    until(lambda: len(one.assigned) == 3, "the second topic")


def test_a_transaction_counts_when_it_is_committed(address: str, admin: Any) -> None:
    source, sink = create(admin, "kp-source", 1), create(admin, "kp-sink", 1)
    group = new_topic("group")
    where = TopicPartition(source, 0)
    producer = KafkaProducer(bootstrap_servers=address, transactional_id=new_topic("txn"))
    producer.init_transactions()
    for end, is_commit in ((4, True), (9, False)):
        producer.begin_transaction()
        producer.send(sink, b"up to %d" % end).get(PATIENCE_S)
        producer.send_offsets_to_transaction({where: OffsetAndMetadata(end, "", -1)}, group)
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    reader = KafkaConsumer(
        bootstrap_servers=address, group_id=group, enable_auto_commit=False, isolation_level="read_committed"
    )
    reader.assign([TopicPartition(sink, 0)])
    reader.seek_to_beginning()
    assert reader.committed(where) == 4
    found: list[Any] = []
    end_at = time.monotonic() + 2
    while time.monotonic() < end_at:
        for batch in reader.poll(200).values():
            found += [record.value for record in batch]
    reader.close()
    assert found == [b"up to 4"]

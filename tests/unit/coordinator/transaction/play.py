"""A node with a transaction coordinator, played by commands: handlers, real logs, virtual time.

    > init tx [timeout=60000] [producer=1000/0] [v=5]     an id and epoch, as `id/epoch`
    > add tx 1000/0 t-0 t-1 [v=3]                         AddPartitionsToTxn; `verify` is the same with verify_only
    > offsets tx 1000/0 group [v=4]                       AddOffsetsToTxn
    > produce tx 1000/0 t-0 0 [count=1] [v=12]            one batch that begins with that sequence
    > end tx 1000/0 commit [v=5]
    > marker 1000/0 abort t-0 [epoch=0] [tv=0]            WriteTxnMarkers, as an operator aborts what hangs
    > describe tx, list [state=Ongoing] [producer=1000] [longer=5000] [pattern=t.*], producers t-0, read t-0
    > time 10s, reload, epoch tx 32766, shrink t-0, grow t-0, delete t, version 0

A command prints its answer, and then what has been written since: to `__transaction_state` the state, to other
partitions the batches.
"""

from __future__ import annotations

from typing import Any

from ottla.coordinator.transaction import Transaction
from ottla.errors import KafkaError, error_class
from ottla.machine import Result
from ottla.metadata import TRANSACTION_VERSION
from ottla.records import EndTransactionMarker, RecordBatchBuilder, batches
from ottla.server import Dispatcher, take_producer_id
from ottla.server.producer_ids import when_there_are_ids
from ottla.storage import Isolation
from ottla.types import TopicPartition
from ottla.wire.coordinator import TRANSACTION
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.replica.node import TestNode

STATE_TOPIC = "__transaction_state"
FIRST_PRODUCER_ID = 1000


class Play:
    """See the module."""

    def __init__(self, *, transaction_version: int = 2, **settings: object) -> None:
        self.node = TestNode({"transactional.id.expiration.ms": 86_400_000, **settings})
        ids = iter(range(FIRST_PRODUCER_ID, 1_000_000, 100))
        self.node.controller.answers[AllocateProducerIdsRequest] = lambda _: AllocateProducerIdsResponse(
            producer_id_start=next(ids), producer_id_len=100
        )
        self.set_version(transaction_version)
        self.node.create_topic(STATE_TOPIC, 1, cleanup_policy="compact")
        self.node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
        self.node.create_topic("t", 3, replicas=(1, 2), isr=(1, 2), min_insync_replicas=2)
        self.node.create_topic("u", 100)
        self._dispatcher = Dispatcher(self.node.broker, "broker")
        self._seen: dict[TopicPartition, int] = {}
        self.leader_epoch = 0
        self._started_ms = self.node.world.clock.now_ms()
        block = when_there_are_ids(self.node.broker)
        assert block is not None, "a new node has no ids yet"
        self.node.wait(block)
        self.node.transactions.start()
        self.grow("t-0", "t-1", "t-2")
        self.written()

    def set_version(self, level: int) -> None:
        self.node.publish(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=level))

    # Commands

    def execute(self, line: str) -> list[str]:
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        arguments = [word for word in words if "=" not in word]
        try:
            answer = getattr(self, f"do_{name.replace('-', '_')}")(*arguments, **options)
        except KafkaError as error:
            answer = error.name
        self.settle()
        lines = answer if isinstance(answer, list) else [] if answer is None else [answer]
        return [*lines, *self.written()]

    def settle(self) -> None:
        """Let happen what is due, with a follower of `t` that has everything at once."""
        self.node.run_ms(0)
        for partition in self.node.replicas.by_name.get("t", {}).values():
            if 2 in partition.isr and partition.log is not None:
                partition.record_fetch(2, fetch_offset=partition.log.log_end_offset, log_start_offset=0)
        self.node.run_ms(0)

    def send(self, request: Any, version: int) -> Any:
        """The answer, with time passing while there is none."""
        answer = self.node.begin(request, version)
        if hasattr(answer, "done"):
            for _ in range(1000):
                if answer.done():
                    break
                self.node.run_ms(1)
                self.settle()
            try:
                answer = answer.result()
            except KafkaError as error:
                route = self._dispatcher.route(request.schema.api_key << 16 | version)
                assert route is not None, f"{request.schema.name} is not served"
                return route.failed(request, error, version)
        return answer

    def do_init(self, tx: str, timeout: str = "60000", producer: str = "-1/-1", v: str = "5") -> str:
        producer_id, epoch = _producer(producer)
        response = self.send(InitProducerIdRequest(tx, int(timeout), producer_id, epoch), int(v))
        return _code(response.error_code) or f"{response.producer_id}/{response.producer_epoch}"

    def do_add(self, tx: str, producer: str, *partitions: str, v: str = "3", verify: bool = False) -> list[str]:
        producer_id, epoch = _producer(producer)
        named: dict[str, list[int]] = {}
        for one in map(_partition, partitions):
            named.setdefault(one.topic, []).append(one.partition)
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in named.items()]
        if int(v) < 4:
            request = AddPartitionsToTxnRequest([], tx, producer_id, epoch, topics)
        else:
            request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(tx, producer_id, epoch, verify, topics)])
        response = self.send(request, int(v))
        if response.error_code:
            return [_code(response.error_code)]
        results = response.results_by_topic_v3_and_below or [
            topic for one in response.results_by_transaction for topic in one.topic_results
        ]
        return [
            f"{topic.name}-{one.partition_index}: {_code(one.partition_error_code) or 'ok'}"
            for topic in results
            for one in topic.results_by_partition
        ]

    def do_verify(self, tx: str, producer: str, *partitions: str, v: str = "4") -> list[str]:
        return self.do_add(tx, producer, *partitions, v=v, verify=True)

    def do_offsets(self, tx: str, producer: str, group: str, v: str = "4") -> str:
        response = self.send(AddOffsetsToTxnRequest(tx, *_producer(producer), group), int(v))
        return _code(response.error_code) or "ok"

    def do_produce(self, tx: str, producer: str, partition: str, sequence: str, count: str = "1", v: str = "12") -> str:
        producer_id, epoch = _producer(producer)
        builder = RecordBatchBuilder(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=int(sequence), is_transactional=True
        )
        for number in range(int(count)):
            builder.append(self.node.world.clock.now_ms(), None, b"%d" % number)
        where = _partition(partition)
        response = self.send(
            ProduceRequest(
                tx,
                1,
                1000,
                [
                    TopicProduceData(
                        where.topic, partition_data=[PartitionProduceData(where.partition, builder.build())]
                    )
                ],
            ),
            int(v),
        )
        answer = response.responses[0].partition_responses[0]
        text = _code(answer.error_code) or f"at {answer.base_offset}"
        return f"{text}: {answer.error_message}" if answer.error_message else text

    def do_end(self, tx: str, producer: str, result: str, v: str = "5") -> str:
        response = self.send(EndTxnRequest(tx, *_producer(producer), result == "commit"), int(v))
        if response.error_code:
            return _code(response.error_code)
        return "ok" if response.producer_id < 0 else f"ok, go on with {response.producer_id}/{response.producer_epoch}"

    def do_marker(self, producer: str, result: str, *partitions: str, epoch: str = "0", tv: str = "0") -> list[str]:
        topics = [WritableTxnMarkerTopic(one.topic, [one.partition]) for one in map(_partition, partitions)]
        marker = WritableTxnMarker(*_producer(producer), result == "commit", topics, int(epoch), int(tv))
        response = self.send(WriteTxnMarkersRequest([marker]), 2)
        return [
            f"{topic.name}-{one.partition_index}: {_code(one.error_code) or 'ok'}"
            for result in response.markers
            for topic in result.topics
            for one in topic.partitions
        ]

    def do_describe(self, *ids: str) -> list[str]:
        found = self.send(DescribeTransactionsRequest(list(ids)), 0).transaction_states
        return [
            f"{one.transactional_id}: "
            + (
                _code(one.error_code)
                or f"{one.transaction_state} {one.producer_id}/{one.producer_epoch} "
                f"timeout={one.transaction_timeout_ms} start={self._time(one.transaction_start_time_ms)} "
                f"[{' '.join(f'{topic.topic}-{index}' for topic in one.topics for index in topic.partitions)}]"
            )
            for one in found
        ]

    def do_list(
        self, state: str = "", producer: str = "", longer: str = "-1", pattern: str | None = None, v: str = "2"
    ) -> list[str]:
        response = self.send(
            ListTransactionsRequest(
                [one for one in state.split(",") if one], [int(producer)] if producer else [], int(longer), pattern
            ),
            int(v),
        )
        if response.error_code:
            return [_code(response.error_code)]
        unknown = [f"unknown state {one}" for one in response.unknown_state_filters]
        return unknown + [
            f"{one.transactional_id} {one.producer_id} {one.transaction_state}" for one in response.transaction_states
        ]

    def do_producers(self, partition: str) -> list[str]:
        where = _partition(partition)
        response = self.send(DescribeProducersRequest([TopicRequest(where.topic, [where.partition])]), 0)
        return [
            f"{one.producer_id}/{one.producer_epoch} coordinator={one.coordinator_epoch} "
            f"last={one.last_sequence} open={one.current_txn_start_offset}"
            for one in response.topics[0].partitions[0].active_producers
        ]

    def do_read(self, partition: str) -> list[str]:
        """What a read_committed consumer gets, and where it has to stop."""
        where = _partition(partition)
        log = self.node.replicas.by_name[where.topic][where.partition].local_log()
        found = log.read(0, bytes_max=1_000_000, isolation=Isolation.TXN_COMMITTED)
        aborted = [f"aborted {one.producer_id} from {one.first_offset}" for one in found.aborted or ()]
        return [f"stable to {log.last_stable_offset} of {log.log_end_offset}", *aborted]

    def do_time(self, amount: str) -> None:
        seconds = float(amount.removesuffix("s"))
        for _ in range(10):
            self.node.run_ms(seconds * 100)
            self.settle()

    def do_reload(self) -> None:
        """Another leader epoch: the coordinator forgets everything and reads its log."""
        self.leader_epoch += 1
        self.node.transactions.on_resigned(0)
        self.node.transactions.on_elected(0, self.leader_epoch)
        self.node.run_ms(1)

    def do_shrink(self, *partitions: str) -> None:
        """Too few replicas are in sync for a marker to be written."""
        for one in map(_partition, partitions):
            self.node.change_partition(one.topic, one.partition, isr=[1])

    def do_grow(self, *partitions: str) -> None:
        self.grow(*partitions)

    def do_grow_soon(self, *partitions: str) -> None:
        self.node.world.tasks.later(30, lambda: self.grow(*partitions))

    def grow(self, *partitions: str) -> None:
        for one in map(_partition, partitions):
            self.node.change_partition(one.topic, one.partition, isr=[1, 2])
        self.settle()

    def do_delete(self, topic: str) -> None:
        self.node.delete_topic(topic)

    def do_epoch(self, tx: str, epoch: str) -> None:
        """A transactional id that has come far: as if its producers had used the epochs before."""
        begun = Transaction.new(
            take_producer_id(self.node.broker), timeout_ms=60_000, now_ms=self.node.world.clock.now_ms()
        )
        record = begun._replace(producer_epoch=int(epoch)).to_record(tx, transaction_version=2)
        self.node.transactions.runtime.write(0, "epoch", lambda _: Result(None, [record])).result()

    def do_version(self, level: str) -> None:
        self.set_version(int(level))

    # What was written

    def written(self) -> list[str]:
        """The batches that have come since this was asked last, in the order of the clock and of the partitions."""
        found: list[str] = []
        for topic, table in self.node.replicas.by_name.items():
            for index, partition in table.items():
                name = TopicPartition(topic, index)
                log = partition.log
                if log is None or not partition.is_serving:
                    continue
                start = self._seen.get(name, 0)
                self._seen[name] = log.log_end_offset
                if log.log_end_offset > start:
                    found += self._tell(name, log, start)
        return found

    def _tell(self, name: TopicPartition, log: Any, start: int) -> list[str]:
        data = log.read(start, bytes_max=1_000_000, isolation=Isolation.LOG_END).slice.read()
        lines = []
        for batch in batches(data):
            producer = f"{batch.producer_id}/{batch.producer_epoch}"
            for record in batch.records():
                if name.topic == STATE_TOPIC:
                    lines.append(f"  {self._state(record)}")
                elif batch.is_control:
                    marker = EndTransactionMarker.decode(record.key, record.value)
                    lines.append(f"  {name}: {marker.type.name} {producer} coordinator={marker.coordinator_epoch}")
            if not batch.is_control and name.topic != STATE_TOPIC:
                lines.append(f"  {name}: {batch.record_count} records of {producer}")
        return lines

    def _state(self, record: Any) -> str:
        key: Any = TRANSACTION.read_key(record.key)
        if record.value is None:
            return f"{key.transactional_id} removed"
        value: Any = TRANSACTION.read_value(key, record.value)[0]
        one = Transaction.from_record(value)
        more = f" next={one.next_producer_id}" if one.next_producer_id >= 0 else ""
        more += f" before={one.previous_producer_id}" if one.previous_producer_id != one.producer_id else ""
        partitions = " ".join(map(str, one.partitions))
        return f"{key.transactional_id} {one.state} {one.producer_id}/{one.producer_epoch}{more} [{partitions}]"

    def _time(self, now_ms: int) -> str:
        return "none" if now_ms < 0 else f"{(now_ms - self._started_ms) / 1000:.0f}s"


def _producer(text: str) -> tuple[int, int]:
    producer_id, _, epoch = text.partition("/")
    return int(producer_id), int(epoch)


def _partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def _code(code: int) -> str:
    return error_class(code).name if code else ""

"""Transactions by script: requests in a few words, and what they print. A transcript is made of such commands.

    > init tx [timeout=60000] [producer=1000/0] [v=5]     an id and epoch, as `id/epoch`
    > add tx 1000/0 t-0 t-1 [v=3]                         AddPartitionsToTxn; `verify` is the same with verify_only
    > offsets tx 1000/0 group [v=4]                       AddOffsetsToTxn
    > produce tx 1000/0 t-0 0 [count=1] [v=12]            one batch that begins with that sequence
    > end tx 1000/0 commit [v=5]
    > marker 1000/0 abort t-0 [epoch=0] [tv=0]            WriteTxnMarkers, as an operator aborts what hangs
    > describe tx, list [state=Ongoing] [producer=1000] [longer=5000] [pattern=t.*], producers t-0, read t-0

A command prints its answer, and then what has been written since: to `__transaction_state` the state, to other
partitions the batches. Played by `tests/unit/coordinator/transaction/play.py` on virtual time, and by
`tests/clients/test_transactions_beside_kafka.py` against running brokers, a real Kafka among them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.coordinator.transaction import Transaction
from ottla.errors import KafkaError, error_class
from ottla.records import EndTransactionMarker, RecordBatchBuilder, batches
from ottla.types import Buffer, TopicPartition
from ottla.wire.coordinator import TRANSACTION
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

STATE_TOPIC = "__transaction_state"
FIRST_PRODUCER_ID = 1000
START_STEP_S = 30
"""Starts of transactions are told to this many seconds: a real broker takes some time for a script."""


class Stable(NamedTuple):
    """How far a read_committed consumer may read, how far there are records, and which are of aborted transactions."""

    last_stable_offset: int
    log_end_offset: int
    aborted: list[tuple[int, int]]


class TransactionScript(ABC):
    """Plays commands; whoever plays says how requests are sent and logs are read.

    `suffix` is put on the names of topics and transactional ids, so that many scripts can be played to one broker.
    """

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix
        self.shift = 0
        """What to add to the producer ids of the script, which begin with `FIRST_PRODUCER_ID`, to have the broker's."""
        self.started_ms = 0
        self._seen: dict[TopicPartition, int] = {}

    @abstractmethod
    def send(self, request: Any, version: int) -> Any:
        """The response; errors are in it."""

    @abstractmethod
    def settle(self) -> None:
        """Let happen what follows from the last command."""

    @abstractmethod
    def partitions(self) -> list[TopicPartition]:
        """All that may have been written to, in the order in which they are told."""

    @abstractmethod
    def read_log(self, partition: TopicPartition, offset: int) -> Buffer:
        """The batches from `offset` on."""

    @abstractmethod
    def stable(self, partition: TopicPartition) -> Stable:
        """Where a read_committed consumer has to stop."""

    @property
    @abstractmethod
    def now_ms(self) -> int: ...

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

    # Names and numbers

    def own(self, name: str) -> str:
        """A name as the broker knows it."""
        return name if name.startswith("__") else name + self.suffix

    def shown(self, name: str) -> str:
        return name.removesuffix(self.suffix)

    def producer_of(self, text: str) -> tuple[int, int]:
        producer_id, _, epoch = text.partition("/")
        return int(producer_id) + (self.shift if int(producer_id) >= 0 else 0), int(epoch)

    def partition_of(self, text: str) -> TopicPartition:
        topic, _, index = text.rpartition("-")
        return TopicPartition(self.own(topic), int(index))

    def told(self, producer_id: int) -> int:
        return producer_id - self.shift if producer_id >= 0 else producer_id

    # Commands

    def do_init(self, tx: str, timeout: str = "60000", producer: str = "-1/-1", v: str = "5") -> str:
        producer_id, epoch = self.producer_of(producer)
        response = self.send(InitProducerIdRequest(self.own(tx), int(timeout), producer_id, epoch), int(v))
        return _code(response.error_code) or f"{self.told(response.producer_id)}/{response.producer_epoch}"

    def do_add(self, tx: str, producer: str, *partitions: str, v: str = "3", verify: bool = False) -> list[str]:
        producer_id, epoch = self.producer_of(producer)
        named: dict[str, list[int]] = {}
        for one in map(self.partition_of, partitions):
            named.setdefault(one.topic, []).append(one.partition)
        topics = [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in named.items()]
        if int(v) < 4:
            request = AddPartitionsToTxnRequest([], self.own(tx), producer_id, epoch, topics)
        else:
            request = AddPartitionsToTxnRequest(
                [AddPartitionsToTxnTransaction(self.own(tx), producer_id, epoch, verify, topics)]
            )
        response = self.send(request, int(v))
        if response.error_code:
            return [_code(response.error_code)]
        results = response.results_by_topic_v3_and_below or [
            topic for one in response.results_by_transaction for topic in one.topic_results
        ]
        return sorted(
            f"{self.shown(topic.name)}-{one.partition_index}: {_code(one.partition_error_code) or 'ok'}"
            for topic in results
            for one in topic.results_by_partition
        )

    def do_verify(self, tx: str, producer: str, *partitions: str, v: str = "4") -> list[str]:
        return self.do_add(tx, producer, *partitions, v=v, verify=True)

    def do_offsets(self, tx: str, producer: str, group: str, v: str = "4") -> str:
        response = self.send(AddOffsetsToTxnRequest(self.own(tx), *self.producer_of(producer), group), int(v))
        return _code(response.error_code) or "ok"

    def do_produce(self, tx: str, producer: str, partition: str, sequence: str, count: str = "1", v: str = "12") -> str:
        producer_id, epoch = self.producer_of(producer)
        builder = RecordBatchBuilder(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=int(sequence), is_transactional=True
        )
        for number in range(int(count)):
            builder.append(self.now_ms, None, b"%d" % number)
        where = self.partition_of(partition)
        response = self.send(
            ProduceRequest(
                self.own(tx),
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
        response = self.send(EndTxnRequest(self.own(tx), *self.producer_of(producer), result == "commit"), int(v))
        if response.error_code:
            return _code(response.error_code)
        return (
            "ok"
            if response.producer_id < 0
            else f"ok, go on with {self.told(response.producer_id)}/{response.producer_epoch}"
        )

    def do_marker(self, producer: str, result: str, *partitions: str, epoch: str = "0", tv: str = "0") -> list[str]:
        topics = [WritableTxnMarkerTopic(one.topic, [one.partition]) for one in map(self.partition_of, partitions)]
        marker = WritableTxnMarker(*self.producer_of(producer), result == "commit", topics, int(epoch), int(tv))
        response = self.send(WriteTxnMarkersRequest([marker]), 2)
        return sorted(
            f"{self.shown(topic.name)}-{one.partition_index}: {_code(one.error_code) or 'ok'}"
            for result in response.markers
            for topic in result.topics
            for one in topic.partitions
        )

    def do_describe(self, *ids: str) -> list[str]:
        found = self.send(DescribeTransactionsRequest([self.own(one) for one in ids]), 0).transaction_states
        return [f"{self.shown(one.transactional_id)}: {_code(one.error_code) or self._described(one)}" for one in found]

    def _described(self, one: Any) -> str:
        partitions = [TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions]
        return (
            f"{one.transaction_state} {self.told(one.producer_id)}/{one.producer_epoch} "
            f"timeout={one.transaction_timeout_ms} start={self._time(one.transaction_start_time_ms)} "
            f"[{self._names(partitions)}]"
        )

    def do_list(
        self, state: str = "", producer: str = "", longer: str = "-1", pattern: str | None = None, v: str = "2"
    ) -> list[str]:
        response = self.send(
            ListTransactionsRequest(
                [one for one in state.split(",") if one],
                [int(producer) + self.shift] if producer else [],
                int(longer),
                pattern if pattern is None else pattern + self.suffix,
            ),
            int(v),
        )
        if response.error_code:
            return [_code(response.error_code)]
        unknown = [f"unknown state {one}" for one in response.unknown_state_filters]
        return unknown + [
            f"{self.shown(one.transactional_id)} {self.told(one.producer_id)} {one.transaction_state}"
            for one in sorted(response.transaction_states, key=lambda one: one.producer_id)
            if one.transactional_id.endswith(self.suffix)
        ]

    def do_producers(self, partition: str) -> list[str]:
        where = self.partition_of(partition)
        response = self.send(DescribeProducersRequest([TopicRequest(where.topic, [where.partition])]), 0)
        return [
            f"{self.told(one.producer_id)}/{one.producer_epoch} coordinator={one.coordinator_epoch} "
            f"last={one.last_sequence} open={one.current_txn_start_offset}"
            for one in response.topics[0].partitions[0].active_producers
        ]

    def do_read(self, partition: str) -> list[str]:
        """What a read_committed consumer gets, and where it has to stop."""
        found = self.stable(self.partition_of(partition))
        aborted = [f"aborted {self.told(producer_id)} from {first}" for producer_id, first in found.aborted]
        return [f"stable to {found.last_stable_offset} of {found.log_end_offset}", *aborted]

    # What was written

    def written(self) -> list[str]:
        """The batches that have come since this was asked last, in the order of the partitions."""
        return [line for partition in self.partitions() for line in self._tell(partition)]

    def _tell(self, partition: TopicPartition) -> list[str]:
        start = self._seen.get(partition, 0)
        name = f"{self.shown(partition.topic)}-{partition.partition}"
        lines: list[str] = []
        for batch in batches(self.read_log(partition, start)):
            self._seen[partition] = batch.last_offset + 1
            producer = f"{self.told(batch.producer_id)}/{batch.producer_epoch}"
            for record in batch.records() if batch.last_offset >= start else ():
                if partition.topic == STATE_TOPIC:
                    lines += self._state(record)
                elif batch.is_control:
                    marker = EndTransactionMarker.decode(record.key, record.value)
                    lines.append(f"  {name}: {marker.type.name} {producer} coordinator={marker.coordinator_epoch}")
            if not batch.is_control and partition.topic != STATE_TOPIC:
                lines.append(f"  {name}: {batch.record_count} records of {producer}")
        return lines

    def _state(self, record: Any) -> list[str]:
        key: Any = TRANSACTION.read_key(record.key)
        if not key.transactional_id.endswith(self.suffix):
            return []
        name = self.shown(key.transactional_id)
        if record.value is None:
            return [f"  {name} removed"]
        value: Any = TRANSACTION.read_value(key, record.value)[0]
        one = Transaction.from_record(value)
        more = f" next={self.told(one.next_producer_id)}" if one.next_producer_id >= 0 else ""
        if one.previous_producer_id != one.producer_id:
            more += f" before={self.told(one.previous_producer_id)}"
        producer = f"{self.told(one.producer_id)}/{one.producer_epoch}"
        return [f"  {name} {one.state} {producer}{more} [{self._names(one.partitions)}]"]

    def _names(self, partitions: Iterable[TopicPartition]) -> str:
        """In order: Kafka has them as its hash table does."""
        return " ".join(f"{self.shown(one.topic)}-{one.partition}" for one in sorted(partitions))

    def _time(self, now_ms: int) -> str:
        if now_ms < 0:
            return "none"
        return f"{(now_ms - self.started_ms) // 1000 // START_STEP_S * START_STEP_S}s"


def _code(code: int) -> str:
    return error_class(code).name if code else ""

"""A node with a transaction coordinator, played by the commands of `tests/support/transactions.py` and these:

    > time 10s, reload, epoch tx 32766, shrink t-0, grow t-0, grow-soon t-0, delete t

Handlers, real logs, virtual time. Topic `t` has two replicas, and needs both for a marker; `u` has one.
"""

from __future__ import annotations

from typing import Any

from ottla.coordinator.transaction import Transaction
from ottla.errors import KafkaError
from ottla.machine import Result
from ottla.metadata import TRANSACTION_VERSION
from ottla.server import take_producer_id
from ottla.server.producer_ids import when_there_are_ids
from ottla.storage import Isolation, Log
from ottla.types import Buffer, TopicPartition
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.metadata import FeatureLevelRecord
from tests.support.transactions import FIRST_PRODUCER_ID, STATE_TOPIC, Stable, TransactionScript
from tests.unit.replica.node import TestNode


class Play(TransactionScript):
    """See the module."""

    def __init__(self, *, transaction_version: int = 2, **settings: object) -> None:
        super().__init__()
        self.node = TestNode({"transactional.id.expiration.ms": 86_400_000, **settings})
        ids = iter(range(FIRST_PRODUCER_ID, 1_000_000, 100))
        self.node.controller.answers[AllocateProducerIdsRequest] = lambda _: AllocateProducerIdsResponse(
            producer_id_start=next(ids), producer_id_len=100
        )
        self.node.publish(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=transaction_version))
        self.node.create_topic(STATE_TOPIC, 1, cleanup_policy="compact")
        self.node.create_topic("__consumer_offsets", 1, cleanup_policy="compact")
        self.node.create_topic("t", 3, replicas=(1, 2), isr=(1, 2), min_insync_replicas=2)
        self.node.create_topic("u", 100)
        self._dispatcher = self.node.dispatcher
        self.leader_epoch = 0
        self.started_ms = self.now_ms
        block = when_there_are_ids(self.node.broker)
        assert block is not None, "a new node has no ids yet"
        self.node.wait(block)
        self.node.transactions.start()
        self.grow("t-0", "t-1", "t-2")

    @property
    def now_ms(self) -> int:
        return self.node.world.clock.now_ms()

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

    def partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, index)
            for topic, table in self.node.replicas.by_name.items()
            for index, one in table.items()
            if one.is_serving
        ]

    def read_log(self, partition: TopicPartition, offset: int) -> Buffer:
        found = self._log(partition).read(offset, bytes_max=1_000_000, isolation=Isolation.LOG_END)
        return b"" if found.slice is None else found.slice.read()

    def stable(self, partition: TopicPartition) -> Stable:
        log = self._log(partition)
        found = log.read(0, bytes_max=1_000_000, isolation=Isolation.TXN_COMMITTED)
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted or ()]
        return Stable(log.last_stable_offset, log.log_end_offset, aborted)

    def _log(self, partition: TopicPartition) -> Log:
        return self.node.partition(*partition).local_log()

    # Commands that need the node itself

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
        for one in map(self.partition_of, partitions):
            self.node.change_partition(one.topic, one.partition, isr=[1])

    def do_grow(self, *partitions: str) -> None:
        self.grow(*partitions)

    def do_grow_soon(self, *partitions: str) -> None:
        self.node.world.tasks.later(30, lambda: self.grow(*partitions))

    def grow(self, *partitions: str) -> None:
        for one in map(self.partition_of, partitions):
            self.node.change_partition(one.topic, one.partition, isr=[1, 2])
        self.settle()

    def do_delete(self, topic: str) -> None:
        self.node.delete_topic(topic)

    def do_epoch(self, tx: str, epoch: str) -> None:
        """A transactional id that has come far: as if its producers had used the epochs before."""
        begun = Transaction.new(take_producer_id(self.node.broker), timeout_ms=60_000, now_ms=self.now_ms)
        record = begun._replace(producer_epoch=int(epoch)).to_record(tx, transaction_version=2)
        self.node.transactions.runtime.write(0, "epoch", lambda _: Result(None, [record])).result()

"""A broker that dies at any write of its disk: the next life brings every transaction to the end that was decided.

A producer works through transactions, asking again as a client does, while the process dies before, in or after the nth
write, for every n. In the end a read_committed consumer sees what was committed, once and in order, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ottla.coordinator.transaction import TransactionState
from ottla.errors import KafkaError, error_class
from ottla.metadata import TRANSACTION_VERSION, Image
from ottla.records import RecordBatchBuilder, batches
from ottla.server.producer_ids import when_there_are_ids
from ottla.sim import Deadlock, Life, Moment, SimulatedCrash, VirtualNodeWorld, node_world, virtual_node_world
from ottla.storage import Isolation
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.replica.node import TestNode

TX = "tx"
PARTITIONS = 3
RETRIABLE = {"CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"}
RETRIABLE |= {"NOT_ENOUGH_REPLICAS"}  # what Produce says of the same
DEATHS: tuple[Moment, ...] = ("before", "during", "after")


class Lives:
    """A broker that comes back on its disk after each death."""

    def __init__(self, world: VirtualNodeWorld) -> None:
        self.world = world
        self.image: Image | None = None
        self.block = 0
        self.deaths = 0
        self.node = self._begin()
        self.node.publish(FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=2))
        self.node.create_topic("__transaction_state", 1, cleanup_policy="compact")
        self.node.create_topic("t", PARTITIONS)

    def _begin(self) -> TestNode:
        node = TestNode(world=self.world, image=self.image)
        node.virtual = self.world

        def allocate(_: object) -> AllocateProducerIdsResponse:
            self.block += 100
            return AllocateProducerIdsResponse(producer_id_start=self.block, producer_id_len=100)

        node.controller.answers[AllocateProducerIdsRequest] = allocate
        return node

    def restart(self) -> None:
        self.deaths += 1
        self.image = self.node.image
        old = self.world
        old.life.end()
        old.disk.clear_faults()
        old.disk.process_crash()
        life = Life(f"node, life {self.deaths}", old.disk)
        network = old.network
        self.world = node_world(network.network, network.host, old.clock, old.disk, life, str(self.deaths))
        self.node = self.world.life.context.copy().run(self._begin)

    def ask(self, request: Callable[[], Any], version: int, code_of: Callable[[Any], int]) -> Any:
        """Ask until there is an answer that is not to be asked again."""
        for _ in range(200):
            try:
                block = self.world.life.context.copy().run(when_there_are_ids, self.node.broker)
                if block is not None:
                    self.node.wait(block)
                # In the context of the life, so that what is left to do dies with it.
                answer = self.world.life.context.copy().run(self.node.begin, request(), version)
                response = self.node.wait(answer) if hasattr(answer, "done") else answer
            except SimulatedCrash:
                self.restart()
                continue
            except (KafkaError, Deadlock) as error:
                # A life that ends in a callback leaves nobody who could answer.
                if not self.world.disk.is_halted and getattr(error, "name", "") not in RETRIABLE:
                    raise
                self.wait()
                continue
            code = code_of(response)
            if not code:
                return response
            assert error_class(code).name in RETRIABLE, error_class(code).name
            self.wait()
        raise AssertionError(f"no answer to {request()}")

    def wait(self) -> None:
        with suppress(SimulatedCrash, Deadlock):
            self.node.run_ms(20)
        if self.world.disk.is_halted:
            self.restart()


class Client:
    """A producer of transaction version 2, which knows what a consumer is to see."""

    def __init__(self, lives: Lives) -> None:
        self._lives = lives
        self._producer = (-1, -1)
        self._count = 0
        self.committed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def init(self) -> None:
        response = self._lives.ask(lambda: InitProducerIdRequest(TX, 60_000), 5, lambda one: int(one.error_code))
        self._producer = response.producer_id, response.producer_epoch

    def transact(self, *, is_commit: bool) -> None:
        written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for sequence in range(2):
            for index in range(PARTITIONS):
                self._count += 1
                value = b"%d" % self._count
                self._produce(index, sequence, value)
                written[index].append(value)
        response = self._lives.ask(
            lambda: EndTxnRequest(TX, *self._producer, is_commit), 5, lambda one: int(one.error_code)
        )
        self._producer = response.producer_id, response.producer_epoch
        if is_commit:
            for index, values in enumerate(written):
                self.committed[index] += values

    def _produce(self, index: int, sequence: int, value: bytes) -> None:
        def request() -> ProduceRequest:
            builder = RecordBatchBuilder(
                producer_id=self._producer[0],
                producer_epoch=self._producer[1],
                base_sequence=sequence,
                is_transactional=True,
            )
            builder.append(self._lives.world.clock.now_ms(), None, value)
            data = [TopicProduceData("t", partition_data=[PartitionProduceData(index, builder.build())])]
            return ProduceRequest(TX, -1, 1000, data)

        self._lives.ask(request, 12, lambda one: int(one.responses[0].partition_responses[0].error_code))


def run(nth: int | None, moment: Moment = "before") -> tuple[Lives, Client]:
    lives = Lives(virtual_node_world(1))
    client = Client(lives)
    client.init()
    lives.world.disk.counts.clear()
    if nth is not None:
        lives.world.disk.crash_at(nth, kinds=["write"], moment=moment)
    for is_commit in (True, False, True):
        client.transact(is_commit=is_commit)
    for _ in range(5):
        lives.wait()
    lives.world.disk.clear_faults()
    return lives, client


def committed(lives: Lives, index: int) -> list[bytes]:
    """What a read_committed consumer sees."""
    log = lives.node.partition("t", index).local_log()
    found = log.read(0, bytes_max=1_000_000, isolation=Isolation.TXN_COMMITTED)
    assert found.slice is not None, "there are records"
    assert log.last_stable_offset == log.log_end_offset, "a transaction was left open"
    starts = sorted((one.first_offset, one.producer_id) for one in found.aborted or ())
    values: list[bytes] = []
    aborted: set[int] = set()
    for batch in batches(found.slice.read()):
        while starts and starts[0][0] <= batch.base_offset:
            aborted.add(starts.pop(0)[1])
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif batch.producer_id not in aborted:
            values += [record.value or b"" for record in batch.records()]
    return values


@pytest.mark.parametrize("moment", DEATHS)
def test_a_broker_that_dies_at_any_write_finishes_its_transactions_when_it_is_back(moment: Moment) -> None:
    lives, _ = run(None)
    write_count = lives.world.disk.counts["write"]
    assert write_count > 30, "records and markers are written"
    deaths = 0
    for nth in range(1, write_count + 1):
        lives, client = run(nth, moment)
        deaths += lives.deaths
        lives.restart()  # and once more: nothing rests on what only the last life knew
        lives.wait()
        known = lives.node.wait(lives.node.transactions.describe(TX))
        assert known.state is TransactionState.COMPLETE_COMMIT, nth
        for index in range(PARTITIONS):
            assert committed(lives, index) == client.committed[index], f"partition {index}, death at write {nth}"
    assert deaths > write_count / 2

"""kill -9 of the broker in the middle of transactions: what was committed is read once and whole, and nothing else.

Transactional producers of librdkafka write the same number to every partition in each transaction, some of which they
abort, while the broker is killed and started again.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.survey import QUIET, TIMEOUT_S, read_to_end

TOPIC = "ledger"
PARTITION_COUNT = 3
KILLS = 4
ABORTED_EVERY = 4


@dataclass
class Ledger:
    """One transactional producer in a thread of its own, which remembers how each of its transactions ended."""

    name: str
    address: str
    committed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    fatal: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._is_over.set()
        self._thread.join(2 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name}: the last transaction does not end"

    @property
    def count(self) -> int:
        return len(self.committed) + len(self.aborted)

    def _run(self) -> None:
        producer = Producer({
            "bootstrap.servers": self.address,
            "transactional.id": self.name,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            **QUIET,
        })  # fmt: skip
        try:
            self._again(lambda: producer.init_transactions(TIMEOUT_S))
            number = 0
            while not self._is_over.is_set():
                self._transact(producer, number)
                number += 1
        except KafkaException as error:
            self.fatal.append(str(error))

    def _transact(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for partition in range(PARTITION_COUNT):
            producer.produce(TOPIC, f"{self.name} {number}", partition=partition)
        try:
            if number % ABORTED_EVERY != ABORTED_EVERY - 1:
                self._again(lambda: producer.commit_transaction(TIMEOUT_S))
                self.committed.append(number)
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
        self._again(lambda: producer.abort_transaction(TIMEOUT_S))
        self.aborted.append(number)

    def _again(self, call: Callable[[], object]) -> None:
        """Call until it is answered, as librdkafka's documentation says: what may be tried again is."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise


def test_transactions_survive_a_broker_that_is_killed_again_and_again(tmp_path: Path) -> None:
    broker = BrokerProcess(
        tmp_path, topics=[f"{TOPIC}:{PARTITION_COUNT}"], settings={"transaction.state.log.num.partitions": "5"}
    )
    with broker:
        ledgers = [Ledger(f"tx-{number}", broker.address) for number in range(3)]
        for ledger in ledgers:
            ledger.start()
        try:
            for number in range(KILLS):
                wait_for_progress(ledgers)
                time.sleep(0.03 * (number % 4))
                broker.kill()
                broker.start()
            wait_for_progress(ledgers)
        finally:
            for ledger in ledgers:
                ledger.finish()
        places = [TopicPartition(TOPIC, partition) for partition in range(PARTITION_COUNT)]
        rows = read_to_end(broker.address, places, "read_committed")
        for partition in range(PARTITION_COUNT):
            found = [base64.b64decode(row[4]).decode().split() for row in rows[TOPIC, partition]]
            for ledger in ledgers:
                assert ledger.fatal == []
                mine = [int(number) for name, number in found if name == ledger.name]
                assert mine == ledger.committed, f"{ledger.name} in partition {partition}"
        assert all(ledger.aborted for ledger in ledgers)
        broker.stop()
    assert broker.errors() == []


def wait_for_progress(ledgers: list[Ledger]) -> None:
    """Until each has ended some more: every kill is then one in the middle of transactions."""
    before = [ledger.count for ledger in ledgers]
    deadline = time.monotonic() + TIMEOUT_S
    while not all(ledger.count > count + 3 for ledger, count in zip(ledgers, before, strict=True)):
        assert time.monotonic() < deadline, f"no progress: {[(one.name, one.count, one.fatal) for one in ledgers]}"
        time.sleep(0.005)

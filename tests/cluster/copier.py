"""A transactional copy by librdkafka: what is read from one topic is written to another, once, while nodes die.

`Copier` is one member of a group that reads, writes and commits its offsets in transactions. It is a process of its
own, because librdkafka 2.16 may wait without end, whatever the time-out of the call: `send_offsets_to_transaction` goes
on waiting for a group coordinator that has since left the metadata (its issues 5511 and 5456). One that is silent for
longer than its calls may take is killed and started again, as an operator would. Called by tests.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.survey import QUIET, TIMEOUT_S

GROUP = "copy"
BATCH_MAX = 500
POLL_S = 0.2
CALL_S = 5.0
SILENT_MAX_S = 3 * CALL_S
"""Every call says something when it begins; joining the group and closing the consumer may take longer than a call."""
COMMON = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 4000,
}


class Copier:
    """A process, and the thread that listens to it; from `source` to the same partitions of `target`."""

    def __init__(self, name: str, address: str, source: str, target: str) -> None:
        self.name = name
        self._command = [sys.executable, "-m", "tests.cluster.copier", name, address, source, target]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self.committed = 0
        """Transactions."""
        self.records = 0
        self.aborted = 0
        self.killed = 0
        """How often the process was silent for too long."""
        self.failures: list[str] = []
        """Of producers that had to be replaced: fenced ones, or those whose commit's outcome is unknown."""

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.records} records in {self.committed} transactions, {self.aborted} aborted, "
            f"{self.killed} times killed, {self.failures}"
        )

    def start(self) -> None:
        self._thread.start()

    def ask_to_finish(self) -> None:
        self._is_over.set()

    def finish(self) -> None:
        self.ask_to_finish()
        self._thread.join(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        while not self._is_over.is_set():
            with subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            ) as process:
                try:
                    self._listen(process)
                finally:
                    process.kill()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Until the process has ended, or must be."""
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        heard_at = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while time.monotonic() - heard_at < SILENT_MAX_S:
                if self._is_over.is_set() and not process.stdin.closed:
                    process.stdin.close()
                if selector.select(POLL_S):
                    line = process.stdout.readline()
                    if not line:
                        return
                    heard_at = time.monotonic()
                    self._take(**json.loads(line))
        self.killed += 1

    def _take(self, *, committed: int = 0, aborted: int = 0, failure: str = "") -> None:
        if committed:
            self.committed += 1
            self.records += committed
        self.aborted += aborted
        if failure:
            self.failures.append(f"{time.strftime('%T')} {failure}")


class Copy:
    """What the process does until its standard input is closed."""

    def __init__(self, name: str, address: str, source: str, target: str) -> None:
        self._name, self._address = name, address
        self._source, self._target = source, target
        self._is_over = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._await_end, daemon=True).start()
        while not self._is_over.is_set():
            try:
                self._live()
            except KafkaException as error:
                _say(failure=repr(error.args[0]))

    def _await_end(self) -> None:
        sys.stdin.read()
        self._is_over.set()

    def _live(self) -> None:
        producer = Producer({
            "bootstrap.servers": self._address,
            "transactional.id": self._name,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 2,
            **COMMON,
            **QUIET,
        })  # fmt: skip
        consumer = Consumer({
            "bootstrap.servers": self._address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            **COMMON,
            **QUIET,
        })  # fmt: skip
        try:
            _again(producer.init_transactions)
            consumer.subscribe([self._source])
            while not self._is_over.is_set():
                _say()
                found = [message for message in consumer.consume(BATCH_MAX, POLL_S) if message.error() is None]
                if found:
                    self._copy(producer, consumer, found)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer, found: list[Message]) -> None:
        producer.begin_transaction()
        try:
            for message in found:
                producer.produce(
                    self._target, message.value(), key=message.key(), partition=int(message.partition() or 0)
                )
            ends = {int(message.partition() or 0): int(message.offset() or 0) + 1 for message in found}
            positions = [TopicPartition(self._source, partition, offset) for partition, offset in ends.items()]
            metadata = consumer.consumer_group_metadata()
            _again(lambda timeout: producer.send_offsets_to_transaction(positions, metadata, timeout))
            _again(producer.commit_transaction)
            _say(committed=len(found))
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _again(producer.abort_transaction)
            _say(aborted=1)
            self._rewind(consumer)

    def _rewind(self, consumer: Consumer) -> None:
        """Read again from where the last transaction that was committed has come to."""
        for place in consumer.committed(consumer.assignment(), timeout=CALL_S):
            consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))


def _again(call: Callable[[float], object]) -> None:
    """Call until it is answered, as librdkafka's documentation says: what may be tried again is."""
    deadline = time.monotonic() + 2 * TIMEOUT_S
    while True:
        _say()
        try:
            call(CALL_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _say(**news: object) -> None:
    """A line to the `Copier`; an empty one says that the next call begins."""
    print(json.dumps(news), flush=True)


if __name__ == "__main__":
    Copy(*sys.argv[1:]).run()

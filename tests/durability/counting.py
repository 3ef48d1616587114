"""Word count with real Kafka Streams, killed and started again, and the account of every word afterwards.

`Lines` writes lines of words through restarts of the broker; `WordCount` is the application as a process. With
`exactly_once_v2` and no cache, the application writes each word's counts one by one: what a reader of committed records
sees of a word is 1, 2, 3 and so on, without a gap and without a repetition, whoever was killed in between. Called by
tests.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.kafka import streams_classpath
from tests.support.nodes import Brokers, Nodes
from tests.support.programs import java_program
from tests.support.raw import RawClient
from tests.support.survey import QUIET, consumer_config, read_to_end

APPLICATION = "word-count"
PARTITION_COUNT = 2
TOPICS = (f"lines:{PARTITION_COUNT}", f"counts:{PARTITION_COUNT}")
STEP_S = 90.0
"""How long an application may take to go on after a kill, on a busy machine."""
WORDS_BETWEEN = 50
"""How many words that are written after a kill are counted before the next one."""
BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.session.timeout.ms": "3000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
APPLICATION_SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
    "num.stream.threads": "2",
    "statestore.cache.max.bytes": "0",
    "consumer.auto.offset.reset": "earliest",
    # What a killed application has left open is ended soon.
    "producer.transaction.timeout.ms": "3000",
    "reconnect.backoff.max.ms": "200",
}
CLASSIC_SETTINGS = {"consumer.session.timeout.ms": "3000", "consumer.heartbeat.interval.ms": "300"}


class WordCount:
    """The application as a child process. `with WordCount(directory, address, "streams") as application: ...`"""

    def __init__(self, directory: Path, address: str, protocol: str, name: str = "one", **more: str) -> None:
        self.state = directory / f"state-{name}"
        self.log_path = directory / f"application-{name}.log"
        settings = {**APPLICATION_SETTINGS, "group.protocol": protocol}
        settings |= {key.replace("_", "."): value for key, value in more.items()}
        if protocol == "classic":
            settings |= CLASSIC_SETTINGS
        self._command = [
            *java_program(Path(__file__).parent / "word_count", streams_classpath()),
            *(address, APPLICATION, str(self.state)),
            *(f"{key}={value}" for key, value in settings.items()),
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None, "not started"
        self.process.kill()
        self.process.wait()
        self.process = None

    def forget(self) -> None:
        """Lose the state on disk, as on a new machine: it is to be read back from its changelog."""
        shutil.rmtree(self.state, ignore_errors=True)

    def stop(self) -> None:
        """An orderly end: members leave their group."""
        assert self.process is not None, "not started"
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STEP_S)
        self.process = None

    def last_line(self, beginning: str) -> str:
        """The last line it printed that begins so; empty when there is none."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.startswith(beginning)), "")

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> WordCount:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Lines:
    """An idempotent producer in a thread of its own that writes lines of two words, through restarts of the broker."""

    def __init__(self, address: str, *, lines_per_s: int = 100) -> None:
        self._address = address
        self._pause_s = 1 / lines_per_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.sent = 0
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Send no more, and return when all that was sent is acknowledged."""
        self._is_over.set()
        self._thread.join(2 * STEP_S)
        assert not self._thread.is_alive(), "the lines are not acknowledged"
        assert self.failed == []

    def _run(self) -> None:
        producer = Producer({
            "bootstrap.servers": self._address,
            "enable.idempotence": True,
            "linger.ms": 5,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "delivery.timeout.ms": 120_000,
            **QUIET,
        })  # fmt: skip
        while not self._is_over.wait(self._pause_s):
            line = f"w{self.sent % 7} v{self.sent % 3}"
            producer.produce("lines", line, partition=self.sent % PARTITION_COUNT, on_delivery=self._on_delivery)
            self.sent += 1
            producer.poll(0)
        producer.flush(2 * STEP_S)

    def _on_delivery(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self.failed.append(str(error))


class Counts:
    """A reader of the committed counts, that keeps up through restarts of the broker."""

    def __init__(self, address: str) -> None:
        self._consumer = Consumer({**consumer_config(address, "read_committed"), "reconnect.backoff.max.ms": 200})
        self._consumer.assign([TopicPartition("counts", partition, 0) for partition in range(PARTITION_COUNT)])
        self.counts: dict[str, int] = {}

    @property
    def total(self) -> int:
        """How many words are counted."""
        return sum(self.counts.values())

    def wait_for(self, total: int, applications: Sequence[WordCount]) -> None:
        """Until so many words are counted."""
        deadline = time.monotonic() + STEP_S
        while self.total < total:
            if time.monotonic() > deadline:
                tails = "\n".join(application.log_tail() for application in applications)
                raise AssertionError(f"{self.total} of {total} words are counted:\n{tails}")
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:
                    key, value = message.key(), message.value()
                    assert isinstance(key, bytes)
                    assert isinstance(value, bytes)
                    self.counts[key.decode()] = int(value)

    def close(self) -> None:
        self._consumer.close()


def count_through_kills(directory: Path, protocol: str, *, kills: int, instances: int = 1, node_count: int = 1) -> None:
    """Kill -9 brokers and applications in turn while lines are written and counted; then check every count."""
    broker: Brokers = (
        BrokerProcess(directory, settings=BROKER_SETTINGS)
        if node_count == 1
        else Nodes(directory, settings=BROKER_SETTINGS, count=node_count)
    )
    with broker:
        with RawClient(broker.port) as client:
            for topic in ("lines", "counts"):
                client.create_topic(topic, partitions=PARTITION_COUNT)
        address = ",".join(broker.addresses.values())
        applications = [WordCount(directory, address, protocol, name=str(number)) for number in range(instances)]
        lines, counts = Lines(address), Counts(address)
        try:
            lines.start()
            for application in applications:
                application.start()
            counts.wait_for(1, applications)
            for number in range(kills):
                _kill_one(number, broker, applications)
                # Lines that come now are counted: what was counted before the kill is not mistaken for going on.
                counts.wait_for(2 * lines.sent + WORDS_BETWEEN, applications)
                if isinstance(broker, Nodes):
                    broker.start()  # the one that was killed: the others have gone on without it
            lines.finish()
            counts.wait_for(2 * lines.sent, applications)
            for application in applications:
                application.stop()
        finally:
            lines.finish()
            counts.close()
            for application in applications:
                application.__exit__(None, None, None)
        check_counts(address, lines.sent)
        if isinstance(broker, BrokerProcess):
            broker.stop()
    assert broker.errors() == []


def _kill_one(number: int, broker: Brokers, applications: Sequence[WordCount]) -> None:
    time.sleep(0.07 * (number % 5))  # not always in the same moment of a transaction
    if number % 2 == 0:
        broker.kill()
        if isinstance(broker, BrokerProcess):
            broker.start()
        return
    application = applications[number // 2 % len(applications)]
    application.kill()
    if number % 4 == 3:
        application.forget()
    application.start()


def check_counts(address: str, line_count: int) -> None:
    """Every line is there once; of every word the committed counts are 1, 2, 3, ... up to how often it was written."""
    places = [TopicPartition(topic, partition) for topic in ("lines", "counts") for partition in range(PARTITION_COUNT)]
    rows = read_to_end(address, places, "read_committed")
    written: Counter[str] = Counter()
    counted: dict[str, list[int]] = defaultdict(list)
    for (topic, _), found in rows.items():
        for row in found:
            value = base64.b64decode(row[4]).decode()
            if topic == "lines":
                written.update(value.split())
            else:
                counted[base64.b64decode(row[3]).decode()].append(int(value))
    assert written.total() == 2 * line_count
    assert sorted(counted) == sorted(written)
    for word, values in counted.items():
        assert values == list(range(1, written[word] + 1)), f"the counts of {word!r} have gaps or repetitions"

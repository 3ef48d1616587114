"""Clients that stay while the broker goes away and comes back: after a controlled shutdown, and after kill -9."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it has no __all__

from tests.support.clients import PATIENCE_S, healthy_broker, new_topic
from tests.support.nodes import REPLICAS, Brokers

RESTARTS = 2


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with healthy_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def quiet(_: KafkaError) -> None:
    """A broker that is away is what this is about."""


class Stream:
    """One idempotent producer and one consumer, each in a thread, that know nothing of restarts."""

    def __init__(self, address: str, topic: str) -> None:
        common: dict[str, Any] = {"bootstrap.servers": address, "error_cb": quiet, "log_level": 2,
                                  "reconnect.backoff.max.ms": 200}  # fmt: skip
        self.producer = Producer({**common, "enable.idempotence": True, "linger.ms": 2, "retry.backoff.ms": 50})
        self.consumer = Consumer({**common, "group.id": "none", "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self.topic = topic
        self.failures: list[KafkaError] = []
        self.acknowledged: list[bytes | None] = []
        self.read: list[bytes | None] = []
        self.sent = 0
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        while not self._is_over.is_set():
            self.producer.produce(self.topic, b"%d" % self.sent, partition=0, on_delivery=self._on_delivery)
            self.sent += 1
            self.producer.poll(0)
            time.sleep(0.002)
        self.producer.flush(PATIENCE_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self.acknowledged.append(message.value())

    def _consume(self) -> None:
        deadline = None
        while deadline is None or (len(self.read) < self.sent and time.monotonic() < deadline):
            self.read += [m.value() for m in self.consumer.consume(500, 0.1) if m.error() is None]
            if deadline is None and self._is_over.is_set():
                deadline = time.monotonic() + PATIENCE_S
        self.consumer.close()

    def wait_for(self, more: int) -> None:
        """Until that many more records were acknowledged and read."""
        goal, deadline = len(self.acknowledged) + more, time.monotonic() + PATIENCE_S
        while min(len(self.acknowledged), len(self.read)) < goal:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} written, {len(self.read)} read, of {goal}"
            time.sleep(0.02)

    def finish(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(3 * PATIENCE_S)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_clients_go_on_where_the_broker_went_away(broker: Brokers, how: str) -> None:
    topic = new_topic("stays")
    config: dict[str, Any] = {"bootstrap.servers": broker.address, "error_cb": quiet, "log_level": 2}
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic, 1, REPLICAS)])[topic].result(PATIENCE_S)
    stream = Stream(broker.address, topic)
    try:
        for _ in range(RESTARTS):
            stream.wait_for(100)
            if how == "stop":
                broker.stop()
            else:
                broker.kill()
            broker.start()
        stream.wait_for(100)
    finally:
        stream.finish()
    assert stream.failures == []
    expected = [b"%d" % i for i in range(stream.sent)]
    assert stream.acknowledged == expected
    assert stream.read == expected, "each record once and in order"
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics, "the admin client has found its way back as well"

"""A topic with content for consumers, made by librdkafka."""

from __future__ import annotations

import random

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

CALL_RECORDS = 6_000


def fill(address: str, topic: str, partition_count: int, count: int, size: int, codec: str) -> None:
    """Create `topic` and put `count` records of `size` bytes in it."""
    admin = AdminClient({"bootstrap.servers": address})
    made = admin.create_topics([NewTopic(topic, partition_count, 1)])
    made[topic].result(30)
    if not count:
        return
    producer = Producer({
        "bootstrap.servers": address, "log_level": 3, "linger.ms": 20, "compression.type": codec,
        "queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 1 << 20, "batch.size": 500_000,
        "batch.num.messages": 10_000, "delivery.report.only.error": True,
    })  # fmt: skip
    chance = random.Random(7)
    # Text that compresses about as logs do: words in a random order.
    words = [f"{word}{number}".encode() for number in range(40) for word in ("order", "user", "price", "shop", "item")]
    values = [b" ".join(chance.choices(words, k=size // 5 + 1))[:size].ljust(size, b".") for _ in range(CALL_RECORDS)]
    records = [{"value": value, "partition": index % partition_count} for index, value in enumerate(values)]
    left = count
    while left:
        part = records[: min(left, CALL_RECORDS)]
        queued = producer.produce_batch(topic, part, on_delivery=_failed)
        left -= queued
        while len(producer) > 100_000:
            producer.poll(0.01)
    assert producer.flush(120) == 0, "not everything was acknowledged"


def _failed(error: object, _: object) -> None:
    if error is not None:
        raise KafkaException(error)

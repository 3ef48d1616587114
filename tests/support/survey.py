"""Everything a stock client can learn of a broker's topics, as plain values that can be compared.

Rows are those of tests/golden/data-dir.expected.json.xz: `[offset, timestamp type, timestamp, key, value, headers]`,
bytes in base64. Called by tests that start different brokers on one directory.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports more than its types say
    AdminClient,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

TIMEOUT_S = 30.0
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
QUIET: dict[str, Any] = {"error_cb": lambda _: None, "log_level": 2}
Row = list[Any]


def survey(
    address: str, topics: dict[str, int], times: Sequence[int] = (), isolation: Sequence[str] = ISOLATION_LEVELS
) -> dict[str, Any]:
    """Of every topic and partition: what both kinds of reader see, the ends, and the offsets for `times`."""
    found: dict[str, Any] = {topic: {str(number): {} for number in range(count)} for topic, count in topics.items()}
    places = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    for level in isolation:
        for (topic, number), rows in read_to_end(address, places, level).items():
            found[topic][str(number)][level] = rows
    consumer = Consumer(consumer_config(address, "read_uncommitted"))
    try:
        for place in places:
            one = found[place.topic][str(place.partition)]
            one["low"], one["high"] = consumer.get_watermark_offsets(place, timeout=TIMEOUT_S)
            asked = [
                consumer.offsets_for_times([TopicPartition(place.topic, place.partition, when)], timeout=TIMEOUT_S)
                for when in times
            ]
            one["offset_for_time"] = [[when, answer[0].offset] for when, answer in zip(times, asked, strict=True)]
    finally:
        consumer.close()
    return found


def read_to_end(address: str, places: Sequence[TopicPartition], isolation: str) -> dict[tuple[str, int], list[Row]]:
    """All rows of the partitions, from the first to where a reader of this kind is told that it has reached the end."""
    rows: dict[tuple[str, int], list[Row]] = {(place.topic, place.partition): [] for place in places}
    consumer = Consumer(consumer_config(address, isolation))
    consumer.assign([TopicPartition(place.topic, place.partition, 0) for place in places])
    missing = set(rows)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while missing:
            assert time.monotonic() < deadline, f"no end of {sorted(missing)}"
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                place = (str(message.topic()), int(message.partition() or 0))
                if error is None:
                    rows[place].append(row_of(message))
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    missing.discard(place)
    finally:
        consumer.close()
    return rows


def consumer_config(address: str, isolation: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "group.id": "nobody",  # partitions are assigned by hand: no group is joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 50,
        "check.crcs": True,
        **QUIET,
    }


def row_of(message: Message) -> Row:
    kind, when = message.timestamp()
    given: Any = message.headers() or []
    headers = [[name, _text(value)] for name, value in given]
    return [message.offset(), kind, when, _text(message.key()), _text(message.value()), headers]


def _text(data: str | bytes | None) -> str | None:
    assert not isinstance(data, str), data
    return None if data is None else base64.b64encode(data).decode()


def partition_counts(address: str) -> dict[str, int]:
    """The topics that there are, internal ones left out, and the number of their partitions."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(topic.partitions) for name, topic in sorted(topics.items()) if not name.startswith("__")}


def topic_configs(address: str, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """What was set for each topic itself."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    answers = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics])
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {
        resource.name: {
            name: entry.value for name, entry in sorted(answer.result(TIMEOUT_S).items()) if entry.source == own
        }
        for resource, answer in answers.items()
    }

"""The directory that a real Kafka wrote, served by Ottla and read with kafka-python."""

from __future__ import annotations

import base64
import time
import warnings
from pathlib import Path
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from tests.support.clients import PATIENCE_S
from tests.support.golden import golden_data_dir, golden_expected
from tests.support.server import Server, Settings
from tests.support.survey import ISOLATION_LEVELS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own schemas
    from kafka import KafkaConsumer, TopicPartition
    from kafka.codec import has_lz4, has_snappy, has_zstd

TOPICS: dict[str, Any] = golden_expected()["topics"]
UNREADABLE = {
    *([] if has_zstd() else ["zstd", "broker-zstd"]),
    *([] if has_snappy() else ["snappy"]),
    *([] if has_lz4() else ["lz4"]),
}
"""Without a codec's library it gives up on everything it was assigned."""


def read(address: str, isolation: str) -> dict[tuple[str, int], list[Any]]:
    """All that it reads of the topics it can read, as rows of the expected file."""
    places = [
        TopicPartition(topic, int(number))
        for topic, numbers in TOPICS.items()
        for number in numbers
        if topic not in UNREADABLE
    ]
    rows: dict[tuple[str, int], list[Any]] = {(place.topic, place.partition): [] for place in places}
    consumer = KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False, check_crcs=True
    )
    try:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        deadline = time.monotonic() + PATIENCE_S
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, "the end was not reached"
            for place, records in consumer.poll(200).items():
                rows[place.topic, place.partition] += [row_of(record) for record in records]
    finally:
        consumer.close()
    return rows


def row_of(record: Any) -> list[Any]:
    """Timestamp types are librdkafka's numbers in the expected file."""
    kind = {0: TIMESTAMP_CREATE_TIME, 1: TIMESTAMP_LOG_APPEND_TIME}[record.timestamp_type]
    headers = [[name, text(value)] for name, value in record.headers]
    return [record.offset, kind, record.timestamp, text(record.key), text(record.value), headers]


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_kafka_python_sees_what_librdkafka_saw_of_kafka(tmp_path: Path) -> None:
    settings = Settings(golden_data_dir(tmp_path / "data"))
    # Nothing may change while it is read.
    settings.update({"log.cleaner.enable": "false", "log.message.timestamp.before.max.ms": str(2**63 - 1)})
    with Server.ottla(settings.write(tmp_path / "server.properties")) as server:
        for isolation in ISOLATION_LEVELS:
            rows = read(server.address, isolation)
            assert len(rows) > 5, "topics that it can read"
            for (topic, number), found in rows.items():
                assert found == TOPICS[topic][str(number)][isolation], f"{topic}-{number} {isolation}"

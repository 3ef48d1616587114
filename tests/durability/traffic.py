"""What the round trips put on a broker: topics with settings, records of every codec, and a producer that stays.

Called by the tests that hand one directory from broker to broker.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its types leave it out

from tests.support.survey import QUIET, TIMEOUT_S, partition_counts, survey, topic_configs

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEGIN_MS = 1_700_000_000_000
RECORD_COUNT = 120
KEY_COUNT = 7
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    **{codec: (2, {"retention.ms": "-1", "segment.bytes": str(1 << 20)}) for codec in CODECS},
    "append-time": (1, {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}),
    "recompressed": (1, {"compression.type": "zstd", "retention.ms": "-1", "max.message.bytes": "500000"}),
    "compacted": (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}),
    "lasting": (1, {"retention.ms": "-1"}),
}
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "auto.create.topics.enable": "false",
}
Place = tuple[str, int]


def create_topics(address: str) -> None:
    """Make the topics, and one that is filled and deleted again."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    wanted = [NewTopic(topic, count, 1, config=config) for topic, (count, config) in TOPICS.items()]
    for made in admin.create_topics([*wanted, NewTopic("doomed", 3, 1)]).values():
        made.result(TIMEOUT_S)
    send(address, "doomed", "none", "gone")
    admin.delete_topics(["doomed"])["doomed"].result(TIMEOUT_S)


def send_everything(address: str, word: str) -> None:
    """Records for every topic but `lasting`, with `word` in their values."""
    for codec in CODECS:
        send(address, codec, codec, word)
    send(address, "append-time", "lz4", word)
    send(address, "recompressed", "gzip", word)
    for number in range(3):
        send(address, "compacted", "none", f"{word}-{number}")
        time.sleep(0.15)  # longer than segment.ms: the next records begin a segment, and the last can be cleaned


def send(address: str, topic: str, codec: str, word: str) -> None:
    """Records with keys, headers, timestamps and, except where keys are kept apart by them, some without a value."""
    producer = Producer({
        "bootstrap.servers": address,
        "compression.type": codec,
        "enable.idempotence": topic != "none",
        "linger.ms": 5,
        "batch.num.messages": 25,
        **QUIET,
    })  # fmt: skip
    reports: list[KafkaError | None] = []
    for number in range(RECORD_COUNT):
        producer.produce(
            topic,
            None if number % 11 == 10 else f"{word} {number} ".encode() * (number % 5 + 1),
            key=f"k{number % KEY_COUNT}".encode(),
            timestamp=BEGIN_MS + 1000 * number,
            headers=[("n", str(number).encode()), ("word", word.encode())] if number % 3 == 0 else [],
            on_delivery=lambda error, _: reports.append(error),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert reports == [None] * RECORD_COUNT


class LastingProducer:
    """One idempotent producer that outlives the brokers: its sequence goes on where the last broker left it."""

    def __init__(self, address: str) -> None:
        self._producer = Producer({
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 0,
            "reconnect.backoff.max.ms": 200,
            **QUIET,
        })  # fmt: skip
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []

    def send(self, count: int) -> None:
        for _ in range(count):
            value = b"%d" % (len(self.acknowledged) + len(self.refused))
            self._producer.produce("lasting", value, on_delivery=self._on_delivery)
            assert self._producer.flush(TIMEOUT_S) == 0, "not acknowledged in time"

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert isinstance(value, bytes), value
        if error is None:
            self.acknowledged.append(value)
        else:
            self.refused.append(str(error))


def all_of(address: str) -> dict[str, Any]:
    """What the broker serves, with what compaction may change at any time reduced to what it must keep."""
    times = [BEGIN_MS, BEGIN_MS + 77_500, BEGIN_MS + 10_000_000]
    counts = partition_counts(address)
    topics = survey(address, counts, times)
    if "compacted" in topics:
        one = topics["compacted"]["0"]
        topics["compacted"] = {"last": {row[3]: row for row in one["read_committed"]}, "high": one["high"]}
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    described = admin.describe_topics(TopicCollection(list(counts)))
    return {
        "cluster id": admin.list_topics(timeout=TIMEOUT_S).cluster_id,
        "topic ids": {topic: str(answer.result(TIMEOUT_S).topic_id) for topic, answer in described.items()},
        "configs": topic_configs(address, list(counts)),
        "topics": topics,
    }

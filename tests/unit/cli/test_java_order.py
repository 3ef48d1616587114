"""The order of Java's HashMap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli.java_order import map_order, partition_hash, string_hash, string_order
from ottla.types import TopicPartition
from tests.support.kafka import run_java

FACTS = Path(__file__).parent.parent.parent / "golden" / "kafka-facts" / "config-broker.json"
SOURCE = Path(__file__).parent / "JavaOrder.java"


def test_known_hash_codes() -> None:
    assert string_hash("") == 0
    assert string_hash("abc") == 96354
    assert string_hash("retention.ms") == string_hash("retention.ms") & 0xFFFF_FFFF
    assert partition_hash(TopicPartition("abc", 2)) == 31 * 33 + 96354


@pytest.mark.java
@pytest.mark.parametrize("count", [1, 5, 12, 13, 40, 300])
def test_keys_come_back_as_java_gives_them(count: int) -> None:
    names = [setting["name"] for setting in json.loads(FACTS.read_text())]
    words = [*names, "ümlaut", "日本", "😀"][-count:]
    done = run_java(str(SOURCE), words)
    assert done.returncode == 0, done.stderr
    partitions = [TopicPartition(word, index % 7) for index, word in enumerate(words)]
    assert done.stdout.splitlines() == [
        *string_order(words),
        *(str(partition) for partition in map_order(partitions, partition_hash)),
    ]

"""What `program` must have left in its topics, wherever it ran."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

from ottla.client import Consumer, ConsumerRecord, Producer, TopicPartition
from ottla.testing import Cluster
from tests.pipelines.clusters.program import PARTITIONS, PER_TRIGGER, RECORDS
from tests.support.clients import eventually, new_topic

LINES = ("to be or not", "to be", "be", "that is the question")


def make_topics(cluster: Cluster, stem: str) -> dict[str, str]:
    """The program's topics, and the lines of which it counts the words."""
    names = ("source", "copy", "words", "counts")
    topics = {name: cluster.create_topic(new_topic(f"{stem}-{name}"), PARTITIONS) for name in names}
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for line in LINES:
            producer.send(topics["words"], line.encode())
    return topics


def check_outcome(cluster: Cluster, topics: dict[str, str], found: dict[str, Any]) -> None:
    """Every record once, with its key in the partition where every producer would put it, and the words' counts."""
    assert (found["read"], found["zone"], found["again"]) == (RECORDS, "UTC", True)
    assert found["batches"] == [-(-RECORDS // PER_TRIGGER), 1], "the last micro-batch was done again"
    source, copied = (committed(cluster, topics[name], RECORDS) for name in ("source", "copy"))
    wanted = sorted((f"k{number}".encode(), f"order {number}".encode()) for number in range(RECORDS))
    assert sorted((record.key, record.value) for record in source) == wanted
    places = [sorted((record.key, record.partition) for record in records) for records in (source, copied)]
    assert places[0] == places[1]
    assert len({partition for _, partition in places[0]}) == PARTITIONS
    counts = Counter(word for line in LINES for word in line.split())
    last = {(record.key or b"").decode(): record.value or b"" for record in committed(cluster, topics["counts"], 1)}
    assert {word: struct.unpack(">q", value)[0] for word, value in last.items()} == counts


def committed(cluster: Cluster, topic: str, least: int) -> list[ConsumerRecord[bytes, bytes]]:
    """All records of a topic under read_committed, at least so many."""
    found: list[ConsumerRecord[bytes, bytes]] = []
    with Consumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)

        def is_at_the_end() -> bool:
            found.extend(consumer.poll(0.2))
            return all(consumer.position(one) >= end for one, end in ends.items())

        eventually(is_at_the_end, f"the end of {topic}")
    assert len(found) >= least
    return found

"""Changelog topics as files: their committed records as Arrow, and the way back into topics.

Promises: what is copied is what a read_committed reader sees; written back, a topic's records become visible together,
in the partitions and in the order they had.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores.shelf import Shelf

TRANSACTION_MS = 600_000
"""How long writing one topic back may take."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Records of a changelog from offsets to offsets, by partition."""

    start: dict[str, int]
    end: dict[str, int]
    records: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Changelog:
    """A changelog as it was: the topic's shape, and its committed records."""

    topic: str
    topic_id: str
    partitions: int
    settings: dict[str, str]
    segments: list[Segment]


def copy_changelog(client: Mapping[str, Any], topic: str, shelf: Shelf, earlier: Changelog | None) -> Changelog:
    """A changelog's committed records: those since an earlier snapshot of the same topic, or all."""
    import pyarrow as pa

    from ottla.client import Admin, ConfigResource, Consumer
    from ottla.types import TopicPartition

    with Admin(client) as admin:
        described = admin.describe_topics([topic])[topic].result()
        resource = ConfigResource.topic(topic)
        config = admin.describe_configs([resource], names=["cleanup.policy", "retention.ms"])[resource].result()
    settings = {one: config[one].value or "" for one in ("cleanup.policy", "retention.ms")}
    count = len(described.partitions)
    segments: list[Segment] = []
    if earlier is not None and (earlier.topic_id, earlier.partitions) == (str(described.topic_id), count):
        segments = list(earlier.segments)
    with Consumer[Any, Any]({**client, "isolation.level": "read_committed"}) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(count)]
        first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        done = segments[-1].end if segments else {}
        start = {one.partition: max(first[one], done.get(str(one.partition), 0)) for one in partitions}
        end = {one.partition: max(last[one], start[one.partition]) for one in partitions}
        if start != end or not segments:
            columns = ["partition", "timestamp", "key", "value"]
            table = consumer.topic(topic).read(start, end, columns=columns)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            data = sink.getvalue().to_pybytes()
            texts = [{str(number): offset for number, offset in side.items()} for side in (start, end)]
            segments.append(Segment(texts[0], texts[1], table.num_rows, len(data), shelf.put(data)))
    return Changelog(topic, str(described.topic_id), count, settings, segments)


def write_changelogs(client: Mapping[str, Any], changelogs: Sequence[Changelog], shelf: Shelf) -> dict[str, int]:
    """Write changelogs to topics that are not there or empty; the number of records by topic."""
    import pyarrow as pa

    from ottla.client import Producer

    tables = {
        one.topic: [pa.ipc.open_file(shelf.get(part.sha256, part.size)).read_all() for part in one.segments]
        for one in changelogs
    }
    _make_topics(client, changelogs)
    name = f"ottla-restore-{uuid.uuid4()}"
    with Producer({**client, "transactional.id": name, "transaction.timeout.ms": TRANSACTION_MS}) as producer:
        producer.init_transactions()
        for topic, parts in tables.items():
            producer.begin_transaction()
            for part in parts:
                for batch in part.to_batches():
                    producer.send_arrow(topic, batch).result()
            producer.commit_transaction()
    return {topic: sum(part.num_rows for part in parts) for topic, parts in tables.items()}


def _make_topics(client: Mapping[str, Any], changelogs: Iterable[Changelog]) -> None:
    from ottla.client import Admin, NewTopic, OffsetSpec
    from ottla.types import TopicPartition

    with Admin(client) as admin:
        there = admin.list_topics(include_internal=True)
        for one in changelogs:
            if one.topic not in there:
                admin.create_topics([NewTopic(one.topic, one.partitions, configs=one.settings)]).all()
                continue
            count = len(admin.describe_topics([one.topic])[one.topic].result().partitions)
            ends = admin.list_offsets({TopicPartition(one.topic, n): OffsetSpec.latest() for n in range(count)}).all()
            if count != one.partitions or any(found.offset for found in ends.values()):
                raise PipelineError(
                    f"Topic {one.topic} has records, or not {one.partitions} partitions: delete it first, and it is "
                    f"made again"
                )

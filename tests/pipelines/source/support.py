"""What the tests of the source share: records in a topic, and a reader driven as Spark drives it, without Spark's JVM.

Spark calls the reader's methods in Python processes of its own; here they are called in this one, with the objects
pickled where they would travel.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from ottla.client.admin import Admin, NewTopic
from ottla.client.producer import Producer
from ottla.errors import TopicAlreadyExists
from ottla.pipelines.data_source import OttlaDataSource
from ottla.pipelines.source.stream import OttlaStreamReader
from tests.support.clients import eventually

Json = dict[str, dict[str, int]]


class Brokers(Protocol):
    """A cluster: one of `ottla.testing`, or another."""

    @property
    def bootstrap_servers(self) -> str: ...


def produce(
    cluster: Brokers, topic: str, values: Iterable[bytes | None], partition: int = 0, **settings: object
) -> None:
    """These values, in order, in one partition."""
    with Producer({"bootstrap_servers": cluster.bootstrap_servers, **settings}) as producer:
        for value in values:
            producer.send(topic, value=value, partition=partition)
        producer.flush()


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def admin(cluster: Brokers) -> Admin:
    return Admin(bootstrap_servers=cluster.bootstrap_servers)


def source(cluster: Brokers, **options: str) -> OttlaDataSource:
    named = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return OttlaDataSource({**named, **{name.replace("__", "."): value for name, value in options.items()}})


def travelled(thing: Any) -> Any:
    """As it is in a task."""
    return pickle.loads(pickle.dumps(thing))


def table(schema: StructType, reader: Any, partitions: Sequence[Any]) -> pa.Table:
    """What the tasks give for these partitions, checked as Spark checks it."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    batches = [batch for partition in partitions for batch in travelled(reader).read(travelled(partition))]
    assert all(batch.schema.equals(wanted) for batch in batches)
    return pa.Table.from_batches(batches, schema=wanted)


def read_batch(cluster: Brokers, **options: str) -> pa.Table:
    """A batch query."""
    found = source(cluster, **options)
    reader = found.reader(found.schema())
    return table(found.schema(), reader, reader.partitions())


def values_of(rows: pa.Table) -> list[bytes | None]:
    return list(rows.column("value").to_pylist())


def offsets_of(offset: Json) -> Json:
    """The offsets without the ids of topics, which have no partitions."""
    return {topic: partitions for topic, partitions in offset.items() if partitions}


def recreate(cluster: Brokers, topic: str, values: Iterable[bytes | None]) -> None:
    """Another topic of the same name, with these values."""
    with admin(cluster) as client:
        client.delete_topics([topic]).all()

        def is_created() -> bool:
            outcome = client.create_topics([NewTopic(topic, 1, replication_factor=1)])[topic]
            return not isinstance(outcome.error, TopicAlreadyExists) and outcome.result() is not None

        eventually(is_created, f"{topic} is deleted and created: a broker with a ZooKeeper takes its time")
    produce(cluster, topic, values)


def topic_id(cluster: Brokers, topic: str) -> str:
    with admin(cluster) as client:
        return str(client.describe_topics([topic])[topic].result().topic_id)


class Stream:
    """A streaming query: micro-batches one after the other, from `start` or from where the options say."""

    def __init__(
        self,
        cluster: Brokers,
        options: Mapping[str, str],
        *,
        start: Mapping[str, Any] | None = None,
        available_now: bool = False,
    ) -> None:
        found = source(cluster, **options)
        self.schema = found.schema()
        reader = found.streamReader(self.schema)
        assert isinstance(reader, OttlaStreamReader)
        self.reader = reader
        if available_now:
            reader.prepareForTriggerAvailableNow()
        self.limit: ReadLimit = reader.getDefaultReadLimit()
        self.checkpoint: Json = dict(start) if start is not None else reader.initialOffset()
        """What Spark would keep."""

    @property
    def at(self) -> Json:
        """The offsets of the checkpoint."""
        return offsets_of(self.checkpoint)

    def plan(self) -> Json:
        """The end of the next micro-batch, as Spark would keep it."""
        return self.reader.latestOffset(self.checkpoint, self.limit)

    def next_end(self) -> Json:
        return offsets_of(self.plan())

    def next(self) -> pa.Table:
        """The next micro-batch; empty when there is none."""
        end = self.plan()
        rows = table(self.schema, self.reader, self.reader.partitions(self.checkpoint, end))
        self.checkpoint = end
        return rows

    def next_of_everything(self) -> pa.Table:
        self.limit = ReadAllAvailable()
        return self.next()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

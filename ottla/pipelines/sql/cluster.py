"""The cluster's part of SQL: topics that are listed, looked at, made and deleted, and their records printed.

Spark is not needed for any of it. Called by `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla.pipelines.sql.catalog import Source
from ottla.pipelines.sql.errors import SqlError

if TYPE_CHECKING:
    from ottla.client import Admin

POLL_S = 0.2
SHOWN_MAX = 200
"""Characters of a key or value that PRINT shows."""


class Cluster:
    """A cluster's address and how to speak to it."""

    def __init__(self, bootstrap: str, settings: Mapping[str, str]) -> None:
        self.bootstrap = bootstrap
        self.settings = {name: value for name, value in settings.items() if name != "bootstrap.servers"}

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An admin for the time of a question."""
        from ottla.client import Admin
        from ottla.client.config import FIRST_CONTACT
        from ottla.client.quiet import quiet_client

        with quiet_client(), Admin({**FIRST_CONTACT, **self.settings, "bootstrap.servers": self.bootstrap}) as admin:
            yield admin

    @property
    def id(self) -> str | None:
        """The cluster's own id."""
        with self.admin() as admin:
            return admin.describe_cluster().cluster_id

    def topics(self) -> list[tuple[str, int, int]]:
        """The topics with their partitions and replicas; Kafka's own are left out."""
        with self.admin() as admin:
            names = sorted(admin.list_topics())
            found = admin.describe_topics(names)
            described = [found[name].result() for name in names]
        return [
            (name, len(one.partitions), len(one.partitions[0].replicas) if one.partitions else 0)
            for name, one in zip(names, described, strict=True)
        ]

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None where there is no such topic."""
        from ottla.errors import UnknownTopicOrPartition

        with self.admin() as admin:
            outcome = admin.describe_topics([topic])[topic]
            if isinstance(outcome.error, UnknownTopicOrPartition):
                return None
            return len(outcome.result().partitions)

    def ensure_topic(self, source: Source, *, partitions: int | None, replicas: int | None) -> bool:
        """The source's topic, made where it is not there and the number of partitions is known; whether it was made."""
        from ottla.client import NewTopic

        there = self.partitions(source.topic)
        if there is not None:
            if partitions is not None and partitions != there:
                raise SqlError(f"the topic {source.topic} has {there} partitions, and PARTITIONS is {partitions}")
            return False
        if partitions is None:
            raise SqlError(f"there is no topic {source.topic}: with PARTITIONS = 1 it is made")
        configs = {}
        if source.kind == "TABLE":  # as ksqlDB: windows end, so their rows may go by age as well
            configs["cleanup.policy"] = "compact" if source.window is None else "compact,delete"
        with self.admin() as admin:
            admin.create_topics([NewTopic(source.topic, partitions, replicas, configs=configs)]).all()
        return True

    def delete_topics(self, topics: list[str]) -> None:
        """Deletes topics; one that is not there is gone already."""
        from ottla.errors import UnknownTopicOrPartition

        with self.admin() as admin:
            for topic, outcome in admin.delete_topics(topics).items():
                if outcome.error is not None and not isinstance(outcome.error, UnknownTopicOrPartition):
                    raise SqlError(f"the topic {topic} cannot be deleted: {outcome.error}")

    def own_topics(self, application: str) -> list[str]:
        """The topics that a query has made for itself."""
        with self.admin() as admin:
            names = admin.list_topics(include_internal=True)
        return [
            name
            for name in sorted(names)
            if name.startswith(f"{application}-") and name.endswith(("-repartition", "-changelog"))
        ]

    def records(
        self,
        topic: str,
        *,
        from_beginning: bool,
        limit: int | None,
        once: bool,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> Iterator[list[Any]]:
        """A topic's records as text, as they come; with `once`, those that there are now."""
        from ottla.client import Consumer
        from ottla.client.quiet import quiet_client
        from ottla.types import TopicPartition

        count = self.partitions(topic)
        if count is None:
            raise SqlError(f"there is no topic {topic}: SHOW TOPICS lists what there is")
        places = [TopicPartition(topic, number) for number in range(count)]
        settings = {**self.settings, "bootstrap.servers": self.bootstrap, "enable.auto.commit": "false",
                    "isolation.level": "read_committed"}  # fmt: skip
        with quiet_client(), Consumer(settings) as consumer:
            consumer.assign(places)
            if from_beginning:
                consumer.seek_to_beginning(places)
            else:
                consumer.seek_to_end(places)
            ends = consumer.end_offsets(places) if once else {}
            given = 0
            while limit is None or given < limit:
                if is_interrupted():
                    raise KeyboardInterrupt
                if once and all(consumer.position(place) >= ends[place] for place in places):
                    return
                for record in consumer.poll(POLL_S):
                    yield [record.timestamp, _shown(record.key), _shown(record.value), record.partition, record.offset]
                    given += 1
                    if given == limit:
                        return


def _shown(data: bytes | None) -> str | None:
    """Bytes as text, or in hexadecimal where they are none."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "0x" + data.hex()
    else:
        if not text.isprintable():
            text = "0x" + data.hex()
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 3]}..."

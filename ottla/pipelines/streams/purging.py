"""What was consumed is deleted from the topics between queries, as Kafka Streams deletes it from its own.

These topics keep records for ever (`cluster.OWN_TOPIC`), so that a topology may stand still for as long as it likes.
A record can go once every query that reads its topic has committed the micro-batch it was in: a restart begins behind
it. Spark tells of a micro-batch only after that, with the offsets where it ended. What cannot be deleted now is deleted
next time.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ottla.client import Admin
from ottla.errors import KafkaError
from ottla.pipelines.streams.graph import Source, Topology
from ottla.pipelines.streams.planning import Query, own_topic
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
"""How long a deletion may take; a stop waits for it."""

Progress = Mapping[str, Mapping[str, Any] | None]
"""What Spark says of each query's last micro-batch, by the query's name; None before the first."""


def readers(topology: Topology, queries: Iterable[Query]) -> dict[str, list[str]]:
    """The topics between queries, and the names of the queries that read each."""
    found: dict[str, list[str]] = {}
    for query in queries:
        origins = {inflow.origin.name: inflow.origin for side in query.inputs for inflow in side}
        for origin in origins.values():
            if not isinstance(origin.work, Source):
                found.setdefault(own_topic(topology, origin), []).append(query.name)
    return found


def consumed(topics: Mapping[str, Sequence[str]], progress: Progress) -> dict[TopicPartition, int]:
    """The offset of each partition before which all that read it are done; none where one has not told yet."""
    reached = {name: _reached(one) for name, one in progress.items() if one is not None}
    found: dict[TopicPartition, int] = {}
    for topic, names in topics.items():
        if all(name in reached for name in names):
            by_reader = [{at: offset for at, offset in reached[name].items() if at.topic == topic} for name in names]
            for at in set.intersection(*(set(offsets) for offsets in by_reader)):
                found[at] = min(offsets[at] for offsets in by_reader)
    return dict(sorted(found.items()))


def _reached(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Where a query's micro-batch ended. A topic that it reads twice counts where it was read the least."""
    found: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        ends = source["endOffset"]
        ends = json.loads(ends) if isinstance(ends, str) else ends
        for topic, partitions in (ends or {}).items():
            for partition, offset in partitions.items():
                at = TopicPartition(topic, int(partition))
                found[at] = min(offset, found.get(at, offset))
    return found


class Purging:
    """Deletes what was consumed, every `interval_s` from `start` to `stop`, or once when told."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[str]],
        *,
        admin: Callable[[], Admin],
        progress: Callable[[], Progress],
        interval_s: float,
    ) -> None:
        self._topics = dict(topics)
        self._admin = admin
        self._progress = progress
        self._interval_s = interval_s
        self._done: dict[TopicPartition, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-purging", daemon=True)

    def start(self) -> None:
        """Begins to look, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Looks no more; returns when nothing is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def once(self) -> None:
        """Deletes what was consumed by now."""
        new = {
            at: offset
            for at, offset in consumed(self._topics, self._progress()).items()
            if offset > self._done.get(at, 0)
        }
        if not new:
            return
        try:
            with self._admin() as admin:
                outcomes = admin.delete_records(new, timeout=TIMEOUT_S)
                for at, offset in new.items():
                    outcomes[at].result()
                    self._done[at] = offset
        except KafkaError as error:
            log.warning("[Topics %s] What was consumed was not deleted: %s", ", ".join(self._topics), error)

    def _run(self) -> None:
        while not self._over.wait(self._interval_s):
            self.once()

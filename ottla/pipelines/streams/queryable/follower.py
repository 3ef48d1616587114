"""Reads a changelog topic into a `StateTable`, as far as it is committed.

Promises: after `catch_up` the table has everything that was committed before the call. A changelog whose beginning is
gone past the table's positions (its records were deleted, or it is another topic of the same name) is read again from
where it begins now. Not for two threads at once: the store that has it takes care of that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from ottla.client import Admin, Consumer, KafkaTimeout, OffsetsOutOfRange, TopicPartition
from ottla.errors import UnknownTopicOrPartition
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.queryable.table import Change, StateTable
from ottla.pipelines.streams.stores import StoreSpec
from ottla.pipelines.streams.stores.layout import read_key

log = logging.getLogger(__name__)

POLL_S = 0.5
BATCH_RECORDS = 50_000
"""How many changes are taken into the table at once."""


class Follower:
    """One reader of one changelog."""

    def __init__(
        self, settings: Mapping[str, Any], topic: str, spec: StoreSpec, table: StateTable, *, is_changelog: bool = True
    ) -> None:
        """`is_changelog`: a topic of the application's own, and so without records that are no rows."""
        self._settings = settings
        self._spec = spec
        self._table = table
        self._topic = topic
        self._is_changelog = is_changelog
        self._topic_id, self._partitions = self._described()
        self._consumer: Consumer[bytes, bytes] = Consumer(
            {
                **settings,
                "isolation.level": "read_committed",
                "auto.offset.reset": "none",
                "enable.auto.commit": "false",
                "max.poll.records": str(BATCH_RECORDS),
            }
        )
        self._begin()

    def _described(self) -> tuple[str, list[TopicPartition]]:
        with Admin(self._settings) as admin:
            try:
                found = admin.describe_topics([self._topic])[self._topic].result()
            except UnknownTopicOrPartition:
                raise PipelineError(
                    f"There is no topic {self._topic}: the store has not been written yet, or has another name"
                ) from None
        return str(found.topic_id), [TopicPartition(self._topic, number) for number in range(len(found.partitions))]

    def _begin(self) -> None:
        """Stand where the table ends, or where the changelog begins."""
        spec = self._spec
        self._table.is_copy_of(
            {"topic": self._topic, "id": self._topic_id, "kind": spec.kind.value, "window": str(spec.window_ms)}
        )
        self._consumer.assign(self._partitions)
        positions = self._table.positions()
        fresh = [one for one in self._partitions if one.partition not in positions]
        starts = self._consumer.beginning_offsets(fresh) if fresh else {}
        for one in self._partitions:
            self._consumer.seek(one, positions[one.partition] if one.partition in positions else starts[one])

    def close(self) -> None:
        self._consumer.close()

    def catch_up(self, timeout_s: float) -> None:
        """Take in all that is committed now; `KafkaTimeout` when that takes longer."""
        deadline = time.monotonic() + timeout_s
        ends = self._ends(timeout_s)
        while any(self._consumer.position(one) < ends[one] for one in self._partitions):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise KafkaTimeout(f"{self._topic} was not read to its end within {timeout_s:g} s")
            try:
                self._step(min(left_s, POLL_S))
            except OffsetsOutOfRange:
                log.warning("[StateTable %s] what follows is gone from the topic; reading it anew", self._topic)
                self._table.clear()
                self._topic_id, self._partitions = self._described()
                self._begin()
                ends = self._ends(timeout_s)

    def _ends(self, timeout_s: float) -> dict[TopicPartition, int]:
        """The ends of what is committed. A topic that is shorter than what was read may be another of its name."""
        try:
            ends = self._consumer.end_offsets(self._partitions, timeout=timeout_s)
            if all(self._consumer.position(one) <= ends[one] for one in self._partitions):
                return ends
        except KafkaTimeout:
            # Partitions that are not there any more are asked for until the time is over.
            if not self._was_replaced():
                raise
            return self._consumer.end_offsets(self._partitions, timeout=timeout_s)
        return self._consumer.end_offsets(self._partitions, timeout=timeout_s) if self._was_replaced() else ends

    def _was_replaced(self) -> bool:
        """Whether the topic was deleted and made again; if so, what was read of the old one is forgotten."""
        topic_id, partitions = self._described()
        if topic_id == self._topic_id:
            return False
        log.warning("[StateTable %s] the topic was deleted and made again; reading it anew", self._topic)
        self._topic_id, self._partitions = topic_id, partitions
        self._begin()
        return True

    def _step(self, timeout_s: float) -> None:
        records = self._consumer.poll(timeout_s)
        # The position is behind the markers of transactions too, which are no records.
        positions = {one.partition: self._consumer.position(one) for one in self._partitions}
        self._table.apply(self._changes(records), positions, retention_ms=self._spec.retention_ms)

    def _changes(self, records: list[Any]) -> Iterator[Change]:
        for record in records:
            if record.key is None and not self._is_changelog:
                continue  # a table's topic may have such a record, which is no row
            if record.key is None:
                raise PipelineError(
                    f"{self._topic}-{record.partition} has a record without a key at offset {record.offset}: "
                    f"it is not the changelog of store {self._spec.name}"
                )
            key = read_key(self._spec.kind, record.key, window_ms=self._spec.window_ms)
            yield Change(key, record.value, record.timestamp, record.partition)

"""Offsets of partitions: where they begin and end, what was written when; and deleting what is before an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.admin.driver import Call, Driver, by_topic, failure
from ottla.client.admin.outcome import Outcomes
from ottla.client.admin.routes import Route
from ottla.client.network import Build
from ottla.errors import InvalidRequest, KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LIST_OFFSETS_KEY = 2
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
CONSUMER, DEBUGGER = -1, -2
"""Who asks, in place of a replica's id: a debugger may ask any replica, and is told the end of its log."""


class OffsetSpec(NamedTuple):
    """Which offset of a partition. `version_min` is the first version of ListOffsets that knows it."""

    timestamp: int
    version_min: int = 1

    @classmethod
    def latest(cls) -> OffsetSpec:
        """The end: the high watermark, or with read_committed the last stable offset."""
        return cls(-1)

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first record there is."""
        return cls(-2)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """The first record whose timestamp is this or later."""
        if timestamp_ms < 0:
            raise InvalidRequest(f"{timestamp_ms} is no timestamp: it counts milliseconds since 1970")
        return cls(timestamp_ms)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The record with the greatest timestamp (KIP-734)."""
        return cls(-3, 7)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        """The first record on the broker's own disk (KIP-405)."""
        return cls(-4, 8)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        """The last record in tiered storage (KIP-1005)."""
        return cls(-5, 9)

    @classmethod
    def earliest_pending_upload(cls) -> OffsetSpec:
        """The first record that is not in tiered storage yet (KIP-1023)."""
        return cls(-6, 11)


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """An offset that was found. -1 is none: no record is that new, or there is nothing in that storage."""

    offset: int
    timestamp: int = -1
    leader_epoch: int | None = None


def list_offsets(
    driver: Driver,
    specs: Mapping[TopicPartition, OffsetSpec],
    *,
    isolation_level: str,
    timeout: float | None,
) -> Outcomes[TopicPartition, ListedOffset]:
    isolation = ISOLATION_LEVELS.get(isolation_level)
    if isolation is None:
        raise InvalidRequest(f"{isolation_level} is no isolation level: read_uncommitted and read_committed are")
    deadline = driver.deadline(timeout)

    def build_for(version_min: int) -> Call[TopicPartition, ListedOffset]:
        def build(node_id: int, keys: list[TopicPartition]) -> Build:
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=isolation,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=index, timestamp=specs[TopicPartition(topic, index)].timestamp
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(keys).items()
                ],
                timeout_ms=driver.request_ms(deadline),
            )
            return Build(LIST_OFFSETS_KEY, lambda version: request, version_min=max(version_min, 2 if isolation else 1))

        return Call("ListOffsets", driver.leaders, build, _read_offsets)

    async def work(outcomes: Outcomes[TopicPartition, ListedOffset]) -> None:
        # What an older broker does not know must not keep it from answering the rest.
        by_version: dict[int, list[TopicPartition]] = {}
        for key in outcomes:
            by_version.setdefault(specs[key].version_min, []).append(key)
        works = [driver.pursue(build_for(version), outcomes, deadline, keys) for version, keys in by_version.items()]
        await driver.together("ListOffsets", works)

    return driver.start("ListOffsets", specs, work)


def _read_offsets(
    node_id: int, keys: list[TopicPartition], response: ListOffsetsResponse
) -> Iterable[tuple[TopicPartition, ListedOffset | KafkaError]]:
    for topic in response.topics:
        for one in topic.partitions:
            epoch = one.leader_epoch if one.leader_epoch >= 0 else None
            yield (
                TopicPartition(topic.name, one.partition_index),
                failure(one.error_code) or ListedOffset(one.offset, one.timestamp, epoch),
            )


def list_log_ends(
    driver: Driver, wanted: Mapping[int, Iterable[TopicPartition]], *, timeout: float | None
) -> Outcomes[int, dict[TopicPartition, int]]:
    deadline = driver.deadline(timeout)
    topics = {broker: by_topic(partitions) for broker, partitions in wanted.items()}

    def build(node_id: int, keys: list[int]) -> Build:
        request = ListOffsetsRequest(
            replica_id=DEBUGGER,
            isolation_level=0,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=OffsetSpec.latest().timestamp)
                        for index in indexes
                    ],
                )
                for topic, indexes in topics[node_id].items()
            ],
            timeout_ms=driver.request_ms(deadline),
        )
        return Build(LIST_OFFSETS_KEY, lambda version: request, version_min=1)

    def read(
        node_id: int, keys: list[int], response: ListOffsetsResponse
    ) -> Iterable[tuple[int, dict[TopicPartition, int]]]:
        yield (
            node_id,
            {
                TopicPartition(topic.name, one.partition_index): one.offset
                for topic in response.topics
                for one in topic.partitions
                if not one.error_code
            },
        )

    route: Route[int] = driver.node_of(lambda broker: broker)
    call = Call("ListLogEnds", route, build, read)
    return driver.start(call.what, wanted, lambda outcomes: driver.pursue(call, outcomes, deadline))


def delete_records(
    driver: Driver, before: Mapping[TopicPartition, int], *, timeout: float | None
) -> Outcomes[TopicPartition, int]:
    deadline = driver.deadline(timeout)

    def build(node_id: int, keys: list[TopicPartition]) -> DeleteRecordsRequest:
        return DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(keys).items()
            ],
            timeout_ms=driver.request_ms(deadline),
        )

    def read(
        node_id: int, keys: list[TopicPartition], response: DeleteRecordsResponse
    ) -> Iterable[tuple[TopicPartition, int | KafkaError]]:
        for topic in response.topics:
            for one in topic.partitions:
                key = TopicPartition(topic.name, one.partition_index)
                yield key, failure(one.error_code) or one.low_watermark

    call = Call("DeleteRecords", driver.leaders, build, read)
    return driver.start(call.what, before, lambda outcomes: driver.pursue(call, outcomes, deadline))

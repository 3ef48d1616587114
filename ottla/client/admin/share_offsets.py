"""Where a share group reads from: the start offset of each partition, listed, set and deleted (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.driver import Call, Driver, Parts, by_topic, check, failure, names_of
from ottla.client.admin.outcome import Outcomes
from ottla.errors import KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """Where a share group reads a partition from, and how far that is from its end; None where that is not told."""

    start_offset: int
    leader_epoch: int | None = None
    lag: int | None = None


ShareOffsets = dict[TopicPartition, SharePartitionOffset | None]
"""By partition; None for one that the group has not read from."""
OffsetsWanted = Iterable[str] | Mapping[str, Iterable[TopicPartition] | None]


def list_share_group_offsets(
    driver: Driver, groups: OffsetsWanted, *, timeout: float | None
) -> Outcomes[str, ShareOffsets]:
    wanted: dict[str, dict[str, list[int]] | None]
    if isinstance(groups, Mapping):
        wanted = {group: None if asked is None else by_topic(asked) for group, asked in groups.items()}
    else:
        wanted = dict.fromkeys(names_of(groups))

    def build(node_id: int, keys: list[str]) -> DescribeShareGroupOffsetsRequest:
        asked = []
        for key in keys:
            topics = wanted[key]
            asked.append(
                DescribeShareGroupOffsetsRequestGroup(
                    group_id=key,
                    topics=None
                    if topics is None
                    else [
                        DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=indexes)
                        for topic, indexes in topics.items()
                    ],
                )
            )
        return DescribeShareGroupOffsetsRequest(groups=asked)

    def read(
        node_id: int, keys: list[str], response: DescribeShareGroupOffsetsResponse
    ) -> Iterable[tuple[str, ShareOffsets | KafkaError]]:
        for group in response.groups:
            yield group.group_id, failure(group.error_code, group.error_message) or _offsets(group)

    return driver.drive(Call("ListShareGroupOffsets", driver.groups, build, read), wanted, timeout)


def _offsets(group: DescribeShareGroupOffsetsResponseGroup) -> ShareOffsets | KafkaError:
    offsets: ShareOffsets = {}
    for topic in group.topics:
        for one in topic.partitions:
            error = failure(one.error_code, one.error_message)
            if error is not None:
                return error
            found = SharePartitionOffset(
                one.start_offset,
                one.leader_epoch if one.leader_epoch >= 0 else None,
                one.lag if one.lag >= 0 else None,
            )
            offsets[TopicPartition(topic.topic_name, one.partition_index)] = found if one.start_offset >= 0 else None
    return offsets


def alter_share_group_offsets(
    driver: Driver, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None
) -> Outcomes[TopicPartition, None]:
    def build(node_id: int, keys: list[str]) -> AlterShareGroupOffsetsRequest:
        return AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index, start_offset=offsets[TopicPartition(topic, index)]
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(offsets).items()
            ],
        )

    def read(
        node_id: int, keys: list[str], response: AlterShareGroupOffsetsResponse
    ) -> Iterable[tuple[str, Parts[TopicPartition, None] | KafkaError]]:
        check(response.error_code, response.error_message)
        yield (
            group_id,
            {
                TopicPartition(topic.topic_name, one.partition_index): failure(one.error_code, one.error_message)
                for topic in response.responses
                for one in topic.partitions
            },
        )

    return driver.parts(
        Call("AlterShareGroupOffsets", driver.groups, build, read), group_id, offsets, driver.deadline(timeout)
    )


def delete_share_group_offsets(
    driver: Driver, group_id: str, topics: Iterable[str], *, timeout: float | None
) -> Outcomes[str, None]:
    wanted = names_of(topics)

    def build(node_id: int, keys: list[str]) -> DeleteShareGroupOffsetsRequest:
        return DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in wanted]
        )

    def read(
        node_id: int, keys: list[str], response: DeleteShareGroupOffsetsResponse
    ) -> Iterable[tuple[str, Parts[str, None] | KafkaError]]:
        check(response.error_code, response.error_message)
        yield group_id, {one.topic_name: failure(one.error_code, one.error_message) for one in response.responses}

    return driver.parts(
        Call("DeleteShareGroupOffsets", driver.groups, build, read), group_id, wanted, driver.deadline(timeout)
    )

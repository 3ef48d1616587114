"""Offsets that groups have committed: list, set, delete. Share groups keep start offsets, by an API of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.client.admin.driver import Call, Driver, Parts, by_topic, check, failure, names_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.group import OffsetAndMetadata
from ottla.client.network import Build
from ottla.errors import KafkaError, UnstableOffsetCommit, UnsupportedVersion
from ottla.types import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

log = logging.getLogger(__name__)

OFFSET_COMMIT_KEY = 8
OFFSET_FETCH_KEY = 9
WITH_NAMES = 9
"""The last version of both that names topics; after it they have ids, which an admin does not know."""
BATCHED_FETCH = 8

GroupOffsets = dict[TopicPartition, OffsetAndMetadata | None]
"""What a group has committed; None for a partition that was asked for and has nothing."""
OffsetsWanted = Iterable[str] | Mapping[str, Iterable[TopicPartition] | None]
"""Groups, or groups with the partitions to tell of; None, or a group alone, is all it has."""


def list_consumer_group_offsets(
    driver: Driver, groups: OffsetsWanted, *, require_stable: bool, timeout: float | None
) -> Outcomes[str, GroupOffsets]:
    wanted = _wanted(groups)
    deadline = driver.deadline(timeout)

    def build_many(node_id: int, keys: list[str]) -> Build:
        def make(version: int) -> OffsetFetchRequest:
            requested = []
            for key in keys:
                topics = wanted[key]
                requested.append(
                    OffsetFetchRequestGroup(
                        group_id=key,
                        topics=None
                        if topics is None
                        else [
                            OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
                            for topic, indexes in topics.items()
                        ],
                    )
                )
            return OffsetFetchRequest(groups=requested, require_stable=require_stable)

        return Build(OFFSET_FETCH_KEY, make, version_min=BATCHED_FETCH, version_max=WITH_NAMES)

    def build_one(node_id: int, keys: list[str]) -> Build:
        topics = wanted[keys[0]]

        def make(version: int) -> OffsetFetchRequest:
            if topics is None and version < 2:
                raise UnsupportedVersion("The broker is too old to tell all offsets of a group: name the partitions")
            if require_stable and version < 7:
                raise UnsupportedVersion("The broker is too old to wait for stable offsets")
            asked = None
            if topics is not None:
                asked = [
                    OffsetFetchRequestTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()
                ]
            return OffsetFetchRequest(group_id=keys[0], topics=asked, require_stable=require_stable)

        return Build(OFFSET_FETCH_KEY, make, version_max=BATCHED_FETCH - 1)

    def read_many(
        node_id: int, keys: list[str], response: OffsetFetchResponse
    ) -> Iterable[tuple[str, GroupOffsets | KafkaError]]:
        for group in response.groups:
            yield group.group_id, failure(group.error_code) or _committed(group)

    def read_one(
        node_id: int, keys: list[str], response: OffsetFetchResponse
    ) -> Iterable[tuple[str, GroupOffsets | KafkaError]]:
        yield keys[0], failure(response.error_code) or _committed(response)

    async def work(outcomes: Outcomes[str, GroupOffsets]) -> None:
        many = await driver.each(Call("ListGroupOffsets", driver.groups, build_many, read_many), outcomes, deadline)
        for key, outcome in many.items():
            if not isinstance(outcome.error, UnsupportedVersion):
                outcomes.settle(key, outcome.error or outcome.result())
        call = Call("ListGroupOffsets", driver.groups, build_one, read_one, one_by_one=True)
        await driver.pursue(call, outcomes, deadline)

    return driver.start("ListGroupOffsets", wanted, work)


def _wanted(groups: OffsetsWanted) -> dict[str, dict[str, list[int]] | None]:
    if isinstance(groups, Mapping):
        return {group: None if asked is None else by_topic(asked) for group, asked in groups.items()}
    return dict.fromkeys(names_of(groups))


def _committed(group: OffsetFetchResponse | OffsetFetchResponseGroup) -> GroupOffsets | KafkaError:
    offsets: GroupOffsets = {}
    for topic in group.topics:
        for one in topic.partitions:
            key = TopicPartition(topic.name, one.partition_index)
            if one.error_code == UnstableOffsetCommit.code:
                return UnstableOffsetCommit()
            error = failure(one.error_code)
            if error is not None:
                log.warning("The offset of %s is left out: %s", key, error)
            elif one.committed_offset < 0:
                offsets[key] = None
            else:
                epoch = one.committed_leader_epoch if one.committed_leader_epoch >= 0 else None
                offsets[key] = OffsetAndMetadata(one.committed_offset, one.metadata or "", epoch)
    return offsets


def alter_consumer_group_offsets(
    driver: Driver,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
    *,
    timeout: float | None,
) -> Outcomes[TopicPartition, None]:
    wanted = {key: OffsetAndMetadata(one) if isinstance(one, int) else one for key, one in offsets.items()}

    def make(version: int) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit(index, wanted[TopicPartition(topic, index)]) for index in indexes],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )

    def build(node_id: int, keys: list[str]) -> Build:
        return Build(OFFSET_COMMIT_KEY, make, version_max=WITH_NAMES)

    def read(
        node_id: int, keys: list[str], response: OffsetCommitResponse
    ) -> Iterable[tuple[str, Parts[TopicPartition, None] | KafkaError]]:
        answers = {
            TopicPartition(topic.name, one.partition_index): failure(one.error_code)
            for topic in response.topics
            for one in topic.partitions
        }
        for error in answers.values():
            if error is not None and driver.groups.is_retried(error):
                raise error  # the coordinator's state, and not the partition's: all of it is sent again
        yield group_id, answers

    return driver.parts(
        Call("AlterGroupOffsets", driver.groups, build, read), group_id, wanted, driver.deadline(timeout)
    )


def _commit(index: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def delete_consumer_group_offsets(
    driver: Driver, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None
) -> Outcomes[TopicPartition, None]:
    wanted = list(partitions)

    def build(node_id: int, keys: list[str]) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )

    def read(
        node_id: int, keys: list[str], response: OffsetDeleteResponse
    ) -> Iterable[tuple[str, Parts[TopicPartition, None] | KafkaError]]:
        check(response.error_code)
        yield (
            group_id,
            {
                TopicPartition(topic.name, one.partition_index): failure(one.error_code)
                for topic in response.topics
                for one in topic.partitions
            },
        )

    return driver.parts(
        Call("DeleteGroupOffsets", driver.groups, build, read), group_id, wanted, driver.deadline(timeout)
    )

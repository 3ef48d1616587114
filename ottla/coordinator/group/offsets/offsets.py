"""`Offsets`: commits, fetches, deletions and the expiry of offsets, of groups of every protocol.

Whether a member may commit or fetch is its group's to say (`Group.check_offset_commit`). An offset for a group that
does not exist makes one, an empty classic group without a protocol: that is how consumers without group membership, and
the tools, keep offsets.

Promises: what is fetched is committed to the log; a commit in a transaction is not seen before the transaction's end;
of several commits the one written last counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.family import Replay
from ottla.coordinator.group.group import CommitCheck, Group, GroupType
from ottla.coordinator.group.offsets.pending import PendingOffsets
from ottla.coordinator.group.offsets.records import (
    NONE,
    modern,
    offset_record,
    offset_tombstone,
    offset_value,
    value_version,
)
from ottla.coordinator.group.offsets.table import OffsetTable
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnstableOffsetCommit,
)
from ottla.machine import Result
from ottla.metadata import Delta
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.coordinator.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

GROUP_NOT_FOUND_VERSION = 9
"""From here on OffsetCommit has an error of its own for a group that does not exist."""
NO_OFFSET = -1
# By itself, because Python 3.11 takes three times as long to find a member in its enum.
_CLASSIC = GroupType.CLASSIC


class Offsets:
    """See the module. Public: the decisions, and what groups ask when they are deleted."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.committed = OffsetTable(shard.context.undo)
        self.pending = PendingOffsets(shard.context.undo)
        self._topic_ids: dict[Uuid, Uuid] = {}
        self.replays: Mapping[int, Replay] = {0: self._replay_legacy, 1: self._replay}

    # Committing

    def commit(self, request: OffsetCommitRequest, version: int) -> Result[OffsetCommitResponse]:
        """Store what a member, or somebody without a group, has consumed up to; topics have both id and name."""
        check = self._check_commit(request, version)
        shard = self.shard
        now_ms = shard.context.world.clock.now_ms()
        expire_ms = NONE if request.retention_time_ms == NONE else now_ms + request.retention_time_ms
        version_written = value_version(expire_ms)
        group_id = request.group_id
        records = []
        topics = []
        for topic in request.topics:
            name, topic_id = topic.name, topic.topic_id
            partitions = []
            for one in topic.partitions:
                index, metadata = one.partition_index, one.committed_metadata
                if metadata and _java_length(metadata) > shard.config.offset_metadata_max_bytes:
                    partitions.append(OffsetCommitResponsePartition(index, OffsetMetadataTooLarge.code))
                    continue
                if check is not None:
                    check(name, topic_id, index)
                value = OffsetCommitValue(
                    one.committed_offset, one.committed_leader_epoch, metadata or "", now_ms, expire_ms, topic_id
                )
                records.append(CoordinatorRecord(OffsetCommitKey(group_id, name, index), value, version_written))
                partitions.append(OffsetCommitResponsePartition(index, 0))
            topics.append(OffsetCommitResponseTopic(name, topic_id, partitions))
        shard.metrics.offset_commits += len(records)
        return Result(OffsetCommitResponse(0, topics), records)

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> CommitCheck | None:
        group = self.shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch < 0:
                return None
            if version >= GROUP_NOT_FOUND_VERSION:
                raise GroupIdNotFound(f"Group {request.group_id} not found.")
            raise IllegalGeneration
        check = group.check_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            is_transactional=False,
            version=version,
        )
        if group.type is _CLASSIC:
            self.shard.classic.on_offset_commit(group, request.member_id)
        return check

    def commit_in_transaction(self, request: TxnOffsetCommitRequest, version: int) -> Result[TxnOffsetCommitResponse]:
        """The same as part of a producer's transaction."""
        check = self._check_transactional_commit(request, version)
        shard = self.shard
        now_ms = shard.context.world.clock.now_ms()
        metadata_max = shard.config.offset_metadata_max_bytes
        records = []
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            image = shard.context.image.topics.by_name.get(topic.name)
            if image is None and check is not None:
                raise IllegalGeneration
            partitions: list[TxnOffsetCommitResponsePartition] = []
            response.topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
            for one in topic.partitions:
                index, metadata = one.partition_index, one.committed_metadata
                if metadata and _java_length(metadata) > metadata_max:
                    partitions.append(TxnOffsetCommitResponsePartition(index, OffsetMetadataTooLarge.code))
                    continue
                if check is not None and image is not None:
                    try:
                        check(topic.name, image.id, index)
                    except StaleMemberEpoch:
                        raise IllegalGeneration from None
                value = offset_value(
                    one.committed_offset, one.committed_leader_epoch, metadata, now_ms, NONE, ZERO_UUID
                )
                records.append(offset_record(request.group_id, topic.name, index, value))
                partitions.append(TxnOffsetCommitResponsePartition(index, 0))
        shard.metrics.offset_commits += len(records)
        return Result(response, records)

    def _check_transactional_commit(self, request: TxnOffsetCommitRequest, version: int) -> CommitCheck | None:
        group = self.shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id < 0:
                return None
            raise IllegalGeneration
        try:
            return group.check_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                is_transactional=True,
                version=version,
            )
        except StaleMemberEpoch:
            # An error that this API's clients do not know.
            raise IllegalGeneration from None

    # Fetching

    def fetch(self, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
        """The offsets of one group: of the partitions asked for, or all. Topics have a name, and an id if it counts."""
        group_id = request.group_id
        group = self.shard.groups.get(group_id)
        response = OffsetFetchResponseGroup(group_id=group_id)
        topics = {}
        if group is not None:
            try:
                group.check_offset_fetch(request.member_id, request.member_epoch)
                topics = self.committed.of_group(group_id)
            except GroupIdNotFound:
                group = None
        if request.topics is None:
            for name, offsets in topics.items():
                response.topics.append(
                    OffsetFetchResponseTopics(
                        name,
                        ZERO_UUID,
                        [
                            self._fetched(group_id, name, index, value, require_stable)
                            for index, value in offsets.items()
                        ],
                    )
                )
            return response
        for topic in request.topics:
            found = topics.get(topic.name, {})
            partitions = []
            for index in topic.partition_indexes:
                offset = found.get(index)
                if offset is not None and _is_of_another_topic(offset.topic_id, topic.topic_id):
                    offset = None
                partitions.append(self._fetched(group_id, topic.name, index, offset, require_stable))
            response.topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
        return response

    def _fetched(
        self, group_id: str, topic: str, index: int, value: OffsetCommitValue | None, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        if require_stable and self.pending.has(group_id, topic, index):
            return OffsetFetchResponsePartitions(index, NO_OFFSET, NONE, "", UnstableOffsetCommit.code)
        if value is None:
            return OffsetFetchResponsePartitions(index, NO_OFFSET, NONE, "", 0)
        return OffsetFetchResponsePartitions(index, value.offset, value.leader_epoch, value.metadata, 0)

    # Deleting

    def delete(self, request: OffsetDeleteRequest) -> Result[OffsetDeleteResponse]:
        """Forget offsets of topics that the group does not consume."""
        group_id = request.group_id
        group = self.shard.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        group.check_offset_delete()
        records = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            name = topic.name
            code = GroupSubscribedToTopic.code if group.is_subscribed_to(name) else 0
            partitions = []
            for index in dict.fromkeys(one.partition_index for one in topic.partitions):
                partitions.append(OffsetDeleteResponsePartition(index, code))
                if not code and self._has_any(group_id, name, index):
                    records.append(offset_tombstone(group_id, name, index))
            response.topics.append(OffsetDeleteResponseTopic(name, partitions))
        self.shard.metrics.offset_deletions += len(records)
        return Result(response, records)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """The end of all offsets of a group, those of open transactions too."""
        keys = {
            (topic, index): None
            for topic, partitions in self.committed.of_group(group_id).items()
            for index in partitions
        }
        keys.update(dict.fromkeys(self.pending.partitions_of(group_id)))
        return [offset_tombstone(group_id, topic, index) for topic, index in keys]

    def of_deleted_topics(self, deleted: Mapping[str, Uuid], *, count_max: int) -> list[CoordinatorRecord]:
        """The end of the offsets of topics that are gone, at most so many at once; more are left when it is as many."""
        records: dict[tuple[str, str, int], CoordinatorRecord] = {}

        def add(group_id: str, topic: str, index: int, value: OffsetCommitValue) -> None:
            # An offset without an id was written before ids were.
            if value.topic_id in (ZERO_UUID, deleted[topic]):
                records[group_id, topic, index] = offset_tombstone(group_id, topic, index)

        for group_id, topics in self.committed.groups():
            for topic in deleted.keys() & topics.keys():
                for index, value in topics[topic].items():
                    add(group_id, topic, index, value)
            if len(records) >= count_max:
                return list(records.values())[:count_max]
        for group_id, (topic, index), value in self.pending:
            if topic in deleted:
                add(group_id, topic, index, value)
        return list(records.values())[:count_max]

    def _has_any(self, group_id: str, topic: str, index: int) -> bool:
        return self.committed.get(group_id, topic, index) is not None or self.pending.has(group_id, topic, index)

    # Expiring

    def expired(self, group: Group, now_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """The end of the group's offsets that nobody has needed for long, and whether none is left then."""
        group_id = group.group_id
        topics = self.committed.of_group(group_id)
        if not topics:
            return [], not self.pending.has_group(group_id)
        retention_ms = self.shard.config.offsets_retention_minutes * 60_000
        records: list[CoordinatorRecord] = []
        are_all = True
        for topic, partitions in topics.items():
            if group.is_subscribed_to(topic):
                are_all = False
                continue
            for index, value in partitions.items():
                if _has_expired(group, value, now_ms, retention_ms) and not self.pending.has(group_id, topic, index):
                    records.append(offset_tombstone(group_id, topic, index))
                else:
                    are_all = False
        self.shard.metrics.offset_expirations += len(records)
        return records, are_all and not self.pending.has_group(group_id)

    # Replay

    def _replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer: Producer | None) -> None:
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is None:
            self.committed.remove(group_id, topic, partition)
            self.pending.remove(group_id, topic, partition)
            return
        if group_id not in self.shard.groups:
            self.shard.classic.create_simple(group_id)
        value.topic_id = self._topic_ids.setdefault(value.topic_id, value.topic_id)
        if producer is not None:
            self.pending.put(producer.id, group_id, topic, partition, value)
            return
        self.committed.put(group_id, topic, partition, value)
        self.pending.overtake(group_id, topic, partition)

    def _replay_legacy(
        self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, producer: Producer | None
    ) -> None:
        modern_key = OffsetCommitKey(key.group, key.topic, key.partition)
        self._replay(modern_key, None if value is None else modern(value), producer)

    def replay_marker(self, marker: EndMarker) -> None:
        for group_id, topic, partition, value in self.pending.end(marker.producer_id, is_commit=marker.is_commit):
            self.committed.put(group_id, topic, partition, value)

    def on_loaded(self) -> None:
        """Nothing waits here; the shard itself sees to what expires."""

    def on_unloaded(self) -> None:
        """Nobody waits here."""

    def on_metadata(self, delta: Delta) -> None:
        """Offsets of deleted topics go in a decision of their own: see `of_deleted_topics`."""


def _java_length(text: str) -> int:
    """As Java counts it, in UTF-16 units, which is what Kafka compares with the limit."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _is_of_another_topic(stored: Uuid, asked: Uuid) -> bool:
    """The offset is that of a topic of the same name that has been deleted since."""
    return stored != asked and stored != ZERO_UUID and asked != ZERO_UUID


def _has_expired(group: Group, value: OffsetCommitValue, now_ms: int, retention_ms: int) -> bool:
    since_ms = group.offsets_expire_from(value.commit_timestamp)
    if since_ms is None:
        return False
    if value.expire_timestamp != NONE:
        return now_ms >= value.expire_timestamp
    return now_ms - since_ms >= retention_ms

"""`ImageBuilder`: replays metadata records upon an image and builds the next one.

Promises: the image it starts from is never touched; what no record touches is shared with it. All 26 record types are
known; one that does not fit what is there (a partition of no topic, a change of no broker) raises `ReplayError`,
because a node that skipped it would serve a state that nobody decided.
Called by `ImageLoader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import replace
from typing import Any

from ottla.metadata.delta import Delta, between
from ottla.metadata.image import TOPIC, ConfigResource, Image, TopicImage, TopicsImage
from ottla.metadata.levels import KRAFT_VERSION, METADATA_VERSION
from ottla.metadata.partition import PartitionImage
from ottla.metadata.registration import FENCE, UNFENCE, BrokerImage, ControllerImage
from ottla.metadata.rules import AccessRule, DelegationToken, ScramCredential, quota_entity
from ottla.metadata.table import copied
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.metadata import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)


class ReplayError(Exception):
    """A metadata record does not fit the state that it should change."""


class ImageBuilder:
    """The next image in the making."""

    def __init__(self, base: Image) -> None:
        self._base = base
        # Tables that a record has touched, each a copy by then, by the name of the image's field.
        self._tables: dict[str, MutableMapping[Any, Any]] = {}
        self._by_name: MutableMapping[str, TopicImage] | None = None
        self._by_id: MutableMapping[Uuid, TopicImage] | None = None
        # The partitions of touched topics, copied once, however many records touch them.
        self._partitions: dict[Uuid, dict[int, PartitionImage]] = {}
        self._touched_topics: dict[Uuid, None] = {}
        self._touched_configs: dict[ConfigResource, None] = {}
        self._next_producer_id = base.next_producer_id
        self.has_changes = False

    def replay(self, record: Message) -> None:
        """Apply one record."""
        apply = _REPLAYS.get(type(record))
        if apply is None:
            raise ReplayError(f"{type(record).__name__} cannot be replayed")
        self.has_changes = True
        apply(self, record)

    def replay_all(self, records: Iterable[Message]) -> None:
        for record in records:
            self.replay(record)

    def build(
        self, *, offset: int, epoch: int, timestamp_ms: int, is_batch_aligned: bool = True
    ) -> tuple[Delta, Image]:
        """The image after the records so far, and what they changed. The builder is spent."""
        base = self._base
        topics = base.topics
        if self._by_id is not None and self._by_name is not None:
            for topic_id, partitions in self._partitions.items():
                topic = self._by_id.get(topic_id)
                if topic is not None:
                    fresh = TopicImage(topic.name, topic.id, partitions)
                    self._by_id[topic_id] = self._by_name[topic.name] = fresh
            topics = TopicsImage(self._by_name, self._by_id)
        tables: dict[str, Any] = self._tables  # by the image's field names, which `replace` cannot check
        image = replace(
            base,
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            topics=topics,
            next_producer_id=self._next_producer_id,
            **tables,
        )
        delta = between(
            base,
            image,
            topic_ids=self._touched_topics,
            resources=self._touched_configs,
            is_batch_aligned=is_batch_aligned,
        )
        return delta, image

    # Tables

    def _table(self, name: str) -> MutableMapping[Any, Any]:
        """A copy of one of the image's tables, made when it is first changed."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = copied(getattr(self._base, name))
        return table

    def _topic_tables(self) -> tuple[MutableMapping[str, TopicImage], MutableMapping[Uuid, TopicImage]]:
        if self._by_name is None or self._by_id is None:
            self._by_name = copied(self._base.topics.by_name)
            self._by_id = copied(self._base.topics.by_id)
        return self._by_name, self._by_id

    def _partitions_of(self, topic_id: Uuid) -> dict[int, PartitionImage]:
        """The partitions of a topic, to be changed."""
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = self._topic_tables()[1].get(topic_id)
            if topic is None:
                raise ReplayError(f"there is no topic with id {topic_id}")
            partitions = self._partitions[topic_id] = dict(topic.partitions)
            self._touched_topics[topic_id] = None
        return partitions

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker: BrokerImage | None = self._table("brokers").get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} is not registered at epoch {epoch}")
        return broker

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        by_name, by_id = self._topic_tables()
        if record.name in by_name:
            raise ReplayError(f"there is a topic {record.name} already, with id {by_name[record.name].id}")
        by_name[record.name] = by_id[record.topic_id] = TopicImage(record.name, record.topic_id)
        self._partitions[record.topic_id] = {}
        self._touched_topics[record.topic_id] = None

    def _partition(self, record: PartitionRecord) -> None:
        self._partitions_of(record.topic_id)[record.partition_id] = PartitionImage.from_record(record)

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id)
        partition = partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"there is no partition {record.partition_id} of the topic with id {record.topic_id}")
        partitions[record.partition_id] = partition.changed_by(record)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        by_name, by_id = self._topic_tables()
        topic = by_id.pop(record.topic_id, None)
        if topic is None:
            raise ReplayError(f"there is no topic with id {record.topic_id} to remove")
        del by_name[topic.name]
        self._partitions.pop(record.topic_id, None)
        self._touched_topics[record.topic_id] = None
        if (TOPIC, topic.name) in self._table("configs"):
            del self._table("configs")[TOPIC, topic.name]
            self._touched_configs[TOPIC, topic.name] = None

    def _clear_elr(self, record: ClearElrRecord) -> None:
        by_name, _ = self._topic_tables()
        if not record.topic_name:
            topics = list(by_name.values())
        elif record.topic_name in by_name:
            topics = [by_name[record.topic_name]]
        else:
            raise ReplayError(f"there is no topic {record.topic_name} to clear the eligible leaders of")
        for topic in topics:
            current = self._partitions.get(topic.id, topic.partitions)
            for index, partition in list(current.items()):
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    self._partitions_of(topic.id)[index] = partition.changed_by(cleared)

    # Brokers and controllers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._table("brokers")[record.broker_id] = BrokerImage.from_record(record)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self._table("brokers")[record.broker_id]

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._table("brokers")[record.broker_id] = broker.changed_by(record)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=FENCE))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=UNFENCE))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._table("controllers")[record.controller_id] = ControllerImage.from_record(record)

    # Features, settings, ids

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return  # its truth is the raft layer's own control record
        features = self._table("features")
        if record.feature_level == 0 and record.name != METADATA_VERSION:
            features.pop(record.name, None)
        else:
            features[record.name] = record.feature_level

    def _config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        configs = self._table("configs")
        settings = dict(configs.get(key, {}))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if settings:
            configs[key] = settings
        else:
            configs.pop(key, None)
        self._touched_configs[key] = None

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self._next_producer_id = record.next_producer_id

    # Rules

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity(record)
        table = self._table("quotas")
        quotas = dict(table.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            table[entity] = quotas
        else:
            table.pop(entity, None)

    def _access_rule(self, record: AccessControlEntryRecord) -> None:
        self._table("access_rules")[record.id] = AccessRule.from_record(record)

    def _remove_access_rule(self, record: RemoveAccessControlEntryRecord) -> None:
        if self._table("access_rules").pop(record.id, None) is None:
            raise ReplayError(f"there is no access rule with id {record.id} to remove")

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._table("scram_credentials")[record.mechanism, record.name] = ScramCredential.from_record(record)

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._table("scram_credentials").pop((record.mechanism, record.name), None)

    def _token(self, record: DelegationTokenRecord) -> None:
        self._table("delegation_tokens")[record.token_id] = DelegationToken.from_record(record)

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._table("delegation_tokens").pop(record.token_id, None)

    def _nothing(self, record: NoOpRecord | ZkMigrationStateRecord) -> None:
        """It keeps the log moving, or tells of a migration that has long ended."""


# The three records of a transaction are not here: `ImageLoader` acts on them.
_REPLAYS: dict[type[Message], Callable[[ImageBuilder, Any], None]] = {
    RegisterBrokerRecord: ImageBuilder._register_broker,
    UnregisterBrokerRecord: ImageBuilder._unregister_broker,
    TopicRecord: ImageBuilder._topic,
    PartitionRecord: ImageBuilder._partition,
    ConfigRecord: ImageBuilder._config,
    PartitionChangeRecord: ImageBuilder._partition_change,
    FenceBrokerRecord: ImageBuilder._fence_broker,
    UnfenceBrokerRecord: ImageBuilder._unfence_broker,
    RemoveTopicRecord: ImageBuilder._remove_topic,
    DelegationTokenRecord: ImageBuilder._token,
    UserScramCredentialRecord: ImageBuilder._scram,
    FeatureLevelRecord: ImageBuilder._feature_level,
    ClientQuotaRecord: ImageBuilder._client_quota,
    ProducerIdsRecord: ImageBuilder._producer_ids,
    BrokerRegistrationChangeRecord: ImageBuilder._change_broker,
    AccessControlEntryRecord: ImageBuilder._access_rule,
    RemoveAccessControlEntryRecord: ImageBuilder._remove_access_rule,
    NoOpRecord: ImageBuilder._nothing,
    ZkMigrationStateRecord: ImageBuilder._nothing,
    RemoveUserScramCredentialRecord: ImageBuilder._remove_scram,
    RemoveDelegationTokenRecord: ImageBuilder._remove_token,
    RegisterControllerRecord: ImageBuilder._register_controller,
    ClearElrRecord: ImageBuilder._clear_elr,
}

"""`Image`: the metadata of the whole cluster at one offset of the metadata log.

Promises: nothing in an image ever changes, so whoever holds one can read it for as long as it likes. A new image
shares with the one before it everything that did not change: a delta of one topic copies the partitions of that topic
and the outer tables, not the partitions of the others. Called by everyone; made by `ImageBuilder`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ottla.metadata.levels import ELR_VERSION, METADATA_VERSION, MetadataVersion
from ottla.metadata.partition import PartitionImage
from ottla.metadata.registration import BrokerImage, ControllerImage
from ottla.metadata.rules import AccessRule, DelegationToken, QuotaEntity, ScramCredential, quota_record
from ottla.types import Uuid
from ottla.wire.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    ProducerIdsRecord,
    TopicRecord,
    VersionedRecord,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""The types of resources that have settings."""

ConfigResource = tuple[int, str]
"""The type and the name of a resource; the name is empty for the default of all brokers."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic and its partitions by index."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by name and by id."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict)

    def partition(self, topic_id: Uuid, index: int) -> PartitionImage | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(index)


@dataclass(frozen=True, slots=True)
class Image:
    """The metadata as of `offset`, the last one it contains; -1 before anything was read."""

    cluster_id: str
    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: int = -1
    access_rules: Mapping[Uuid, AccessRule] = field(default_factory=dict)
    scram_credentials: Mapping[tuple[int, str], ScramCredential] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    @property
    def metadata_version(self) -> MetadataVersion:
        """The finalized `metadata.version`; asking before the first feature record is a mistake."""
        level = self.features.get(METADATA_VERSION)
        assert level is not None, "the metadata log has not told its metadata.version yet"
        return MetadataVersion(level)

    @property
    def features_epoch(self) -> int:
        """What ApiVersions tells as the epoch of the finalized features."""
        return self.offset

    @property
    def has_elr(self) -> bool:
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def is_empty(self) -> bool:
        return not (self.features or self.brokers or self.controllers or self.topics.by_id or self.configs)

    def config_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of a resource; empty where none is set."""
        return self.configs.get((resource_type, name), {})

    def records(self) -> Iterator[VersionedRecord]:
        """The records of a snapshot, in Kafka's order: an empty image that replays them is this image."""
        yield from self._feature_records()
        version = self.metadata_version
        for broker in self.brokers.values():
            yield broker.to_record(version)
        if version.has_controller_registrations:
            for controller in self.controllers.values():
                yield controller.to_record()
        for topic in self.topics.by_id.values():
            yield VersionedRecord(TopicRecord(name=topic.name, topic_id=topic.id), 0)
            for index, partition in topic.partitions.items():
                yield partition.to_record(topic.id, index, metadata_version=version, has_elr=self.has_elr)
        yield from self._config_records()
        yield from self._rule_records(version)

    def _feature_records(self) -> Iterator[VersionedRecord]:
        yield VersionedRecord(FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.metadata_version), 0)
        for name, level in self.features.items():
            if name != METADATA_VERSION:
                yield VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)

    def _config_records(self) -> Iterator[VersionedRecord]:
        for (kind, resource), settings in self.configs.items():
            for name, value in settings.items():
                record = ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
                yield VersionedRecord(record, 0)

    def _rule_records(self, version: MetadataVersion) -> Iterator[VersionedRecord]:
        for entity, quotas in self.quotas.items():
            for key, quota in quotas.items():
                yield VersionedRecord(quota_record(entity, key, quota), 0)
        if self.next_producer_id >= 0:
            record = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
            yield VersionedRecord(record, 0)
        for rule in self.access_rules.values():
            yield VersionedRecord(rule.to_record(), 0)
        if version.has_scram:
            for credential in self.scram_credentials.values():
                yield VersionedRecord(credential.to_record(), 0)
        if version.has_delegation_tokens:
            for token in self.delegation_tokens.values():
                yield VersionedRecord(token.to_record(), 0)

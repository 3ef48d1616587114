"""Metadata records about the cluster as a whole."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, field


class FeatureLevelRecord(Message, api_key=12, versions="0", flexible="0+"):
    """A feature is finalized at a level."""

    name: str = field()
    feature_level: Int16 = field(doc="0 disables the feature.")


class ProducerIdsRecord(Message, api_key=15, versions="0", flexible="0+"):
    """Producer ids below this one have been given out."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64 = field()


class NoOpRecord(Message, api_key=20, versions="0", flexible="0+"):
    """Nothing has changed; it keeps the log moving."""


class ZkMigrationStateRecord(Message, api_key=21, versions="0", flexible="0+"):
    """How far the migration from ZooKeeper had come."""

    zk_migration_state: Int8 = field()

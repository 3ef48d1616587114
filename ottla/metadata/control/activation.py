"""What a controller writes when it takes over: the bootstrap records into an empty log, the end of what was half done.

Promises: a cluster's first records are whole or void, because they are one transaction. Called once each time a
controller becomes active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.metadata.control.configs import MIN_INSYNC_REPLICAS
from ottla.metadata.image import BROKER
from ottla.metadata.levels import (
    ELR_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    MetadataVersion,
    default_levels,
)
from ottla.wire.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    VersionedRecord,
)


def bootstrap_records(levels: Mapping[str, int] | None = None) -> list[VersionedRecord]:
    """The records of `bootstrap.checkpoint` for a new cluster with these feature levels (the latest, unless told)."""
    given = default_levels(LATEST_METADATA_VERSION) if levels is None else levels
    names = [METADATA_VERSION, *sorted(name for name in given if name != METADATA_VERSION)]
    return [
        VersionedRecord(FeatureLevelRecord(name=name, feature_level=given[name]), 0)
        for name in names
        if given[name] > 0
    ]


def first_records(bootstrap: Sequence[VersionedRecord], *, min_insync_replicas: int) -> list[VersionedRecord]:
    """What an empty log gets: the bootstrap records, and with eligible leader replicas a minimum for all brokers."""
    levels = {record.name: record.feature_level for record, _ in bootstrap if isinstance(record, FeatureLevelRecord)}
    assert METADATA_VERSION in levels, "the bootstrap records name no metadata.version"
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        config = ConfigRecord(
            resource_type=BROKER, resource_name="", name=MIN_INSYNC_REPLICAS, value=str(min_insync_replicas)
        )
        records.append(VersionedRecord(config, 0))
    if MetadataVersion(levels[METADATA_VERSION]).has_transactions:
        begin = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
        records = [begin, *records, VersionedRecord(EndTransactionRecord(), 0)]
    return records


def abort_record() -> VersionedRecord:
    """The end of a transaction that the last controller left open."""
    return VersionedRecord(AbortTransactionRecord(reason="Controller failover"), 0)

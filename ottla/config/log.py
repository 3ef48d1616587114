"""The settings of a log: what a topic can override and the broker gives defaults for.

Names, defaults and bounds are Kafka's (kafka-facts/config-topic.json, checked by a test). Called by `storage`.
"""

from __future__ import annotations

import re
from enum import Flag

from ottla.config.table import (
    GIB,
    LONG_MAX,
    MIB,
    ConfigTable,
    Setting,
    boolean,
    double,
    integer,
    long,
    string,
    string_list,
)
from ottla.errors import InvalidConfig


class CleanupPolicy(Flag):
    """What happens to old records: neither, deleted by age and size, compacted by key, or both."""

    NONE = 0
    DELETE = 1
    COMPACT = 2


def check_gzip_level(name: str, level: int) -> None:
    if level != -1 and not 1 <= level <= 9:
        raise InvalidConfig(
            f"Invalid value {level} for configuration {name}: Value must be between 1 and 9 or equal to -1"
        )


_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def check_throttled_replicas(name: str, replicas: tuple[str, ...]) -> None:
    if "".join(replicas) != "*" and not all(_THROTTLED_REPLICA.fullmatch(replica) for replica in replicas):
        raise InvalidConfig(
            f"Invalid value [{', '.join(replicas)}] for configuration {name}: {name} must be the literal '*' or a list "
            "of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )


class LogConfig(ConfigTable):
    """One log's settings. `LogConfig().with_topic({"segment.bytes": "1048576"})`."""

    segment_bytes = Setting(
        "log.segment.bytes", integer, GIB, min=MIB, topic="segment.bytes",
        doc="A segment that would grow beyond this size is closed and a new one begun.",
    )  # fmt: skip
    internal_segment_bytes: Setting[int | None] = Setting(
        "internal.segment.bytes", integer, None, topic="internal.segment.bytes", internal=True,
        doc="A segment size below the public minimum, for tests.",
    )  # fmt: skip
    segment_ms = Setting(
        "log.roll.ms", long, 168 * 3_600_000, min=1, topic="segment.ms",
        doc="A segment whose first record is this old is closed, even if it is not full.",
    )  # fmt: skip
    segment_jitter_ms = Setting(
        "log.roll.jitter.ms", long, 0, min=0, topic="segment.jitter.ms",
        doc="Up to this much is taken off `segment.ms` at random, so that segments do not all roll at once.",
    )  # fmt: skip
    segment_index_bytes = Setting(
        "log.index.size.max.bytes", integer, 10 * MIB, min=4, topic="segment.index.bytes",
        doc="The largest size of an index file; a full index rolls the segment.",
    )  # fmt: skip
    index_interval_bytes = Setting(
        "log.index.interval.bytes", integer, 4096, min=0, topic="index.interval.bytes",
        doc="About one index entry is written for this many bytes of log.",
    )  # fmt: skip
    flush_messages = Setting(
        "log.flush.interval.messages", long, LONG_MAX, min=1, topic="flush.messages",
        doc="The log is synced to the device after this many records.",
    )  # fmt: skip
    flush_ms = Setting(
        "log.flush.interval.ms", long, LONG_MAX, min=0, topic="flush.ms",
        doc="The log is synced to the device when its oldest unsynced record is this old.",
    )  # fmt: skip
    retention_bytes = Setting(
        "log.retention.bytes", long, -1, topic="retention.bytes",
        doc="The oldest segments are deleted while the log is larger than this; -1 sets no limit.",
    )  # fmt: skip
    retention_ms = Setting(
        "log.retention.ms", long, 604_800_000, min=-1, topic="retention.ms",
        doc="Segments whose newest record is older than this are deleted; -1 keeps them for ever.",
    )  # fmt: skip
    max_message_bytes = Setting(
        "message.max.bytes", integer, MIB + 12, min=0, topic="max.message.bytes",
        doc="The largest record batch that is accepted, compressed as it is.",
    )  # fmt: skip
    cleanup_policy: Setting[tuple[str, ...]] = Setting(
        "log.cleanup.policy", string_list, ("delete",), valid=("compact", "delete"), topic="cleanup.policy",
        doc="`delete` removes old segments, `compact` keeps the newest record of every key; both may be given.",
    )  # fmt: skip
    delete_retention_ms = Setting(
        "log.cleaner.delete.retention.ms", long, 86_400_000, min=0, topic="delete.retention.ms",
        doc="How long compaction keeps a tombstone or a transaction marker, so that readers can see it.",
    )  # fmt: skip
    min_compaction_lag_ms = Setting(
        "log.cleaner.min.compaction.lag.ms", long, 0, min=0, topic="min.compaction.lag.ms",
        doc="A record younger than this is not compacted away.",
    )  # fmt: skip
    max_compaction_lag_ms = Setting(
        "log.cleaner.max.compaction.lag.ms", long, LONG_MAX, min=1, topic="max.compaction.lag.ms",
        doc="A record older than this makes its log due for compaction, whatever the dirty ratio.",
    )  # fmt: skip
    min_cleanable_dirty_ratio = Setting(
        "log.cleaner.min.cleanable.ratio", double, 0.5, min=0, max=1, topic="min.cleanable.dirty.ratio",
        doc="A log is due for compaction when this share of it has not been compacted yet.",
    )  # fmt: skip
    file_delete_delay_ms = Setting(
        "log.segment.delete.delay.ms", long, 60_000, min=0, topic="file.delete.delay.ms",
        doc="How long a deleted file is kept under another name, for readers that still have it open.",
    )  # fmt: skip
    compression_type = Setting(
        "compression.type", string, "producer",
        valid=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), topic="compression.type",
        doc="The codec batches are stored with; `producer` keeps the one they came with.",
    )  # fmt: skip
    compression_gzip_level = Setting(
        "compression.gzip.level", integer, -1, check=check_gzip_level, topic="compression.gzip.level",
        doc="The gzip level for `compression.type=gzip`; -1 is zlib's own default.",
    )  # fmt: skip
    compression_lz4_level = Setting(
        "compression.lz4.level", integer, 9, min=1, max=17, topic="compression.lz4.level",
        doc="The lz4 level for `compression.type=lz4`.",
    )  # fmt: skip
    compression_zstd_level = Setting(
        "compression.zstd.level", integer, 3, min=-131_072, max=22, topic="compression.zstd.level",
        doc="The zstd level for `compression.type=zstd`.",
    )  # fmt: skip
    preallocate = Setting(
        "log.preallocate", boolean, False, topic="preallocate",
        doc="Reserve a segment's whole size on disk when it is begun.",
    )  # fmt: skip
    message_timestamp_type = Setting(
        "log.message.timestamp.type", string, "CreateTime",
        valid=("CreateTime", "LogAppendTime"), topic="message.timestamp.type",
        doc="Whose clock stamps a record: the producer's or the broker's.",
    )  # fmt: skip
    message_timestamp_before_max_ms = Setting(
        "log.message.timestamp.before.max.ms", long, LONG_MAX, min=0, topic="message.timestamp.before.max.ms",
        doc="A record stamped further in the past than this is refused.",
    )  # fmt: skip
    message_timestamp_after_max_ms = Setting(
        "log.message.timestamp.after.max.ms", long, 3_600_000, min=0, topic="message.timestamp.after.max.ms",
        doc="A record stamped further in the future than this is refused.",
    )  # fmt: skip
    min_insync_replicas = Setting(
        "min.insync.replicas", integer, 1, min=1, topic="min.insync.replicas",
        doc="With acks=all, the number of in-sync replicas below which a write is refused.",
    )  # fmt: skip
    unclean_leader_election_enable = Setting(
        "unclean.leader.election.enable", boolean, False, topic="unclean.leader.election.enable",
        doc="Whether a replica outside the in-sync set may lead when no other is left, at the price of lost records.",
    )  # fmt: skip
    leader_replication_throttled_replicas: Setting[tuple[str, ...]] = Setting(
        "leader.replication.throttled.replicas", string_list, (), topic="leader.replication.throttled.replicas",
        is_plain_list=True, check=check_throttled_replicas,
        doc="Partition:broker pairs whose replication is throttled on the leader's side, or `*`.",
    )  # fmt: skip
    follower_replication_throttled_replicas: Setting[tuple[str, ...]] = Setting(
        "follower.replication.throttled.replicas", string_list, (), topic="follower.replication.throttled.replicas",
        is_plain_list=True, check=check_throttled_replicas,
        doc="Partition:broker pairs whose replication is throttled on the follower's side, or `*`.",
    )  # fmt: skip
    remote_storage_enable = Setting(
        "remote.storage.enable", boolean, False, topic="remote.storage.enable",
        doc="Whether closed segments are copied to the remote tier.",
    )  # fmt: skip
    remote_log_copy_disable = Setting(
        "remote.log.copy.disable", boolean, False, topic="remote.log.copy.disable",
        doc="Stop copying to the remote tier; what is there stays readable.",
    )  # fmt: skip
    remote_log_delete_on_disable = Setting(
        "remote.log.delete.on.disable", boolean, False, topic="remote.log.delete.on.disable",
        doc="Delete what is in the remote tier when `remote.storage.enable` is taken away.",
    )  # fmt: skip
    local_retention_ms = Setting(
        "log.local.retention.ms", long, -2, min=-2, topic="local.retention.ms",
        doc="How long a segment stays on local disk when it is in the remote tier; -2 follows `retention.ms`.",
    )  # fmt: skip
    local_retention_bytes = Setting(
        "log.local.retention.bytes", long, -2, min=-2, topic="local.retention.bytes",
        doc="How much stays on local disk when it is in the remote tier; -2 follows `retention.bytes`.",
    )  # fmt: skip

    segment_size_max: int
    """`segment.bytes`, or the internal override."""
    cleanup: CleanupPolicy
    is_append_time: bool
    is_compacted: bool

    def _derive(self) -> None:
        values = self.__dict__
        values["segment_size_max"] = (
            self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes
        )
        values["cleanup"] = CleanupPolicy.NONE
        for policy in self.cleanup_policy:
            values["cleanup"] |= CleanupPolicy[policy.upper()]
        values["is_compacted"] = CleanupPolicy.COMPACT in self.cleanup
        values["is_append_time"] = self.message_timestamp_type == "LogAppendTime"
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"conflict topic config setting min.compaction.lag.ms ({self.min_compaction_lag_ms}) > "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )

    @property
    def max_segment_ms(self) -> int:
        """How long a segment may stay open: compaction lag can ask for an earlier roll than `segment.ms`."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @property
    def initial_file_size(self) -> int:
        """The size a new segment file is made with."""
        return self.segment_size_max if self.preallocate else 0

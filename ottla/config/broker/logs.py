"""Topics and their logs: what the broker decides, and the defaults of what a topic can decide for itself.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.cleaner import CleanerConfig
from ottla.config.log import LogConfig
from ottla.config.table import (
    CLUSTER_WIDE,
    HIGH,
    LONG_MAX,
    LOW,
    PER_BROKER,
    ConfigTable,
    Setting,
    boolean,
    class_name,
    integer,
    long,
    string_list,
)


class LogSettings(ConfigTable):
    """Topics and their logs: what the broker decides, and the defaults of what a topic can decide for itself."""

    alter_config_policy_class_name: Setting[str | None] = Setting(
        "alter.config.policy.class.name", class_name, None, importance=LOW,
        doc="A class that may veto changes of settings. Ottla loads no Java classes.",
    )  # fmt: skip
    auto_create_topics_enable = Setting(
        "auto.create.topics.enable", boolean, True, importance=HIGH,
        doc="Whether a topic that a client asks for by name, and that does not exist, is created.",
    )  # fmt: skip
    compression_gzip_level = LogConfig.compression_gzip_level.on_broker(update=CLUSTER_WIDE)
    compression_lz4_level = LogConfig.compression_lz4_level.on_broker(update=CLUSTER_WIDE)
    compression_type = LogConfig.compression_type.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    compression_zstd_level = LogConfig.compression_zstd_level.on_broker(update=CLUSTER_WIDE)
    cordoned_log_dirs: Setting[tuple[str, ...]] = Setting(
        "cordoned.log.dirs", string_list, (), update=PER_BROKER,
        doc="Log directories that get no new partitions, or `*` for all of them.",
    )  # fmt: skip
    create_topic_policy_class_name: Setting[str | None] = Setting(
        "create.topic.policy.class.name", class_name, None, importance=LOW,
        doc="A class that may veto new topics. Ottla loads no Java classes.",
    )  # fmt: skip
    delete_topic_enable = Setting(
        "delete.topic.enable", boolean, True, importance=HIGH,
        doc="Whether topics can be deleted.",
    )  # fmt: skip
    log_cleaner_backoff_ms = CleanerConfig.backoff_ms.on_broker(update=CLUSTER_WIDE)
    log_cleaner_dedupe_buffer_size = CleanerConfig.dedupe_buffer_size.on_broker(update=CLUSTER_WIDE)
    log_cleaner_delete_retention_ms = LogConfig.delete_retention_ms.on_broker(update=CLUSTER_WIDE)
    log_cleaner_enable = CleanerConfig.enable.on_broker()
    log_cleaner_io_buffer_load_factor = CleanerConfig.dedupe_buffer_load_factor.on_broker(update=CLUSTER_WIDE)
    log_cleaner_io_buffer_size = CleanerConfig.io_buffer_size.on_broker(update=CLUSTER_WIDE)
    log_cleaner_io_max_bytes_per_second = CleanerConfig.io_max_bytes_per_second.on_broker(update=CLUSTER_WIDE)
    log_cleaner_max_compaction_lag_ms = LogConfig.max_compaction_lag_ms.on_broker(update=CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio = LogConfig.min_cleanable_dirty_ratio.on_broker(update=CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms = LogConfig.min_compaction_lag_ms.on_broker(update=CLUSTER_WIDE)
    log_cleaner_threads = CleanerConfig.threads.on_broker(update=CLUSTER_WIDE)
    log_cleanup_policy = LogConfig.cleanup_policy.on_broker(update=CLUSTER_WIDE)
    log_dir: Setting[tuple[str, ...]] = Setting(
        "log.dir", string_list, ("/tmp/kafka-logs",), may_be_empty=False, importance=HIGH,
        doc="The log directory, for when `log.dirs` is not given.",
    )  # fmt: skip
    log_dir_failure_timeout_ms = Setting(
        "log.dir.failure.timeout.ms", long, 30_000, min=1, importance=LOW,
        doc="A broker that could not tell the controller of a failed log directory for this long stops.",
    )  # fmt: skip
    log_dirs: Setting[tuple[str, ...] | None] = Setting(
        "log.dirs", string_list, None, may_be_empty=False, importance=HIGH,
        doc="The directories that hold the logs.",
    )  # fmt: skip
    log_flush_interval_messages = LogConfig.flush_messages.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    log_flush_interval_ms: Setting[int | None] = Setting(
        "log.flush.interval.ms", long, None, importance=HIGH, update=CLUSTER_WIDE,
        doc="A log whose oldest unsynced record is this old is synced; without it, the scheduler's interval.",
    )  # fmt: skip
    log_flush_offset_checkpoint_interval_ms = Setting(
        "log.flush.offset.checkpoint.interval.ms", integer, 60_000, min=0, importance=HIGH,
        doc="How often the recovery points are written down.",
    )  # fmt: skip
    log_flush_scheduler_interval_ms = Setting(
        "log.flush.scheduler.interval.ms", long, LONG_MAX, importance=HIGH,
        doc="How often logs that are due to be synced are looked for.",
    )  # fmt: skip
    log_flush_start_offset_checkpoint_interval_ms = Setting(
        "log.flush.start.offset.checkpoint.interval.ms", integer, 60_000, min=0, importance=HIGH,
        doc="How often the log start offsets are written down.",
    )  # fmt: skip
    log_index_interval_bytes = LogConfig.index_interval_bytes.on_broker(update=CLUSTER_WIDE)
    log_index_size_max_bytes = LogConfig.segment_index_bytes.on_broker(update=CLUSTER_WIDE)
    log_initial_task_delay_ms = Setting(
        "log.initial.task.delay.ms", long, 30_000, min=0, internal=True, importance=LOW,
        doc="How long after the start the chores of the logs begin.",
    )  # fmt: skip
    log_local_retention_bytes = LogConfig.local_retention_bytes.on_broker(update=CLUSTER_WIDE)
    log_local_retention_ms = LogConfig.local_retention_ms.on_broker(update=CLUSTER_WIDE)
    log_message_timestamp_after_max_ms = LogConfig.message_timestamp_after_max_ms.on_broker(update=CLUSTER_WIDE)
    log_message_timestamp_before_max_ms = LogConfig.message_timestamp_before_max_ms.on_broker(update=CLUSTER_WIDE)
    log_message_timestamp_type = LogConfig.message_timestamp_type.on_broker(update=CLUSTER_WIDE)
    log_preallocate = LogConfig.preallocate.on_broker(update=CLUSTER_WIDE)
    log_retention_bytes = LogConfig.retention_bytes.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    log_retention_check_interval_ms = Setting(
        "log.retention.check.interval.ms", long, 300_000, min=1,
        doc="How often segments that are past their retention are looked for.",
    )  # fmt: skip
    log_retention_hours = Setting(
        "log.retention.hours", integer, 168, importance=HIGH,
        doc="`log.retention.ms` in hours, for when neither that nor `log.retention.minutes` is given.",
    )  # fmt: skip
    log_retention_minutes: Setting[int | None] = Setting(
        "log.retention.minutes", integer, None, importance=HIGH,
        doc="`log.retention.ms` in minutes, for when that is not given.",
    )  # fmt: skip
    log_retention_ms: Setting[int | None] = Setting(
        "log.retention.ms", long, None, importance=HIGH, update=CLUSTER_WIDE,
        doc="Segments whose newest record is older than this are deleted; -1 keeps them.",
    )  # fmt: skip
    log_roll_hours = Setting(
        "log.roll.hours", integer, 168, min=1, importance=HIGH,
        doc="`log.roll.ms` in hours, for when that is not given.",
    )  # fmt: skip
    log_roll_jitter_hours = Setting(
        "log.roll.jitter.hours", integer, 0, min=0, importance=HIGH,
        doc="`log.roll.jitter.ms` in hours, for when that is not given.",
    )  # fmt: skip
    log_roll_jitter_ms: Setting[int | None] = Setting(
        "log.roll.jitter.ms", long, None, importance=HIGH, update=CLUSTER_WIDE,
        doc="Up to this much is taken off `log.roll.ms` at random, so that segments do not all roll at once.",
    )  # fmt: skip
    log_roll_ms: Setting[int | None] = Setting(
        "log.roll.ms", long, None, importance=HIGH, update=CLUSTER_WIDE,
        doc="A segment whose first record is this old is closed, even if it is not full.",
    )  # fmt: skip
    log_segment_bytes = LogConfig.segment_bytes.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    log_segment_delete_delay_ms = LogConfig.file_delete_delay_ms.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    message_max_bytes = LogConfig.max_message_bytes.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    min_insync_replicas = LogConfig.min_insync_replicas.on_broker(importance=HIGH, update=CLUSTER_WIDE)
    num_partitions = Setting(
        "num.partitions", integer, 1, min=1,
        doc="The partition count of a topic that was created without one.",
    )  # fmt: skip
    num_recovery_threads_per_data_dir = Setting(
        "num.recovery.threads.per.data.dir", integer, 2, min=1, importance=HIGH, update=CLUSTER_WIDE,
        doc="How many threads open, and after a crash recover, the logs of one directory at start.",
    )  # fmt: skip
    unclean_leader_election_enable = LogConfig.unclean_leader_election_enable.on_broker(
        importance=HIGH, update=CLUSTER_WIDE
    )

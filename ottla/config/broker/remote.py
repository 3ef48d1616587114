"""The remote tier of logs.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import CLUSTER_WIDE, LONG_MAX, LOW, ConfigTable, Setting, boolean, double, integer, long, string


class RemoteSettings(ConfigTable):
    """The remote tier of logs."""

    remote_fetch_max_wait_ms = Setting(
        "remote.fetch.max.wait.ms", integer, 500, min=1, update=CLUSTER_WIDE,
        doc="How long a fetch waits for data of the remote tier.",
    )  # fmt: skip
    remote_list_offsets_request_timeout_ms = Setting(
        "remote.list.offsets.request.timeout.ms", long, 30_000, min=1, update=CLUSTER_WIDE,
        doc="How long a look-up of offsets waits for the remote tier.",
    )  # fmt: skip
    remote_log_index_file_cache_total_size_bytes = Setting(
        "remote.log.index.file.cache.total.size.bytes", long, 1_073_741_824, min=1, importance=LOW,
        update=CLUSTER_WIDE,
        doc="The disk space for indexes that were fetched from the remote tier.",
    )  # fmt: skip
    remote_log_index_file_cache_ttl_ms = Setting(
        "remote.log.index.file.cache.ttl.ms", long, 900_000, min=-1, internal=True, importance=LOW,
        doc="How long an index that was fetched from the remote tier is kept unused; -1 is forever.",
    )  # fmt: skip
    remote_log_manager_copier_thread_pool_size = Setting(
        "remote.log.manager.copier.thread.pool.size", integer, 10, min=1, update=CLUSTER_WIDE,
        doc="How many threads copy segments to the remote tier.",
    )  # fmt: skip
    remote_log_manager_copy_max_bytes_per_second = Setting(
        "remote.log.manager.copy.max.bytes.per.second", long, LONG_MAX, min=1, update=CLUSTER_WIDE,
        doc="How fast segments are copied to the remote tier.",
    )  # fmt: skip
    remote_log_manager_copy_quota_window_num = Setting(
        "remote.log.manager.copy.quota.window.num", integer, 11, min=1,
        doc="How many samples that rate is measured over.",
    )  # fmt: skip
    remote_log_manager_copy_quota_window_size_seconds = Setting(
        "remote.log.manager.copy.quota.window.size.seconds", integer, 1, min=1,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    remote_log_manager_expiration_thread_pool_size = Setting(
        "remote.log.manager.expiration.thread.pool.size", integer, 10, min=1, update=CLUSTER_WIDE,
        doc="How many threads delete expired segments of the remote tier.",
    )  # fmt: skip
    remote_log_manager_fetch_max_bytes_per_second = Setting(
        "remote.log.manager.fetch.max.bytes.per.second", long, LONG_MAX, min=1, update=CLUSTER_WIDE,
        doc="How fast data of the remote tier is fetched.",
    )  # fmt: skip
    remote_log_manager_fetch_quota_window_num = Setting(
        "remote.log.manager.fetch.quota.window.num", integer, 11, min=1,
        doc="How many samples that rate is measured over.",
    )  # fmt: skip
    remote_log_manager_fetch_quota_window_size_seconds = Setting(
        "remote.log.manager.fetch.quota.window.size.seconds", integer, 1, min=1,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    remote_log_manager_follower_thread_pool_size = Setting(
        "remote.log.manager.follower.thread.pool.size", integer, 2, min=1, update=CLUSTER_WIDE,
        doc="How many threads followers read the remote tier's state with.",
    )  # fmt: skip
    remote_log_manager_task_interval_ms = Setting(
        "remote.log.manager.task.interval.ms", long, 30_000, min=1, importance=LOW,
        doc="How often work for the remote tier is looked for.",
    )  # fmt: skip
    remote_log_manager_task_retry_backoff_max_ms = Setting(
        "remote.log.manager.task.retry.backoff.max.ms", long, 30_000, min=1, internal=True, importance=LOW,
        doc="The longest wait before work for the remote tier is tried again.",
    )  # fmt: skip
    remote_log_manager_task_retry_backoff_ms = Setting(
        "remote.log.manager.task.retry.backoff.ms", long, 500, min=1, internal=True, importance=LOW,
        doc="The first wait before work for the remote tier is tried again.",
    )  # fmt: skip
    remote_log_manager_task_retry_jitter = Setting(
        "remote.log.manager.task.retry.jitter", double, 0.2, min=0, max=0.5, internal=True, importance=LOW,
        doc="The share of that wait that is random.",
    )  # fmt: skip
    remote_log_manager_thread_pool_size = Setting(
        "remote.log.manager.thread.pool.size", integer, 2, min=1,
        doc="How many threads do the rest of the work for the remote tier. Deprecated.",
    )  # fmt: skip
    remote_log_metadata_custom_metadata_max_bytes = Setting(
        "remote.log.metadata.custom.metadata.max.bytes", integer, 128, min=0, importance=LOW,
        doc="The most that a remote store may note down about one segment.",
    )  # fmt: skip
    remote_log_metadata_manager_class_name = Setting(
        "remote.log.metadata.manager.class.name", string,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        may_be_empty=False,
        doc="The class that keeps the remote tier's metadata.",
    )  # fmt: skip
    remote_log_metadata_manager_class_path: Setting[str | None] = Setting(
        "remote.log.metadata.manager.class.path", string, None,
        doc="Where that class is found.",
    )  # fmt: skip
    remote_log_metadata_manager_impl_prefix = Setting(
        "remote.log.metadata.manager.impl.prefix", string, "rlmm.config.", may_be_empty=False,
        doc="What the names of that class's own settings begin with.",
    )  # fmt: skip
    remote_log_metadata_manager_listener_name: Setting[str | None] = Setting(
        "remote.log.metadata.manager.listener.name", string, None, may_be_empty=False,
        doc="The listener that class connects to.",
    )  # fmt: skip
    remote_log_reader_max_pending_tasks = Setting(
        "remote.log.reader.max.pending.tasks", integer, 100, min=1,
        doc="How many reads of the remote tier may wait.",
    )  # fmt: skip
    remote_log_reader_threads = Setting(
        "remote.log.reader.threads", integer, 10, min=1, update=CLUSTER_WIDE,
        doc="How many threads read the remote tier.",
    )  # fmt: skip
    remote_log_storage_manager_class_name: Setting[str | None] = Setting(
        "remote.log.storage.manager.class.name", string, None, may_be_empty=False,
        doc="The class that stores segments in the remote tier.",
    )  # fmt: skip
    remote_log_storage_manager_class_path: Setting[str | None] = Setting(
        "remote.log.storage.manager.class.path", string, None,
        doc="Where that class is found.",
    )  # fmt: skip
    remote_log_storage_manager_impl_prefix = Setting(
        "remote.log.storage.manager.impl.prefix", string, "rsm.config.", may_be_empty=False,
        doc="What the names of that class's own settings begin with.",
    )  # fmt: skip
    remote_log_storage_system_enable = Setting(
        "remote.log.storage.system.enable", boolean, False,
        doc="Whether topics may have a remote tier.",
    )  # fmt: skip

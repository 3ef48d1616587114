"""Share groups and the log of their state.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import CLUSTER_WIDE, HIGH, LOW, ConfigTable, Setting, integer, short, string, string_list


class ShareSettings(ConfigTable):
    """Share groups and the log of their state."""

    group_share_assignment_interval_ms = Setting(
        "group.share.assignment.interval.ms", integer, 1000, min=0, update=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a share group.",
    )  # fmt: skip
    group_share_assignors: Setting[tuple[str, ...]] = Setting(
        "group.share.assignors", string_list, ("simple",), may_be_empty=False,
        doc="The server-side assignor for share groups.",
    )  # fmt: skip
    group_share_delivery_count_limit = Setting(
        "group.share.delivery.count.limit", integer, 5, min=2, max=10,
        doc="How often a record is delivered to a share group before it counts as undeliverable.",
    )  # fmt: skip
    group_share_heartbeat_interval_ms = Setting(
        "group.share.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of a share group are told to send heartbeats.",
    )  # fmt: skip
    group_share_initialize_retry_interval_ms = Setting(
        "group.share.initialize.retry.interval.ms", integer, 30_000, min=1, internal=True, importance=LOW,
        doc="How long to wait before the state of a share partition is initialised again.",
    )  # fmt: skip
    group_share_max_assignment_interval_ms = Setting(
        "group.share.max.assignment.interval.ms", integer, 15_000, min=0,
        doc="The upper bound of a group's own `share.assignment.interval.ms`.",
    )  # fmt: skip
    group_share_max_delivery_count_limit = Setting(
        "group.share.max.delivery.count.limit", integer, 10, min=5, max=25,
        doc="The upper bound of a group's own `share.delivery.count.limit`.",
    )  # fmt: skip
    group_share_max_heartbeat_interval_ms = Setting(
        "group.share.max.heartbeat.interval.ms", integer, 15_000, min=1,
        doc="The upper bound of a group's own `share.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_share_max_partition_max_record_locks = Setting(
        "group.share.max.partition.max.record.locks", integer, 4000, min=2000, max=10_000,
        doc="The upper bound of a group's own `share.partition.max.record.locks`.",
    )  # fmt: skip
    group_share_max_record_lock_duration_ms = Setting(
        "group.share.max.record.lock.duration.ms", integer, 60_000, min=30_000, max=3_600_000,
        doc="The upper bound of a group's own `share.record.lock.duration.ms`.",
    )  # fmt: skip
    group_share_max_session_timeout_ms = Setting(
        "group.share.max.session.timeout.ms", integer, 60_000, min=1,
        doc="The upper bound of a group's own `share.session.timeout.ms`.",
    )  # fmt: skip
    group_share_max_share_sessions = Setting(
        "group.share.max.share.sessions", integer, 2000, min=1,
        doc="The most share sessions that one broker keeps.",
    )  # fmt: skip
    group_share_max_size = Setting(
        "group.share.max.size", integer, 200, min=1, max=1000,
        doc="The most members that one share group can have.",
    )  # fmt: skip
    group_share_min_assignment_interval_ms = Setting(
        "group.share.min.assignment.interval.ms", integer, 0, min=0,
        doc="The lower bound of a group's own `share.assignment.interval.ms`.",
    )  # fmt: skip
    group_share_min_delivery_count_limit = Setting(
        "group.share.min.delivery.count.limit", integer, 2, min=2, max=5,
        doc="The lower bound of a group's own `share.delivery.count.limit`.",
    )  # fmt: skip
    group_share_min_heartbeat_interval_ms = Setting(
        "group.share.min.heartbeat.interval.ms", integer, 5000, min=1,
        doc="The lower bound of a group's own `share.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_share_min_partition_max_record_locks = Setting(
        "group.share.min.partition.max.record.locks", integer, 100, min=100, max=2000,
        doc="The lower bound of a group's own `share.partition.max.record.locks`.",
    )  # fmt: skip
    group_share_min_record_lock_duration_ms = Setting(
        "group.share.min.record.lock.duration.ms", integer, 15_000, min=1000, max=30_000,
        doc="The lower bound of a group's own `share.record.lock.duration.ms`.",
    )  # fmt: skip
    group_share_min_session_timeout_ms = Setting(
        "group.share.min.session.timeout.ms", integer, 45_000, min=1,
        doc="The lower bound of a group's own `share.session.timeout.ms`.",
    )  # fmt: skip
    group_share_partition_max_record_locks = Setting(
        "group.share.partition.max.record.locks", integer, 2000, min=100, max=10_000,
        doc="The most records of one partition that a share group holds in flight.",
    )  # fmt: skip
    group_share_persister_class_name = Setting(
        "group.share.persister.class.name", string, "org.apache.kafka.server.share.persister.DefaultStatePersister",
        internal=True,
        doc="The class that keeps the state of share partitions.",
    )  # fmt: skip
    group_share_record_lock_duration_ms = Setting(
        "group.share.record.lock.duration.ms", integer, 30_000, min=1000, max=3_600_000,
        doc="How long a member of a share group owns a record before it is delivered again.",
    )  # fmt: skip
    group_share_session_timeout_ms = Setting(
        "group.share.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of a share group that is silent for this long is taken out.",
    )  # fmt: skip
    share_coordinator_append_linger_ms = Setting(
        "share.coordinator.append.linger.ms", integer, -1, min=-1,
        doc="How long the share coordinator gathers records before it writes them; -1 adapts to the load.",
    )  # fmt: skip
    share_coordinator_cached_buffer_max_bytes = Setting(
        "share.coordinator.cached.buffer.max.bytes", integer, 1_048_588, min=524_288, update=CLUSTER_WIDE,
        doc="The largest write buffer that the share coordinator keeps for the next write.",
    )  # fmt: skip
    share_coordinator_cold_partition_snapshot_interval_ms = Setting(
        "share.coordinator.cold.partition.snapshot.interval.ms", integer, 300_000, min=1, internal=True,
        importance=LOW,
        doc="How often share partitions without changes are written down anew.",
    )  # fmt: skip
    share_coordinator_load_buffer_size = Setting(
        "share.coordinator.load.buffer.size", integer, 5_242_880, min=1, importance=HIGH,
        doc="How much of the share state log is read at once when it is loaded.",
    )  # fmt: skip
    share_coordinator_snapshot_update_records_per_snapshot = Setting(
        "share.coordinator.snapshot.update.records.per.snapshot", integer, 500, min=0, max=500,
        doc="How many updates follow a share snapshot before the next one.",
    )  # fmt: skip
    share_coordinator_state_topic_compression_codec = Setting(
        "share.coordinator.state.topic.compression.codec", integer, 0, importance=HIGH,
        doc="The codec of the share state log, by number.",
    )  # fmt: skip
    share_coordinator_state_topic_min_isr = Setting(
        "share.coordinator.state.topic.min.isr", short, 2, min=1, importance=HIGH,
        doc="`min.insync.replicas` of `__share_group_state`.",
    )  # fmt: skip
    share_coordinator_state_topic_num_partitions = Setting(
        "share.coordinator.state.topic.num.partitions", integer, 50, min=1, importance=HIGH,
        doc="The partition count of `__share_group_state`; it cannot be changed once the topic exists.",
    )  # fmt: skip
    share_coordinator_state_topic_prune_interval_ms = Setting(
        "share.coordinator.state.topic.prune.interval.ms", integer, 300_000, min=1, internal=True, importance=LOW,
        doc="How often share state that nobody needs is deleted.",
    )  # fmt: skip
    share_coordinator_state_topic_replication_factor = Setting(
        "share.coordinator.state.topic.replication.factor", short, 3, min=1, importance=HIGH,
        doc="The replication factor of `__share_group_state`.",
    )  # fmt: skip
    share_coordinator_state_topic_segment_bytes = Setting(
        "share.coordinator.state.topic.segment.bytes", integer, 104_857_600, min=1, importance=HIGH,
        doc="The segment size of `__share_group_state`.",
    )  # fmt: skip
    share_coordinator_threads = Setting(
        "share.coordinator.threads", integer, 1, min=1,
        doc="How many threads Kafka gives to the share coordinator.",
    )  # fmt: skip
    share_coordinator_write_timeout_ms = Setting(
        "share.coordinator.write.timeout.ms", integer, 5000, min=1, importance=HIGH,
        doc="How long a write of share state waits for its replicas.",
    )  # fmt: skip
    share_fetch_purgatory_purge_interval_requests = Setting(
        "share.fetch.purgatory.purge.interval.requests", integer, 1000,
        doc="After how many waiting share fetches Kafka sweeps out finished ones.",
    )  # fmt: skip

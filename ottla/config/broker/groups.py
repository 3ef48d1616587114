"""Consumer and streams groups, and committed offsets.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    ConfigTable,
    Setting,
    integer,
    long,
    short,
    string,
    string_list,
)
from ottla.errors import InvalidConfig

_ASSIGNORS = ("uniform", "range")
_ASSIGNOR_CLASSES = tuple(
    f"org.apache.kafka.coordinator.group.assignor.{name.capitalize()}Assignor" for name in _ASSIGNORS
)


def check_assignors(name: str, value: tuple[str, ...]) -> None:
    """Refuse assignors that are not Ottla's own; these may also be named by Kafka's classes of them."""
    for assignor in value:
        if assignor not in (*_ASSIGNORS, *_ASSIGNOR_CLASSES):
            raise InvalidConfig(
                f"Invalid value {assignor} for configuration {name}: the assignors are {', '.join(_ASSIGNORS)}"
            )


class GroupSettings(ConfigTable):
    """Consumer and streams groups, and committed offsets."""

    group_consumer_assignment_interval_ms = Setting(
        "group.consumer.assignment.interval.ms", integer, 1000, min=0, update=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a consumer group.",
    )  # fmt: skip
    group_consumer_assignors: Setting[tuple[str, ...]] = Setting(
        "group.consumer.assignors", string_list, ("uniform", "range"), may_be_empty=False, check=check_assignors,
        doc="The server-side assignors for consumer groups; the first is the default.",
    )  # fmt: skip
    group_consumer_heartbeat_interval_ms = Setting(
        "group.consumer.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of a consumer group are told to send heartbeats.",
    )  # fmt: skip
    group_consumer_max_assignment_interval_ms = Setting(
        "group.consumer.max.assignment.interval.ms", integer, 15_000, min=0,
        doc="The upper bound of a group's own `consumer.assignment.interval.ms`.",
    )  # fmt: skip
    group_consumer_max_heartbeat_interval_ms = Setting(
        "group.consumer.max.heartbeat.interval.ms", integer, 15_000, min=1,
        doc="The upper bound of a group's own `consumer.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_consumer_max_session_timeout_ms = Setting(
        "group.consumer.max.session.timeout.ms", integer, 60_000, min=1,
        doc="The upper bound of a group's own `consumer.session.timeout.ms`.",
    )  # fmt: skip
    group_consumer_max_size = Setting(
        "group.consumer.max.size", integer, INT_MAX, min=1,
        doc="The most members that one consumer group can have.",
    )  # fmt: skip
    group_consumer_migration_policy = Setting(
        "group.consumer.migration.policy", string, "bidirectional", ignore_case=True,
        valid=("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        doc="Which way groups may be converted between the classic and the consumer protocol.",
    )  # fmt: skip
    group_consumer_min_assignment_interval_ms = Setting(
        "group.consumer.min.assignment.interval.ms", integer, 0, min=0,
        doc="The lower bound of a group's own `consumer.assignment.interval.ms`.",
    )  # fmt: skip
    group_consumer_min_heartbeat_interval_ms = Setting(
        "group.consumer.min.heartbeat.interval.ms", integer, 5000, min=1,
        doc="The lower bound of a group's own `consumer.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_consumer_min_session_timeout_ms = Setting(
        "group.consumer.min.session.timeout.ms", integer, 45_000, min=1,
        doc="The lower bound of a group's own `consumer.session.timeout.ms`.",
    )  # fmt: skip
    group_consumer_regex_refresh_interval_ms = Setting(
        "group.consumer.regex.refresh.interval.ms", integer, 600_000, min=10_000, internal=True,
        doc="How often the topics that a group's pattern matches are looked up anew.",
    )  # fmt: skip
    group_consumer_session_timeout_ms = Setting(
        "group.consumer.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of a consumer group that is silent for this long is taken out.",
    )  # fmt: skip
    group_coordinator_append_linger_ms = Setting(
        "group.coordinator.append.linger.ms", integer, -1, min=-1,
        doc="How long the group coordinator gathers records before it writes them; -1 adapts to the load.",
    )  # fmt: skip
    group_coordinator_background_threads = Setting(
        "group.coordinator.background.threads", integer, 2, min=1, importance=HIGH,
        doc="How many threads Kafka gives to the chores of groups. Ottla runs them on its one thread.",
    )  # fmt: skip
    group_coordinator_cached_buffer_max_bytes = Setting(
        "group.coordinator.cached.buffer.max.bytes", integer, 1_048_588, min=524_288, update=CLUSTER_WIDE,
        doc="The largest write buffer that the group coordinator keeps for the next write.",
    )  # fmt: skip
    group_coordinator_rebalance_protocols: Setting[tuple[str, ...]] = Setting(
        "group.coordinator.rebalance.protocols", string_list, ("classic", "consumer", "streams"),
        valid=("consumer", "classic", "share", "streams"), may_be_empty=False,
        doc="The group protocols that are served. Deprecated: feature levels decide.",
    )  # fmt: skip
    group_coordinator_threads = Setting(
        "group.coordinator.threads", integer, 4, min=1, importance=HIGH,
        doc="How many threads Kafka gives to the group coordinator. Ottla runs it on its one thread.",
    )  # fmt: skip
    group_initial_rebalance_delay_ms = Setting(
        "group.initial.rebalance.delay.ms", integer, 3000,
        doc="How long the first rebalance of an empty classic group waits for more members.",
    )  # fmt: skip
    group_max_session_timeout_ms = Setting(
        "group.max.session.timeout.ms", integer, 1_800_000,
        doc="The longest session timeout that a member of a classic group may ask for.",
    )  # fmt: skip
    group_max_size = Setting(
        "group.max.size", integer, INT_MAX, min=1,
        doc="The most members that one classic group can have.",
    )  # fmt: skip
    group_min_session_timeout_ms = Setting(
        "group.min.session.timeout.ms", integer, 6000,
        doc="The shortest session timeout that a member of a classic group may ask for.",
    )  # fmt: skip
    group_streams_assignment_interval_ms = Setting(
        "group.streams.assignment.interval.ms", integer, 1000, min=0, update=CLUSTER_WIDE,
        doc="The shortest time between two assignments of a streams group.",
    )  # fmt: skip
    group_streams_heartbeat_interval_ms = Setting(
        "group.streams.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of a streams group are told to send heartbeats.",
    )  # fmt: skip
    group_streams_initial_rebalance_delay_ms = Setting(
        "group.streams.initial.rebalance.delay.ms", integer, 3000, min=0,
        doc="How long the first rebalance of a streams group waits for more members.",
    )  # fmt: skip
    group_streams_max_assignment_interval_ms = Setting(
        "group.streams.max.assignment.interval.ms", integer, 15_000, min=0,
        doc="The upper bound of a group's own `streams.assignment.interval.ms`.",
    )  # fmt: skip
    group_streams_max_heartbeat_interval_ms = Setting(
        "group.streams.max.heartbeat.interval.ms", integer, 15_000, min=1,
        doc="The upper bound of a group's own `streams.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_streams_max_session_timeout_ms = Setting(
        "group.streams.max.session.timeout.ms", integer, 60_000, min=1,
        doc="The upper bound of a group's own `streams.session.timeout.ms`.",
    )  # fmt: skip
    group_streams_max_size = Setting(
        "group.streams.max.size", integer, INT_MAX, min=1,
        doc="The most members that one streams group can have.",
    )  # fmt: skip
    group_streams_max_standby_replicas = Setting(
        "group.streams.max.standby.replicas", integer, 2, min=0,
        doc="The upper bound of a group's own `streams.num.standby.replicas`.",
    )  # fmt: skip
    group_streams_min_assignment_interval_ms = Setting(
        "group.streams.min.assignment.interval.ms", integer, 0, min=0,
        doc="The lower bound of a group's own `streams.assignment.interval.ms`.",
    )  # fmt: skip
    group_streams_min_heartbeat_interval_ms = Setting(
        "group.streams.min.heartbeat.interval.ms", integer, 5000, min=1,
        doc="The lower bound of a group's own `streams.heartbeat.interval.ms`.",
    )  # fmt: skip
    group_streams_min_session_timeout_ms = Setting(
        "group.streams.min.session.timeout.ms", integer, 45_000, min=1,
        doc="The lower bound of a group's own `streams.session.timeout.ms`.",
    )  # fmt: skip
    group_streams_num_standby_replicas = Setting(
        "group.streams.num.standby.replicas", integer, 0, min=0,
        doc="How many standby copies of a task's state a streams group keeps.",
    )  # fmt: skip
    group_streams_session_timeout_ms = Setting(
        "group.streams.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of a streams group that is silent for this long is taken out.",
    )  # fmt: skip
    offset_metadata_max_bytes = Setting(
        "offset.metadata.max.bytes", integer, 4096, importance=HIGH,
        doc="The longest text that may be committed beside an offset.",
    )  # fmt: skip
    offsets_commit_timeout_ms = Setting(
        "offsets.commit.timeout.ms", integer, 5000, min=1, importance=HIGH,
        doc="How long an offset commit waits for its replicas.",
    )  # fmt: skip
    offsets_load_buffer_size = Setting(
        "offsets.load.buffer.size", integer, 5_242_880, min=1, importance=HIGH,
        doc="How much of the offsets log is read at once when it is loaded.",
    )  # fmt: skip
    offsets_retention_check_interval_ms = Setting(
        "offsets.retention.check.interval.ms", long, 600_000, min=1, importance=HIGH,
        doc="How often expired offsets are looked for.",
    )  # fmt: skip
    offsets_retention_minutes = Setting(
        "offsets.retention.minutes", integer, 10_080, min=1, importance=HIGH,
        doc="How long the offsets of a group without members are kept.",
    )  # fmt: skip
    offsets_topic_compression_codec = Setting(
        "offsets.topic.compression.codec", integer, 0, importance=HIGH,
        doc="The codec of the offsets log, by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )  # fmt: skip
    offsets_topic_num_partitions = Setting(
        "offsets.topic.num.partitions", integer, 50, min=1, importance=HIGH,
        doc="The partition count of `__consumer_offsets`; it cannot be changed once the topic exists.",
    )  # fmt: skip
    offsets_topic_replication_factor = Setting(
        "offsets.topic.replication.factor", short, 3, min=1, importance=HIGH,
        doc="The replication factor of `__consumer_offsets`.",
    )  # fmt: skip
    offsets_topic_segment_bytes = Setting(
        "offsets.topic.segment.bytes", integer, 104_857_600, min=1, importance=HIGH,
        doc="The segment size of `__consumer_offsets`.",
    )  # fmt: skip

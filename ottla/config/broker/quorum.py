"""The node, its roles, and the quorum of controllers with its metadata log.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.broker.endpoints import check_bootstrap_servers, check_voters
from ottla.config.table import HIGH, LONG_MAX, LOW, ConfigTable, Setting, boolean, integer, long, string, string_list


class QuorumSettings(ConfigTable):
    """The node, its roles, and the quorum of controllers with its metadata log."""

    broker_heartbeat_interval_ms = Setting(
        "broker.heartbeat.interval.ms", integer, 2000,
        doc="How often a broker tells the controller that it is alive.",
    )  # fmt: skip
    broker_id = Setting(
        "broker.id", integer, -1, importance=HIGH,
        doc="The older name of `node.id`; given together, the two must agree.",
    )  # fmt: skip
    broker_rack: Setting[str | None] = Setting(
        "broker.rack", string, None,
        doc="Where the broker stands, so that replicas spread over racks and readers find a near one.",
    )  # fmt: skip
    broker_session_timeout_ms = Setting(
        "broker.session.timeout.ms", integer, 9000,
        doc="A broker whose last heartbeat is older than this is fenced.",
    )  # fmt: skip
    controlled_shutdown_enable = Setting(
        "controlled.shutdown.enable", boolean, True,
        doc="Whether a broker that stops hands its partitions over first.",
    )  # fmt: skip
    controller_listener_names: Setting[tuple[str, ...]] = Setting(
        "controller.listener.names", string_list, (), required=True, may_be_empty=False, importance=HIGH,
        doc="The listeners that controllers use, in order of preference; brokers do not advertise them.",
    )  # fmt: skip
    controller_performance_always_log_threshold_ms = Setting(
        "controller.performance.always.log.threshold.ms", long, 2000, min=0, internal=True,
        doc="A controller event that took longer than this is always logged.",
    )  # fmt: skip
    controller_performance_sample_period_ms = Setting(
        "controller.performance.sample.period.ms", long, 60_000, min=100, internal=True,
        doc="How often the controller logs how long its events take.",
    )  # fmt: skip
    controller_quorum_append_linger_ms = Setting(
        "controller.quorum.append.linger.ms", integer, 25, min=0,
        doc="How long the leader gathers records before it writes them to the metadata log.",
    )  # fmt: skip
    controller_quorum_auto_join_enable = Setting(
        "controller.quorum.auto.join.enable", boolean, False, importance=LOW,
        doc="Whether a controller that is no voter asks to become one.",
    )  # fmt: skip
    controller_quorum_bootstrap_servers: Setting[tuple[str, ...]] = Setting(
        "controller.quorum.bootstrap.servers", string_list, (), is_plain_list=True, check=check_bootstrap_servers,
        importance=HIGH,
        doc="Where to find the controllers, host:port each, when the voters are in the metadata log.",
    )  # fmt: skip
    controller_quorum_election_backoff_max_ms = Setting(
        "controller.quorum.election.backoff.max.ms", integer, 1000, min=0, importance=HIGH,
        doc="The longest random wait before a candidate that lost tries again.",
    )  # fmt: skip
    controller_quorum_election_timeout_ms = Setting(
        "controller.quorum.election.timeout.ms", integer, 1000, min=0, importance=HIGH,
        doc="How long a candidate waits for votes before it begins anew.",
    )  # fmt: skip
    controller_quorum_fetch_max_bytes = Setting(
        "controller.quorum.fetch.max.bytes", integer, 1_048_576, min=1, importance=LOW,
        doc="How much of the metadata log one fetch asks for.",
    )  # fmt: skip
    controller_quorum_fetch_snapshot_max_bytes = Setting(
        "controller.quorum.fetch.snapshot.max.bytes", integer, 1_048_576, min=1, importance=LOW,
        doc="How much of a metadata snapshot one fetch asks for.",
    )  # fmt: skip
    controller_quorum_fetch_timeout_ms = Setting(
        "controller.quorum.fetch.timeout.ms", integer, 2000, min=0, importance=HIGH,
        doc="How long a voter goes without a successful fetch before it becomes a candidate.",
    )  # fmt: skip
    controller_quorum_request_timeout_ms = Setting(
        "controller.quorum.request.timeout.ms", integer, 2000, min=0,
        doc="How long a controller waits for the answer to a request of its quorum.",
    )  # fmt: skip
    controller_quorum_retry_backoff_ms = Setting(
        "controller.quorum.retry.backoff.ms", integer, 20, min=0, importance=LOW,
        doc="How long a controller waits before it sends a failed request of its quorum again.",
    )  # fmt: skip
    controller_quorum_voters: Setting[tuple[str, ...]] = Setting(
        "controller.quorum.voters", string_list, (), is_plain_list=True, check=check_voters, importance=HIGH,
        doc="The fixed set of voters, id@host:port each; empty when the metadata log holds the voters.",
    )  # fmt: skip
    initial_broker_registration_timeout_ms = Setting(
        "initial.broker.registration.timeout.ms", integer, 60_000,
        doc="A broker that could not register for this long stops.",
    )  # fmt: skip
    internal_metadata_delete_delay_millis = Setting(
        "internal.metadata.delete.delay.millis", long, 60_000, internal=True, importance=LOW,
        doc="How long files of the metadata log that were deleted are kept under another name.",
    )  # fmt: skip
    internal_metadata_log_segment_bytes: Setting[int | None] = Setting(
        "internal.metadata.log.segment.bytes", integer, None, internal=True, importance=LOW,
        doc="A segment size of the metadata log below the public minimum, for tests.",
    )  # fmt: skip
    internal_metadata_max_batch_size_in_bytes = Setting(
        "internal.metadata.max.batch.size.in.bytes", integer, 8_388_608, internal=True, importance=LOW,
        doc="The largest batch of the metadata log.",
    )  # fmt: skip
    metadata_log_dir: Setting[str | None] = Setting(
        "metadata.log.dir", string, None, importance=HIGH,
        doc="The directory of the metadata log; without it, the first of `log.dirs`.",
    )  # fmt: skip
    metadata_log_max_record_bytes_between_snapshots = Setting(
        "metadata.log.max.record.bytes.between.snapshots", long, 20_971_520, min=1, importance=HIGH,
        doc="A metadata snapshot is made when the log has grown by this much since the last one.",
    )  # fmt: skip
    metadata_log_max_snapshot_interval_ms = Setting(
        "metadata.log.max.snapshot.interval.ms", long, 3_600_000, min=0, importance=HIGH,
        doc="A metadata snapshot is made when the last is this old and there is news; 0 is never by age.",
    )  # fmt: skip
    metadata_log_segment_bytes = Setting(
        "metadata.log.segment.bytes", integer, 1_073_741_824, min=8_388_608, importance=HIGH,
        doc="The size of a segment of the metadata log.",
    )  # fmt: skip
    metadata_log_segment_ms = Setting(
        "metadata.log.segment.ms", long, 604_800_000, importance=HIGH,
        doc="The age at which a segment of the metadata log is closed.",
    )  # fmt: skip
    metadata_max_idle_interval_ms = Setting(
        "metadata.max.idle.interval.ms", integer, 500, min=0, importance=LOW,
        doc="A controller with nothing to write writes a no-op this often, so that lag can be seen; 0 is never.",
    )  # fmt: skip
    metadata_max_retention_bytes = Setting(
        "metadata.max.retention.bytes", long, 104_857_600, importance=HIGH,
        doc="What the metadata log and its snapshots may take on disk before old ones are deleted.",
    )  # fmt: skip
    metadata_max_retention_ms = Setting(
        "metadata.max.retention.ms", long, 604_800_000, importance=HIGH,
        doc="How old a metadata segment or snapshot may become before it is deleted.",
    )  # fmt: skip
    node_id = Setting(
        "node.id", integer, -1, required=True, min=0, importance=HIGH,
        doc="The number of this node, its own in the whole cluster.",
    )  # fmt: skip
    process_roles: Setting[tuple[str, ...]] = Setting(
        "process.roles", string_list, (), required=True, valid=("broker", "controller"), may_be_empty=False,
        importance=HIGH,
        doc="What this node is: `broker`, `controller` or both.",
    )  # fmt: skip
    server_max_startup_time_ms = Setting(
        "server.max.startup.time.ms", long, LONG_MAX, min=0, internal=True,
        doc="A node that has not started after this long stops.",
    )  # fmt: skip
    unstable_api_versions_enable = Setting(
        "unstable.api.versions.enable", boolean, False, internal=True, importance=HIGH,
        doc="Whether API versions that are not final are served. Ottla has none.",
    )  # fmt: skip
    unstable_feature_versions_enable = Setting(
        "unstable.feature.versions.enable", boolean, False, internal=True, importance=HIGH,
        doc="Whether feature levels that are not final may be chosen.",
    )  # fmt: skip

"""Leaders, followers, and fetches.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import CLUSTER_WIDE, HIGH, ConfigTable, Setting, boolean, integer, long, string


class ReplicationSettings(ConfigTable):
    """Leaders, followers, and fetches."""

    auto_leader_rebalance_enable = Setting(
        "auto.leader.rebalance.enable", boolean, True, importance=HIGH,
        doc="Whether leadership goes back to the preferred replica by itself.",
    )  # fmt: skip
    controller_socket_timeout_ms = Setting(
        "controller.socket.timeout.ms", integer, 30_000,
        doc="How long a broker waits on the socket for the controller.",
    )  # fmt: skip
    default_replication_factor = Setting(
        "default.replication.factor", integer, 1,
        doc="The replication factor of a topic that was created without one.",
    )  # fmt: skip
    delete_records_purgatory_purge_interval_requests = Setting(
        "delete.records.purgatory.purge.interval.requests", integer, 1,
        doc="After how many waiting requests Kafka sweeps out finished ones. Ottla keeps none to sweep.",
    )  # fmt: skip
    fetch_max_bytes = Setting(
        "fetch.max.bytes", integer, 57_671_680, min=1024,
        doc="The most that the answer to one fetch holds, whatever the client asked for.",
    )  # fmt: skip
    fetch_purgatory_purge_interval_requests = Setting(
        "fetch.purgatory.purge.interval.requests", integer, 1000,
        doc="After how many waiting fetches Kafka sweeps out finished ones. Ottla keeps none to sweep.",
    )  # fmt: skip
    follower_fetch_last_tiered_offset_enable = Setting(
        "follower.fetch.last.tiered.offset.enable", boolean, False, update=CLUSTER_WIDE,
        doc="Whether a new follower of a tiered topic begins at what is not in the remote tier yet.",
    )  # fmt: skip
    leader_imbalance_check_interval_seconds = Setting(
        "leader.imbalance.check.interval.seconds", long, 300, min=1, importance=HIGH,
        doc="How often the controller looks for partitions that the preferred replica does not lead.",
    )  # fmt: skip
    max_incremental_fetch_session_cache_slots = Setting(
        "max.incremental.fetch.session.cache.slots", integer, 1000, min=0,
        doc="How many incremental fetch sessions are kept.",
    )  # fmt: skip
    num_replica_alter_log_dirs_threads: Setting[int | None] = Setting(
        "num.replica.alter.log.dirs.threads", integer, None, importance=HIGH,
        doc="How many threads Kafka moves replicas between log directories with.",
    )  # fmt: skip
    num_replica_fetchers = Setting(
        "num.replica.fetchers", integer, 1, min=1, importance=HIGH, update=CLUSTER_WIDE,
        doc="How many threads Kafka fetches from each other broker with.",
    )  # fmt: skip
    producer_purgatory_purge_interval_requests = Setting(
        "producer.purgatory.purge.interval.requests", integer, 1000,
        doc="After how many waiting requests Kafka sweeps out finished ones. Ottla keeps none to sweep.",
    )  # fmt: skip
    replica_fetch_backoff_ms = Setting(
        "replica.fetch.backoff.ms", integer, 1000, min=0,
        doc="How long a follower waits after a fetch that failed.",
    )  # fmt: skip
    replica_fetch_max_bytes = Setting(
        "replica.fetch.max.bytes", integer, 1_048_576, min=0,
        doc="How much a follower asks for from each partition; a larger first batch is sent all the same.",
    )  # fmt: skip
    replica_fetch_min_bytes = Setting(
        "replica.fetch.min.bytes", integer, 1, importance=HIGH,
        doc="How much a follower waits for before its fetch is answered.",
    )  # fmt: skip
    replica_fetch_response_max_bytes = Setting(
        "replica.fetch.response.max.bytes", integer, 10_485_760, min=0,
        doc="How much a follower asks for from all partitions together.",
    )  # fmt: skip
    replica_fetch_wait_max_ms = Setting(
        "replica.fetch.wait.max.ms", integer, 500, importance=HIGH,
        doc="How long a follower's fetch waits for data.",
    )  # fmt: skip
    replica_high_watermark_checkpoint_interval_ms = Setting(
        "replica.high.watermark.checkpoint.interval.ms", long, 5000, importance=HIGH,
        doc="How often the high watermarks are written down.",
    )  # fmt: skip
    replica_lag_time_max_ms = Setting(
        "replica.lag.time.max.ms", long, 30_000, importance=HIGH,
        doc="A follower that has not caught up for this long leaves the in-sync set.",
    )  # fmt: skip
    replica_selector_class: Setting[str | None] = Setting(
        "replica.selector.class", string, None,
        doc="The class that finds a near replica for a reader.",
    )  # fmt: skip
    replica_socket_receive_buffer_bytes = Setting(
        "replica.socket.receive.buffer.bytes", integer, 65_536, importance=HIGH,
        doc="The receive buffer of a follower's socket.",
    )  # fmt: skip
    replica_socket_timeout_ms = Setting(
        "replica.socket.timeout.ms", integer, 30_000, importance=HIGH,
        doc="How long a follower waits on its socket.",
    )  # fmt: skip
    unclean_leader_election_interval_ms = Setting(
        "unclean.leader.election.interval.ms", long, 300_000, min=1, internal=True,
        doc="How often partitions that may get an unclean leader are looked for.",
    )  # fmt: skip

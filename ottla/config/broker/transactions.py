"""Transactions and producer ids.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import CLUSTER_WIDE, HIGH, LOW, ConfigTable, Setting, boolean, integer, short


class TransactionSettings(ConfigTable):
    """Transactions and producer ids."""

    add_partitions_to_txn_retry_backoff_max_ms = Setting(
        "add.partitions.to.txn.retry.backoff.max.ms", integer, 100, min=0, importance=HIGH,
        doc="The longest wait while a broker tries again to have a partition added to a transaction.",
    )  # fmt: skip
    add_partitions_to_txn_retry_backoff_ms = Setting(
        "add.partitions.to.txn.retry.backoff.ms", integer, 20, min=1, importance=HIGH,
        doc="The first wait while a broker tries again to have a partition added to a transaction.",
    )  # fmt: skip
    producer_id_expiration_check_interval_ms = Setting(
        "producer.id.expiration.check.interval.ms", integer, 600_000, min=1, internal=True, importance=LOW,
        doc="How often producers that have gone silent are looked for.",
    )  # fmt: skip
    producer_id_expiration_ms = Setting(
        "producer.id.expiration.ms", integer, 86_400_000, min=1, importance=LOW, update=CLUSTER_WIDE,
        doc="A producer that has not written to a partition for this long is forgotten there.",
    )  # fmt: skip
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", integer, 10_000, min=1, importance=LOW,
        doc="How often transactions that ran out of time are aborted.",
    )  # fmt: skip
    transaction_max_timeout_ms = Setting(
        "transaction.max.timeout.ms", integer, 900_000, min=1, importance=HIGH,
        doc="The longest timeout that a producer may ask for its transactions.",
    )  # fmt: skip
    transaction_partition_verification_enable = Setting(
        "transaction.partition.verification.enable", boolean, True, importance=LOW, update=CLUSTER_WIDE,
        doc="Whether a leader asks the coordinator before it takes a transaction's first record.",
    )  # fmt: skip
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", integer, 3_600_000, min=1, importance=LOW,
        doc="How often transactional ids that expired are removed.",
    )  # fmt: skip
    transaction_state_log_load_buffer_size = Setting(
        "transaction.state.log.load.buffer.size", integer, 5_242_880, min=1, importance=HIGH,
        doc="How much of the transaction log is read at once when it is loaded.",
    )  # fmt: skip
    transaction_state_log_min_isr = Setting(
        "transaction.state.log.min.isr", integer, 2, min=1, importance=HIGH,
        doc="`min.insync.replicas` of `__transaction_state`.",
    )  # fmt: skip
    transaction_state_log_num_partitions = Setting(
        "transaction.state.log.num.partitions", integer, 50, min=1, importance=HIGH,
        doc="The partition count of `__transaction_state`; it cannot be changed once the topic exists.",
    )  # fmt: skip
    transaction_state_log_replication_factor = Setting(
        "transaction.state.log.replication.factor", short, 3, min=1, importance=HIGH,
        doc="The replication factor of `__transaction_state`.",
    )  # fmt: skip
    transaction_state_log_segment_bytes = Setting(
        "transaction.state.log.segment.bytes", integer, 104_857_600, min=1, importance=HIGH,
        doc="The segment size of `__transaction_state`.",
    )  # fmt: skip
    transaction_two_phase_commit_enable = Setting(
        "transaction.two.phase.commit.enable", boolean, False, importance=LOW,
        doc="Whether a producer may leave its commit to an outside coordinator.",
    )  # fmt: skip
    transactional_id_expiration_ms = Setting(
        "transactional.id.expiration.ms", integer, 604_800_000, min=1, importance=HIGH,
        doc="A transactional id that was not used for this long is forgotten.",
    )  # fmt: skip

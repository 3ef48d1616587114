"""Metrics, quotas, and where values of settings may come from.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import CLUSTER_WIDE, LOW, ConfigTable, Setting, class_name, integer, long, string, string_list


class MeteringSettings(ConfigTable):
    """Metrics, quotas, and where values of settings may come from."""

    alter_log_dirs_replication_quota_window_num = Setting(
        "alter.log.dirs.replication.quota.window.num", integer, 11, min=1, importance=LOW,
        doc="How many samples the rate of moves between log directories is measured over.",
    )  # fmt: skip
    alter_log_dirs_replication_quota_window_size_seconds = Setting(
        "alter.log.dirs.replication.quota.window.size.seconds", integer, 1, min=1, importance=LOW,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    client_quota_callback_class: Setting[str | None] = Setting(
        "client.quota.callback.class", class_name, None, importance=LOW,
        doc="A class that decides about quotas. Ottla loads no Java classes.",
    )  # fmt: skip
    config_providers: Setting[tuple[str, ...]] = Setting(
        "config.providers", string_list, (), importance=LOW, update=CLUSTER_WIDE,
        doc="Aliases of classes that fetch values from elsewhere. Ottla loads no Java classes.",
    )  # fmt: skip
    controller_quota_window_num = Setting(
        "controller.quota.window.num", integer, 11, min=1, importance=LOW,
        doc="How many samples the rate of topic changes is measured over.",
    )  # fmt: skip
    controller_quota_window_size_seconds = Setting(
        "controller.quota.window.size.seconds", integer, 1, min=1, importance=LOW,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    kafka_metrics_polling_interval_secs = Setting(
        "kafka.metrics.polling.interval.secs", integer, 10, min=1, importance=LOW,
        doc="How often Kafka's older metrics reporters are called.",
    )  # fmt: skip
    kafka_metrics_reporters: Setting[tuple[str, ...]] = Setting(
        "kafka.metrics.reporters", string_list, (), importance=LOW,
        doc="Kafka's older metrics reporters. Ottla loads no Java classes.",
    )  # fmt: skip
    metric_reporters: Setting[tuple[str, ...]] = Setting(
        "metric.reporters", string_list, ("org.apache.kafka.common.metrics.JmxReporter",), importance=LOW,
        update=CLUSTER_WIDE,
        doc="Metrics reporters. Ottla loads no Java classes; it serves metrics in Prometheus' form.",
    )  # fmt: skip
    metrics_num_samples = Setting(
        "metrics.num.samples", integer, 2, min=1, importance=LOW,
        doc="How many samples a metric is computed from.",
    )  # fmt: skip
    metrics_recording_level = Setting(
        "metrics.recording.level", string, "INFO", importance=LOW,
        doc="The level of detail of metrics.",
    )  # fmt: skip
    metrics_sample_window_ms = Setting(
        "metrics.sample.window.ms", long, 30_000, min=1, importance=LOW,
        doc="The length of one sample of a metric.",
    )  # fmt: skip
    quota_window_num = Setting(
        "quota.window.num", integer, 11, min=1, importance=LOW,
        doc="How many samples a client's rate is measured over.",
    )  # fmt: skip
    quota_window_size_seconds = Setting(
        "quota.window.size.seconds", integer, 1, min=1, importance=LOW,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    replication_quota_window_num = Setting(
        "replication.quota.window.num", integer, 11, min=1, importance=LOW,
        doc="How many samples the rate of throttled replication is measured over.",
    )  # fmt: skip
    replication_quota_window_size_seconds = Setting(
        "replication.quota.window.size.seconds", integer, 1, min=1, importance=LOW,
        doc="The length of one sample of that rate.",
    )  # fmt: skip
    telemetry_max_bytes = Setting(
        "telemetry.max.bytes", integer, 1_048_576, min=1, importance=LOW,
        doc="The largest push of metrics that a client may send.",
    )  # fmt: skip

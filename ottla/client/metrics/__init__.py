"""What a client measures, with Kafka's names: `Metrics` holds them, the other classes are told what happens."""

from ottla.client.metrics.fetching import FetchMetrics, ShareFetchMetrics
from ottla.client.metrics.membership import CoordinatorMetrics, HeartbeatMetrics
from ottla.client.metrics.metrics import MetricName, Metrics, MetricValues
from ottla.client.metrics.network import NetworkMetrics, NodeMetrics
from ottla.client.metrics.polling import PollMetrics
from ottla.client.metrics.producer import ProducerMetrics
from ottla.client.metrics.series import Series

__all__ = [
    "MetricName",
    "MetricValues",
    "Metrics",
    "Series",
    "NetworkMetrics",
    "NodeMetrics",
    "ProducerMetrics",
    "FetchMetrics",
    "ShareFetchMetrics",
    "CoordinatorMetrics",
    "HeartbeatMetrics",
    "PollMetrics",
]

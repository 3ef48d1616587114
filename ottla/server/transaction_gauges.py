"""The transaction coordinator's metrics, under Kafka's names; read when somebody looks.

`publish_transaction_gauges` adds them to the registry once. Called by `gauges`. What verification costs is counted by
`verification`.
"""

from __future__ import annotations

from ottla.server.broker import BrokerServices
from ottla.server.verification import FAILURES, TIME_MS

_MARKERS = "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name="


def publish_transaction_gauges(broker: BrokerServices) -> None:
    """Ends of transactions that wait for something, and how verification goes."""
    metrics, completions = broker.node.metrics, broker.transactions.completions
    metrics.gauge(f"{_MARKERS}UnknownDestinationQueueSize", lambda: completions.waiting_marker_count)
    metrics.gauge(f"{_MARKERS}LogAppendRetryQueueSize", lambda: completions.waiting_append_count)
    metrics.counter(FAILURES)
    metrics.histogram(TIME_MS)

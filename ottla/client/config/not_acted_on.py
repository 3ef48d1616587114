"""Settings that are read and checked, and that no client acts on yet, with the reason.

A change that makes a client act on one takes its name out: a test looks for code that reads it. Where a name means
something to one kind of client only, it is that kind's.
"""

from __future__ import annotations

NOT_ACTED_ON: dict[str, str] = {
    "client.dns.lookup": "Every address of a name is tried, and names are never made canonical.",
    "config.providers": "Ottla loads no Java classes; anything but the empty list is refused.",
    "enable.metrics.push": "Clients do not send their metrics to the cluster yet.",
    "metric.reporters": "Ottla loads no Java classes; anything but the default is refused.",
    "metrics.recording.level": "Everything that is measured is always recorded.",
    "receive.buffer.bytes": "The system's own size is used.",
    "send.buffer.bytes": "The system's own size is used.",
    "transaction.two.phase.commit.enable": "A producer does not take part in the transactions of others yet.",
}

"""Settings that Ottla reads and checks but does not act on yet; a node that is given one says so once.

A change that makes Ottla act on a setting takes its name out of here; a test compares the list with what is read.
"""

from __future__ import annotations

from ottla.config.broker.config import BrokerConfig

# A family is out as a whole until its feature is there, but for the names in `_ACTED_ON`.
_FAMILIES = (
    "alter.log.dirs.",
    "controller.quota.",
    "delegation.token.",
    "group.",
    "kafka.metrics.",
    "metric.",
    "metrics.",
    "offsets.",
    "quota.",
    "remote.",
    "replica.",
    "replication.quota.",
    "sasl.",
    "share.",
    "ssl.",
    "transaction.",
)
_ACTED_ON = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.rebalance.protocols",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.share.assignment.interval.ms",
        "group.share.delivery.count.limit",
        "group.share.heartbeat.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.max.assignment.interval.ms",
        "group.share.max.delivery.count.limit",
        "group.share.max.heartbeat.interval.ms",
        "group.share.max.partition.max.record.locks",
        "group.share.max.record.lock.duration.ms",
        "group.share.max.session.timeout.ms",
        "group.share.max.share.sessions",
        "group.share.max.size",
        "group.share.min.assignment.interval.ms",
        "group.share.min.delivery.count.limit",
        "group.share.min.heartbeat.interval.ms",
        "group.share.min.partition.max.record.locks",
        "group.share.min.record.lock.duration.ms",
        "group.share.min.session.timeout.ms",
        "group.share.partition.max.record.locks",
        "group.share.record.lock.duration.ms",
        "group.share.session.timeout.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.initial.rebalance.delay.ms",
        "group.streams.max.assignment.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
        "group.streams.max.session.timeout.ms",
        "group.streams.max.size",
        "group.streams.max.standby.replicas",
        "group.streams.min.assignment.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.num.standby.replicas",
        "group.streams.session.timeout.ms",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.compression.codec",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "quota.window.num",
        "quota.window.size.seconds",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.timeout.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.snapshot.update.records.per.snapshot",
        "share.coordinator.state.topic.compression.codec",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.prune.interval.ms",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.write.timeout.ms",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "transaction.state.log.min.isr",
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.two.phase.commit.enable",
    }
)
_SINGLE = frozenset(
    {
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "background.threads",
        "client.quota.callback.class",
        "config.providers",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "controller.quorum.append.linger.ms",
        "controller.quorum.auto.join.enable",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "fetch.purgatory.purge.interval.requests",
        "follower.fetch.last.tiered.offset.enable",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.cleaner.threads",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "num.io.threads",
        "num.network.threads",
        "num.replica.alter.log.dirs.threads",
        "principal.builder.class",
        "producer.purgatory.purge.interval.requests",
        "queued.max.request.bytes",
        "queued.max.requests",
        "security.providers",
        "server.max.startup.time.ms",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)

_NOT_OF_THE_FILE = frozenset(
    {
        # A topic's.
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        # A broker's, in the metadata log alone.
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        # A subscription's to clients' metrics.
        "interval.ms",
        "match",
        "metrics",
    }
)

NOT_ACTED_ON: frozenset[str] = (
    _SINGLE
    | _NOT_OF_THE_FILE
    | {name for name in BrokerConfig.settings if name.startswith(_FAMILIES) and name not in _ACTED_ON}
)
"""The names of the settings that have no effect in Ottla yet, also of those that no `server.properties` can set."""


def names_without_effect(config: BrokerConfig) -> tuple[list[str], list[str]]:
    """What was given and has no effect: settings of `NOT_ACTED_ON`, and names that are no settings at all.

    A setting for one listener or of a plug-in has a name that only its owner knows, so it counts as neither.
    """
    known = [name for name in config.originals if name in NOT_ACTED_ON and name in BrokerConfig.settings]
    unknown = [
        name
        for name in config.originals
        if name not in BrokerConfig.settings and not name.startswith(("listener.name.", "rlmm.config.", "rsm.config."))
    ]
    return sorted(known), sorted(unknown)

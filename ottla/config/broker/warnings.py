"""What a node says about its settings when it starts, though it starts: one line each.

Called by the composition root, which logs them.
"""

from __future__ import annotations

from ottla.config.broker.config import BrokerConfig
from ottla.config.broker.not_acted_on import names_without_effect


def start_warnings(config: BrokerConfig) -> list[str]:
    """What an operator would want to know: settings without effect, and those that will not do what was meant."""
    without_effect, unknown = names_without_effect(config)
    lines = []
    if without_effect:
        lines.append(f"These settings are checked, but have no effect in Ottla yet: {', '.join(without_effect)}")
    if unknown:
        lines.append(f"These names are no settings of Kafka and have no effect: {', '.join(unknown)}")
    if config.broker_heartbeat_interval_ms * 2 > config.broker_session_timeout_ms:
        lines.append(
            f"broker.heartbeat.interval.ms ({config.broker_heartbeat_interval_ms} ms) is more than half of "
            f"broker.session.timeout.ms ({config.broker_session_timeout_ms} ms): one late heartbeat fences the broker"
        )
    if "group.coordinator.rebalance.protocols" in config.originals:
        lines.append("group.coordinator.rebalance.protocols is deprecated: feature levels decide from Kafka 5.0 on")
    if not config.is_controller:
        lines += _broker_only(config)
    return lines


def _broker_only(config: BrokerConfig) -> list[str]:
    lines = []
    if len(config.controller_listener_names) > 1:
        lines.append(
            "controller.listener.names has multiple entries; only the first will be used since process.roles=broker: "
            f"{', '.join(config.controller_listener_names)}"
        )
    misplaced = [
        name
        for name in (
            "create.topic.policy.class.name",
            "alter.config.policy.class.name",
            "num.partitions",
            "default.replication.factor",
        )
        if name in config.originals
    ]
    if misplaced:
        lines.append(f"These settings belong to the controllers, and this node is none: {', '.join(misplaced)}")
    return lines

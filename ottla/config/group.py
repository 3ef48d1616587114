"""The settings of one group: what it can decide for itself within the broker's bounds (KIP-848, KIP-932, KIP-1071).

Names, defaults and bounds are Kafka's (kafka-facts/config-group.json, checked by a test). Called by the coordinator,
and by the controller when a group's settings are altered.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.broker import BrokerConfig
from ottla.config.durations import duration_ms
from ottla.config.table import ConfigTable, Setting, boolean, integer, string
from ottla.errors import InvalidConfig

_BY_DURATION = "by_duration:"


def check_offset_reset(name: str, value: str) -> None:
    if value in ("latest", "earliest"):
        return
    try:
        if value.startswith(_BY_DURATION):
            duration_ms(value.removeprefix(_BY_DURATION))
            return
    except ValueError:
        pass  # the message below says what would be right
    raise InvalidConfig(
        f"Invalid value {value} for configuration {name}: Invalid value `{value}` for configuration {name}. The value "
        "must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


class GroupConfig(ConfigTable):
    """One group's settings. `GroupConfig.of({"consumer.session.timeout.ms": "50000"}, broker)`."""

    consumer_session_timeout_ms = Setting(
        "consumer.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of the consumer group that is silent for this long is taken out.",
    )  # fmt: skip
    consumer_heartbeat_interval_ms = Setting(
        "consumer.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of the consumer group are told to send heartbeats.",
    )  # fmt: skip
    consumer_assignment_interval_ms = Setting(
        "consumer.assignment.interval.ms", integer, 1000, min=0,
        doc="The shortest time between two assignments of the consumer group.",
    )  # fmt: skip
    share_session_timeout_ms = Setting(
        "share.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of the share group that is silent for this long is taken out.",
    )  # fmt: skip
    share_heartbeat_interval_ms = Setting(
        "share.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of the share group are told to send heartbeats.",
    )  # fmt: skip
    share_record_lock_duration_ms = Setting(
        "share.record.lock.duration.ms", integer, 30_000, min=1000,
        doc="How long a member of the share group owns a record before it is delivered again.",
    )  # fmt: skip
    share_delivery_count_limit = Setting(
        "share.delivery.count.limit", integer, 5, min=2,
        doc="How often a record is delivered to the share group before it counts as undeliverable.",
    )  # fmt: skip
    share_partition_max_record_locks = Setting(
        "share.partition.max.record.locks", integer, 2000, min=100,
        doc="The most records of one partition that the share group holds in flight.",
    )  # fmt: skip
    share_auto_offset_reset = Setting(
        "share.auto.offset.reset", string, "latest", check=check_offset_reset,
        doc="Where the share group begins: `latest`, `earliest`, or `by_duration:` and how far back.",
    )  # fmt: skip
    share_isolation_level = Setting(
        "share.isolation.level", string, "read_uncommitted", valid=("read_committed", "read_uncommitted"),
        doc="Whether the share group is given records of open and aborted transactions.",
    )  # fmt: skip
    share_renew_acknowledge_enable = Setting(
        "share.renew.acknowledge.enable", boolean, True,
        doc="Whether members of the share group may prolong their hold on a record.",
    )  # fmt: skip
    share_assignment_interval_ms = Setting(
        "share.assignment.interval.ms", integer, 1000, min=0,
        doc="The shortest time between two assignments of the share group.",
    )  # fmt: skip
    streams_session_timeout_ms = Setting(
        "streams.session.timeout.ms", integer, 45_000, min=1,
        doc="A member of the streams group that is silent for this long is taken out.",
    )  # fmt: skip
    streams_heartbeat_interval_ms = Setting(
        "streams.heartbeat.interval.ms", integer, 5000, min=1,
        doc="How often the members of the streams group are told to send heartbeats.",
    )  # fmt: skip
    streams_num_standby_replicas = Setting(
        "streams.num.standby.replicas", integer, 0, min=0,
        doc="How many standby copies of a task's state the streams group keeps.",
    )  # fmt: skip
    streams_initial_rebalance_delay_ms = Setting(
        "streams.initial.rebalance.delay.ms", integer, 3000, min=0,
        doc="How long the first rebalance of the streams group waits for more members.",
    )  # fmt: skip
    streams_assignment_interval_ms = Setting(
        "streams.assignment.interval.ms", integer, 1000, min=0,
        doc="The shortest time between two assignments of the streams group.",
    )  # fmt: skip

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> GroupConfig:
        """The group's settings: its own, else the broker's."""
        values: dict[str, object] = {
            name: broker.value_of(broker_name)
            for name in cls.settings
            if (broker_name := cls.broker_name(name)) is not None
        }
        return cls({**values, **overrides})

    @staticmethod
    def broker_name(name: str) -> str | None:
        """The broker's setting that a group's falls back to, if there is one."""
        return f"group.{name}" if f"group.{name}" in BrokerConfig.settings else None


def validate_group(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Refuse with `InvalidConfig` what cannot be a group's settings under this broker's bounds."""
    refuse_nulls(overrides, "group")
    for name in overrides:
        if name not in GroupConfig.settings:
            raise InvalidConfig(f"Unknown group config name: {name}")
    config = GroupConfig.of({name: value for name, value in overrides.items() if value is not None}, broker)
    for name in GroupConfig.settings:
        _check_bounds(name, config, broker)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if config.value_of(session) <= config.value_of(heartbeat):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def _check_bounds(name: str, config: GroupConfig, broker: BrokerConfig) -> None:
    kind, _, rest = name.partition(".")
    low = f"group.{kind}.min.{rest}"
    high = f"group.{kind}.max.{rest.removeprefix('num.')}"
    if low in BrokerConfig.settings and config.value_of(name) < broker.value_of(low):
        raise InvalidConfig(f"{name} must be greater than or equal to {low}")
    if high in BrokerConfig.settings and config.value_of(name) > broker.value_of(high):
        raise InvalidConfig(f"{name} must be less than or equal to {high}")


def refuse_nulls(overrides: Mapping[str, str | None], kind: str) -> None:
    """`InvalidConfig` when a value is missing; `kind` is what the settings are for."""
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for {kind} configs: {','.join(nulls)}")

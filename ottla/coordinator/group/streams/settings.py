"""`StreamsSettings`: the settings in effect for a Streams group: its own, within bounds, or else the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.config import BrokerConfig, GroupConfig
from ottla.metadata import GROUP, Image

NUM_STANDBY_REPLICAS = "num.standby.replicas"
"""The one assignment config there is, as the log names it."""


class StreamsSettings(NamedTuple):
    """The settings in effect for one group."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    initial_rebalance_delay_ms: int
    assignment_interval_ms: int
    assignment_configs: Mapping[str, str]
    """What a target is computed with, as the log keeps it: another value is another target."""

    @classmethod
    def of_broker(cls, broker: BrokerConfig) -> StreamsSettings:
        return cls(
            session_timeout_ms=broker.group_streams_session_timeout_ms,
            heartbeat_interval_ms=broker.group_streams_heartbeat_interval_ms,
            initial_rebalance_delay_ms=broker.group_streams_initial_rebalance_delay_ms,
            assignment_interval_ms=broker.group_streams_assignment_interval_ms,
            assignment_configs={NUM_STANDBY_REPLICAS: str(broker.group_streams_num_standby_replicas)},
        )

    @classmethod
    def of_group(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> StreamsSettings:
        """Bounds that were moved after the group was given its settings count all the same."""
        group = GroupConfig.of(overrides, broker)
        standbys = min(group.streams_num_standby_replicas, broker.group_streams_max_standby_replicas)
        return cls(
            session_timeout_ms=_within(
                group.streams_session_timeout_ms,
                broker.group_streams_min_session_timeout_ms,
                broker.group_streams_max_session_timeout_ms,
            ),
            heartbeat_interval_ms=_within(
                group.streams_heartbeat_interval_ms,
                broker.group_streams_min_heartbeat_interval_ms,
                broker.group_streams_max_heartbeat_interval_ms,
            ),
            initial_rebalance_delay_ms=group.streams_initial_rebalance_delay_ms,
            assignment_interval_ms=_within(
                group.streams_assignment_interval_ms,
                broker.group_streams_min_assignment_interval_ms,
                broker.group_streams_max_assignment_interval_ms,
            ),
            assignment_configs={NUM_STANDBY_REPLICAS: str(standbys)},
        )


class SettingsTable:
    """The settings of all groups, worked out when they are first asked for and again when they have changed."""

    __slots__ = ("_broker", "_default", "_groups")

    def __init__(self) -> None:
        self._broker: BrokerConfig | None = None
        self._default: StreamsSettings
        self._groups: dict[str, tuple[Mapping[str, str], StreamsSettings]] = {}

    def of(self, group_id: str, image: Image, broker: BrokerConfig) -> StreamsSettings:
        if broker is not self._broker:
            self._broker = broker
            self._default = StreamsSettings.of_broker(broker)
            self._groups.clear()
        overrides = image.configs.get((GROUP, group_id))
        if not overrides:
            self._groups.pop(group_id, None)
            return self._default
        known = self._groups.get(group_id)
        if known is None or known[0] is not overrides:
            known = self._groups[group_id] = overrides, StreamsSettings.of_group(overrides, broker)
        return known[1]


def _within(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))

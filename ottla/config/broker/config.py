"""`BrokerConfig`: every setting of a node, read from `server.properties` and checked as Kafka checks it at the start.

Promises: each value is parsed and within its bounds, and the values agree with each other (`broker.checks`); what is
wrong raises `InvalidConfig` in one line that names the setting. Names that Kafka does not know are kept in
`originals`, because Kafka keeps them too. A table never changes: `with_dynamic` makes a new one.
Called by the composition root, and through it by everything that has settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ottla.config.broker.checks import check_broker
from ottla.config.broker.endpoints import (
    NON_ROUTABLE_HOST,
    ListenerSpec,
    Voter,
    listener_name,
    parse_bootstrap_servers,
    parse_listeners,
    parse_map,
    parse_protocol_map,
    parse_voters,
)
from ottla.config.broker.groups import GroupSettings
from ottla.config.broker.logs import LogSettings
from ottla.config.broker.metering import MeteringSettings
from ottla.config.broker.network import NetworkSettings
from ottla.config.broker.quorum import QuorumSettings
from ottla.config.broker.remote import RemoteSettings
from ottla.config.broker.replication import ReplicationSettings
from ottla.config.broker.security import SecuritySettings
from ottla.config.broker.share import ShareSettings
from ottla.config.broker.synonyms import broker_synonyms
from ottla.config.broker.transactions import TransactionSettings
from ottla.config.cleaner import CleanerConfig
from ottla.config.log import LogConfig
from ottla.config.values import Password, spell

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


class BrokerConfig(
    QuorumSettings,
    NetworkSettings,
    LogSettings,
    ReplicationSettings,
    GroupSettings,
    ShareSettings,
    TransactionSettings,
    RemoteSettings,
    SecuritySettings,
    MeteringSettings,
):
    """A node's settings. `BrokerConfig(read_properties(text))`; the attribute of `num.partitions` is `num_partitions`.

    Values may be texts, as in the file, or already what they mean: `BrokerConfig({"node.id": 1, ...})`.
    """

    originals: dict[str, str]
    """What was given, as text, unknown names included; `node.id` and `broker.id` stand in for each other."""

    def __init__(self, values: Mapping[str, object]) -> None:
        given = dict(values)
        if "node.id" in given:
            given.setdefault("broker.id", given["node.id"])
        elif "broker.id" in given:
            given["node.id"] = given["broker.id"]
        self.originals = {name: _text(value) for name, value in given.items() if value is not None}
        super().__init__(given)

    def _derive(self) -> None:
        self._log_config: LogConfig | None = None
        self.roles = frozenset(self.process_roles)
        self.log_dir_list = list(self.log_dirs if self.log_dirs is not None else self.log_dir)
        self.metadata_dir = self.metadata_log_dir or self.log_dir_list[0]
        self.security_protocols = self._security_protocols()
        self.listener_list = parse_listeners(self.listeners, self.security_protocols, distinct_ports=True)
        self.quorum_voters: list[Voter] = parse_voters(self.controller_quorum_voters)
        self.quorum_bootstrap = parse_bootstrap_servers(self.controller_quorum_bootstrap_servers)
        self.advertised_listener_list = self._advertised_by_broker()
        self.advertised_controller_listener_list = self._advertised_by_controller()
        check_broker(self)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def broker_listener_list(self) -> list[ListenerSpec]:
        """The listeners that are not the controllers'."""
        return [one for one in self.listener_list if one.name not in self.controller_listener_names]

    @property
    def controller_listener_list(self) -> list[ListenerSpec]:
        """The listeners that are the controllers'."""
        return [one for one in self.listener_list if one.name in self.controller_listener_names]

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def connections_per_ip(self) -> dict[str, int]:
        """`max.connections.per.ip.overrides`: address -> how many."""
        name = "max.connections.per.ip.overrides"
        return {host: int(count) for host, count in parse_map(name, self.max_connections_per_ip_overrides).items()}

    @property
    def retention_ms(self) -> int:
        """`log.retention.ms`, `.minutes` or `.hours`, the first that is given; -1 for any value below zero."""
        if self.log_retention_ms is not None:
            found = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            found = self.log_retention_minutes * MINUTE_MS
        else:
            found = self.log_retention_hours * HOUR_MS
        return max(found, -1)

    @property
    def roll_ms(self) -> int:
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @property
    def roll_jitter_ms(self) -> int:
        return self.log_roll_jitter_hours * HOUR_MS if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @property
    def flush_interval_ms(self) -> int:
        if self.log_flush_interval_ms is None:
            return self.log_flush_scheduler_interval_ms
        return self.log_flush_interval_ms

    def log_config(self) -> LogConfig:
        """The defaults that this node gives to topics; the same table each time, because neither changes."""
        if self._log_config is None:
            self._log_config = self._make_log_config()
        return self._log_config

    def _make_log_config(self) -> LogConfig:
        values = {name: self.value_of(name) for name in LogConfig.settings if name in self.settings}
        values["log.retention.ms"] = self.retention_ms
        values["log.roll.ms"] = self.roll_ms
        values["log.roll.jitter.ms"] = self.roll_jitter_ms
        values["log.flush.interval.ms"] = self.flush_interval_ms
        return LogConfig(values)

    def cleaner_config(self) -> CleanerConfig:
        """What the cleaner takes from these settings."""
        return CleanerConfig({name: self.value_of(name) for name in CleanerConfig.settings})

    def with_dynamic(self, *overrides: Mapping[str, str]) -> Self:
        """These settings with what the metadata log says on top: first the cluster's defaults, then the broker's own.

        An override takes the place of its synonyms too: `log.retention.ms` from the metadata log wins over
        `log.retention.hours` from the file, and over what the cluster's default said.
        """
        values: dict[str, object] = dict(self.originals)
        for override in overrides:
            for name, value in override.items():
                for synonym in broker_synonyms(name, match_listener=False):
                    values.pop(synonym, None)
                values[name] = value
        return type(self)(values)

    def _security_protocols(self) -> dict[str, str]:
        """The protocol of each listener, by name.

        Without a map of one's own a controller's listener of any name is PLAINTEXT, unless TLS or SASL is in use
        somewhere: then it has to be said.
        """
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        if "listener.security.protocol.map" not in self.originals:
            names = [*self.controller_listener_names, *(listener_name(entry) for entry in self.listeners)]
            if not {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}.intersection(names):
                protocols.update((name, "PLAINTEXT") for name in self.controller_listener_names if name != "PLAINTEXT")
        return protocols

    def _advertised(self) -> list[ListenerSpec] | None:
        if self.advertised_listeners is None:
            return None
        return parse_listeners(self.advertised_listeners, self.security_protocols, distinct_ports=False)

    def _advertised_by_broker(self) -> list[ListenerSpec]:
        advertised = self._advertised()
        listeners = self.listener_list if advertised is None else advertised
        return [one for one in listeners if one.name not in self.controller_listener_names]

    def _advertised_by_controller(self) -> list[ListenerSpec]:
        """Each controller listener as advertised, else as listened on, with the voter's address for a wildcard."""
        advertised = {one.name: one for one in self._advertised() or [] if one.name in self.controller_listener_names}
        listened = {one.name: one for one in self.controller_listener_list}
        found = []
        for index, name in enumerate(self.controller_listener_names):
            listener = advertised.get(name.upper()) or listened.get(name.upper())
            if listener is None:
                continue
            if name.upper() not in advertised and listener.host in ("", NON_ROUTABLE_HOST):
                voter = next((one for one in self.quorum_voters if one.id == self.node_id and index == 0), None)
                host, port = (voter.host, voter.port) if voter else ("", listener.port)
                listener = ListenerSpec(listener.name, host, port, listener.security_protocol)
            found.append(listener)
        return found


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Password):
        return value.value
    return spell(tuple(value) if isinstance(value, list) else value) or ""

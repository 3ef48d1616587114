"""The settings that change while the broker runs: which can, for whom, and what the metadata log says of them.

A broker's value comes from the first that has one: the metadata log for this broker, the metadata log for all
brokers, the file, the default (KIP-226). Promises: `validate_dynamic` refuses what Kafka refuses, with its words;
`DynamicConfig` is always usable, because what in the metadata log is wrong is left out and named in `ignored`.
Called by the metadata publisher of settings and by the handlers of AlterConfigs and DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.broker.synonyms import LISTENER_SETTING
from ottla.config.table import LONG_MAX, ConfigTable, Setting, Update, long
from ottla.errors import InvalidConfig, InvalidRequest


class BrokerQuotas(ConfigTable):
    """Limits of a broker that only the metadata log can set."""

    leader_replication_throttled_rate = Setting(
        "leader.replication.throttled.rate", long, LONG_MAX, min=0, update=Update.CLUSTER_WIDE,
        doc="How many bytes a second this broker sends to throttled followers.",
    )  # fmt: skip
    follower_replication_throttled_rate = Setting(
        "follower.replication.throttled.rate", long, LONG_MAX, min=0, update=Update.CLUSTER_WIDE,
        doc="How many bytes a second this broker fetches for throttled replicas.",
    )  # fmt: skip
    replica_alter_log_dirs_io_max_bytes_per_second = Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second", long, LONG_MAX, min=0, update=Update.CLUSTER_WIDE,
        doc="How many bytes a second this broker moves between its log directories.",
    )  # fmt: skip


DYNAMIC_SETTINGS: dict[str, Setting[Any]] = {
    name: setting
    for table in (BrokerConfig, BrokerQuotas)
    for name, setting in table.settings.items()
    if setting.update is not Update.READ_ONLY
}
"""Every setting that can change while the broker runs, by name."""

_PER_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Those that can change only for a named listener."""

_CLUSTER_WIDE_FOR_LISTENERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})

_THREAD_COUNTS = ("num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads")


class DynamicConfig:
    """A broker's settings with what the metadata log says on top, and where each value comes from."""

    def __init__(
        self, static: BrokerConfig, cluster: Mapping[str, str] | None = None, own: Mapping[str, str] | None = None
    ) -> None:
        """`cluster` is what the log has for all brokers, `own` what it has for this one."""
        self.static = static
        self.ignored: dict[str, str] = {}
        """What the metadata log has and cannot be used: name -> why. The one who applies it logs it."""
        self.cluster = self._usable(cluster or {}, per_broker=False)
        self.own = self._usable(own or {}, per_broker=True)
        try:
            self.current = static.with_dynamic(self.cluster, self.own)
        except InvalidConfig:
            self.current = self._leave_out()

    def _usable(self, values: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        usable = {}
        for name, value in values.items():
            try:
                _check_names([name], per_broker=per_broker)
                _check_type(name, value)
            except InvalidConfig as error:
                self.ignored[name] = str(error)
            else:
                usable[name] = value
        return usable

    def _leave_out(self) -> BrokerConfig:
        """Each value is right by itself, and together they are not: leave out those that do not go with the rest."""
        current = self.static
        kept: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for place, values in zip(kept, (self.cluster, self.own), strict=True):
            for name, value in values.items():
                place[name] = value
                try:
                    current = self.static.with_dynamic(*kept)
                except InvalidConfig as error:
                    del place[name]
                    self.ignored[name] = str(error)
        self.cluster, self.own = kept
        return current


def validate_dynamic(values: Mapping[str, str], broker: DynamicConfig, *, per_broker: bool) -> None:
    """Refuse with `InvalidRequest` what cannot be the whole of the metadata log's settings for one or for all brokers.

    `InvalidRequest` and not `InvalidConfig`, because Kafka answers so for brokers (KAFKA-13609).
    """
    try:
        _check_names(values, per_broker=per_broker)
        for name, value in values.items():
            _check_type(name, value)
        if per_broker:
            changed = broker.static.with_dynamic(broker.cluster, values)
        else:
            changed = broker.static.with_dynamic(values, broker.own)
        _check_change(broker.current, changed)
    except InvalidConfig as error:
        raise InvalidRequest(str(error)) from None


def _check_names(names: Iterable[str], *, per_broker: bool) -> None:
    names = list(names)
    _refuse(
        [name for name in names if name in BrokerConfig.settings and name not in DYNAMIC_SETTINGS],
        "Cannot update these configs dynamically",
    )
    _refuse(
        [name for name in names if name in _PER_LISTENER],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    if not per_broker:
        _refuse(
            [name for name in names if _is_per_broker(name)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _refuse(names: list[str], reason: str) -> None:
    if names:
        raise InvalidConfig(f"{reason}: [{', '.join(names)}]")


def _is_per_broker(name: str) -> bool:
    for_listener = LISTENER_SETTING.fullmatch(name)
    if for_listener:
        return for_listener[1] not in _CLUSTER_WIDE_FOR_LISTENERS
    return name in DYNAMIC_SETTINGS and DYNAMIC_SETTINGS[name].update is Update.PER_BROKER


def _check_type(name: str, value: str) -> None:
    for_listener = LISTENER_SETTING.fullmatch(name)
    base = for_listener[1] if for_listener else name
    if base in DYNAMIC_SETTINGS:
        DYNAMIC_SETTINGS[base].read(base, value)


def _check_change(old: BrokerConfig, new: BrokerConfig) -> None:
    for name in _THREAD_COUNTS:
        _check_thread_count(name, old.value_of(name), new.value_of(name))
    _check_listener_change(old, new)
    _check_connection_limits(new)
    _check_local_retention("log.local.retention.ms", new.log_local_retention_ms, "log.retention.ms", new.retention_ms)
    _check_local_retention(
        "log.local.retention.bytes", new.log_local_retention_bytes, "log.retention.bytes", new.log_retention_bytes
    )


def _check_thread_count(name: str, old: int, new: int) -> None:
    # Ottla has no such threads to double or halve, but a script that goes too far gets the answer that it gets today.
    said = f"Dynamic thread count update validation failed for {name}={new}"
    if new < old // 2:
        raise InvalidConfig(f"{said}, value should be at least half the current value {old}")
    if new > old * 2:
        raise InvalidConfig(f"{said}, value should not be greater than double the current value {old}")


def _check_listener_change(old: BrokerConfig, new: BrokerConfig) -> None:
    names = {listener.name for listener in new.listener_list}
    advertised = [listener.name for listener in old.advertised_listener_list]
    if not names.issuperset(advertised):
        raise InvalidConfig(
            f"Advertised listeners '{', '.join(advertised)}' must be a subset of listeners '{', '.join(sorted(names))}'"
        )
    for listener in old.listener_list:
        if listener.name in names and new.security_protocols[listener.name] != listener.security_protocol:
            raise InvalidConfig(f"Security protocol cannot be updated for existing listener {listener.name}")


def _check_connection_limits(new: BrokerConfig) -> None:
    """None may become zero, which would close the listeners; at the start Kafka takes that, and says nothing."""
    for name, of_node in (
        ("max.connections", new.max_connections),
        ("max.connection.creation.rate", new.max_connection_creation_rate),
    ):
        for listener in new.listener_list:
            value = new.originals.get(f"listener.name.{listener.name.lower()}.{name}", of_node)
            if int(value) <= 0:
                raise InvalidConfig(f"Invalid {name} {value}")


def _check_local_retention(local_name: str, local: int, name: str, whole: int) -> None:
    if whole < 0 or local == -2:
        return
    if local == -1:
        raise InvalidConfig(
            f"Invalid value {local} for configuration {local_name}: "
            f"Value must not be -1 as {name} value is set as {whole}."
        )
    if local > whole:
        raise InvalidConfig(
            f"Invalid value {local} for configuration {local_name}: "
            f"Value must not be more than {name} property value: {whole}"
        )

"""What a node's settings must be to each other: the checks that Kafka makes at the start.

Promises: one line for each, with the names of the settings in it, as `InvalidConfig`. Called by `BrokerConfig`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.broker.endpoints import NON_ROUTABLE_HOST, is_host
from ottla.errors import InvalidConfig

if TYPE_CHECKING:
    from ottla.config.broker.config import BrokerConfig

MIB = 1024 * 1024
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_SELECTORS = ("org.apache.kafka.common.replica.LeaderSelector", RACK_AWARE_SELECTOR)
"""The classes of Kafka that `replica.selector.class` may name."""


def check_broker(config: BrokerConfig) -> None:
    """Raise `InvalidConfig` for the first rule that the settings break."""
    _check_groups(config)
    _check_values(config)
    _check_quorum(config)
    _check_listeners(config)
    _check_connections(config)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidConfig(message)


def _check_values(config: BrokerConfig) -> None:
    _require(config.node_id == config.broker_id, "You must set `node.id` to the same value as `broker.id`.")
    _require(config.roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(config.roll_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(config.retention_ms != 0, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    _require(
        config.log_cleaner_threads > 0 and config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads > MIB,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_socket_timeout_ms,
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
        " to prevent unnecessary socket timeouts",
    )
    _require(
        config.replica_fetch_wait_max_ms <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
        " to prevent frequent changes in ISR",
    )
    _require(
        "classic" in config.group_coordinator_rebalance_protocols, "Disabling the 'classic' protocol is not supported."
    )


def _check_quorum(config: BrokerConfig) -> None:
    voter_ids = [voter.id for voter in config.quorum_voters]
    _require(
        bool(voter_ids or config.controller_quorum_bootstrap_servers),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    for voter in config.quorum_voters:
        _require(voter.host != NON_ROUTABLE_HOST, f"Host string ({voter.host}) is not routeable")
    if config.is_controller:
        _check_controller(config, voter_ids)
    else:
        _check_broker_only(config, voter_ids)


def _check_broker_only(config: BrokerConfig, voter_ids: list[int]) -> None:
    _require(
        config.node_id not in voter_ids,
        f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in the "
        f"set of voters controller.quorum.voters={voter_ids}",
    )
    _require(
        not config.controller_listener_list,
        "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running "
        "KRaft with just the broker role",
    )
    for name in config.controller_listener_names:
        _require(
            name.upper() in config.security_protocols,
            f"Controller listener with name {name.upper()} defined in controller.listener.names not found in "
            "listener.security.protocol.map  (an explicit security mapping for each controller listener is required "
            "if listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT "
            "in use)",
        )
    _require(
        not config.controller_quorum_auto_join_enable,
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
    )


def _check_controller(config: BrokerConfig, voter_ids: list[int]) -> None:
    if not config.is_broker:
        _require(
            len(config.advertised_controller_listener_list) == len(config.listener_list),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
        _require(
            config.inter_broker_listener_name is None
            or config.inter_broker_listener not in config.controller_listener_names,
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration "
            "value when process.roles=controller",
        )
    _require(
        not voter_ids or config.node_id in voter_ids,
        f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the set "
        f"of voters controller.quorum.voters={voter_ids}",
    )
    _require(
        bool(config.advertised_controller_listener_list),
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
        "running the KRaft controller role",
    )
    listened = {listener.name for listener in config.listener_list}
    _require(
        listened.issuperset(config.controller_listener_names),
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running "
        "the KRaft controller role",
    )


def _check_listeners(config: BrokerConfig) -> None:
    advertised = [listener.name for listener in config.advertised_listener_list]
    listened = [listener.name for listener in config.listener_list]
    if config.inter_broker_listener_name is not None:
        _require(
            "security.inter.broker.protocol" not in config.originals,
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        )
        _require(
            config.inter_broker_listener in config.security_protocols,
            f"Listener with name {config.inter_broker_listener} defined in inter.broker.listener.name not found in "
            "listener.security.protocol.map.",
        )
    if config.is_broker:
        _require(
            bool(advertised),
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?",
        )
        _require(
            config.inter_broker_listener in advertised,
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            f"based on currently configured listeners are {','.join(advertised)}",
        )
        _require(
            set(advertised) <= set(listened),
            "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
            f"Found {','.join(advertised)}. The valid options based on the current configuration are "
            f"{','.join(listened)}",
        )
        _check_cordoned(config)
    _check_early_start(config, listened)
    _require(
        config.replica_selector_class in (None, *REPLICA_SELECTORS),
        f"Invalid value {config.replica_selector_class} for configuration replica.selector.class: the class could not "
        f"be found. There are {' and '.join(REPLICA_SELECTORS)}.",
    )
    for listener in [*config.advertised_listener_list, *config.advertised_controller_listener_list]:
        _require(
            listener.host != NON_ROUTABLE_HOST,
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
        )


def _check_early_start(config: BrokerConfig, listened: list[str]) -> None:
    for name in config.early_start_listeners or ():
        _require(
            name in listened,
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or "
            "controller.listener.names",
        )


def _check_cordoned(config: BrokerConfig) -> None:
    cordoned = config.cordoned_log_dirs
    if "*" in cordoned:
        _require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    missing = [directory for directory in cordoned if directory not in config.log_dir_list]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )


def _check_connections(config: BrokerConfig) -> None:
    if config.security_protocols.get(config.inter_broker_listener, "PLAINTEXT").startswith("SASL_"):
        own = config.originals.get(f"listener.name.{config.inter_broker_listener.lower()}.sasl.enabled.mechanisms")
        enabled = config.sasl_enabled_mechanisms if own is None else tuple(own.replace(" ", "").split(","))
        _require(
            config.sasl_mechanism_inter_broker_protocol in enabled,
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
            "inter-broker communication",
        )
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    try:
        overrides = config.connections_per_ip
    except ValueError:
        raise InvalidConfig(
            f"Invalid value {config.max_connections_per_ip_overrides} for configuration "
            "max.connections.per.ip.overrides: each entry should be host:count"
        ) from None
    _require(
        config.max_connections_per_ip > 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    wrong = [host for host in overrides if not is_host(host)]
    _require(not wrong, f"max.connections.per.ip.overrides contains invalid addresses : {','.join(wrong)}")
    _require(
        config.connections_max_idle_ms < 0
        or config.connection_failed_authentication_delay_ms < config.connections_max_idle_ms,
        f"connection.failed.authentication.delay.ms={config.connection_failed_authentication_delay_ms} should always "
        f"be less than connections.max.idle.ms={config.connections_max_idle_ms} to prevent failed authentication "
        "responses from timing out",
    )


def _check_groups(config: BrokerConfig) -> None:
    """Each default of a group's setting lies between the bounds that groups have for it."""
    for kind in ("consumer", "share", "streams"):
        for setting in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            _check_between(config, kind, setting)
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        _require(config.value_of(heartbeat) < config.value_of(session), f"{heartbeat} must be less than {session}")
    for setting in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        _check_between(config, "share", setting)
    _require(
        len(config.group_share_assignors) == 1,
        f"group.share.assignors must contain exactly one assignor, but found {len(config.group_share_assignors)}",
    )
    _require(
        config.group_streams_num_standby_replicas <= config.group_streams_max_standby_replicas,
        "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
    )
    _require(
        config.group_share_max_share_sessions >= config.group_share_max_size,
        "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
    )


def _check_between(config: BrokerConfig, kind: str, setting: str) -> None:
    name, low, high = f"group.{kind}.{setting}", f"group.{kind}.min.{setting}", f"group.{kind}.max.{setting}"
    value, minimum, maximum = (config.value_of(one) for one in (name, low, high))
    _require(maximum >= minimum, f"{high} must be greater than or equal to {low}")
    _require(value >= minimum, f"{name} must be greater than or equal to {low}")
    _require(value <= maximum, f"{name} must be less than or equal to {high}")

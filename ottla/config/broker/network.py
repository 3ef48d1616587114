"""Listeners, sockets, connections and requests.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.table import (
    CLUSTER_WIDE,
    HIGH,
    INT_MAX,
    LOW,
    PER_BROKER,
    ConfigTable,
    Setting,
    integer,
    long,
    string,
    string_list,
)


class NetworkSettings(ConfigTable):
    """Listeners, sockets, connections and requests."""

    advertised_listeners: Setting[tuple[str, ...] | None] = Setting(
        "advertised.listeners", string_list, None, may_be_empty=False, importance=HIGH,
        doc="The addresses that clients are told; without it, `listeners` are. An empty host is this host's name.",
    )  # fmt: skip
    background_threads = Setting(
        "background.threads", integer, 10, min=1, importance=HIGH, update=CLUSTER_WIDE,
        doc="How many threads Kafka gives to chores. Ottla runs them on its one thread and syncs files in others.",
    )  # fmt: skip
    connection_failed_authentication_delay_ms = Setting(
        "connection.failed.authentication.delay.ms", integer, 100, min=0, importance=LOW,
        doc="How long a connection that failed to authenticate is kept open before it is closed.",
    )  # fmt: skip
    connections_max_idle_ms = Setting(
        "connections.max.idle.ms", long, 600_000,
        doc="A connection on which nothing has happened for this long is closed; below zero none is.",
    )  # fmt: skip
    early_start_listeners: Setting[tuple[str, ...] | None] = Setting(
        "early.start.listeners", string_list, None, importance=HIGH,
        doc="The listeners that open before the authorizer is ready; without it, those of the controllers.",
    )  # fmt: skip
    inter_broker_listener_name: Setting[str | None] = Setting(
        "inter.broker.listener.name", string, None,
        doc="The listener that brokers use among themselves.",
    )  # fmt: skip
    listener_security_protocol_map = Setting(
        "listener.security.protocol.map", string,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", importance=LOW,
        update=PER_BROKER,
        doc="The security protocol of each listener, NAME:PROTOCOL each.",
    )  # fmt: skip
    listeners: Setting[tuple[str, ...]] = Setting(
        "listeners", string_list, ("PLAINTEXT://:9092",), may_be_empty=False, importance=HIGH, update=PER_BROKER,
        doc="The addresses to listen on, NAME://host:port each; an empty host is every interface.",
    )  # fmt: skip
    max_connection_creation_rate = Setting(
        "max.connection.creation.rate", integer, INT_MAX, min=0, update=CLUSTER_WIDE,
        doc="How many connections a second are accepted, on one listener or on all.",
    )  # fmt: skip
    max_connections = Setting(
        "max.connections", integer, INT_MAX, min=0, update=CLUSTER_WIDE,
        doc="How many connections are open at once, on one listener or on all.",
    )  # fmt: skip
    max_connections_per_ip = Setting(
        "max.connections.per.ip", integer, INT_MAX, min=0, update=CLUSTER_WIDE,
        doc="How many connections are open from one address at once.",
    )  # fmt: skip
    max_connections_per_ip_overrides = Setting(
        "max.connections.per.ip.overrides", string, "", update=CLUSTER_WIDE,
        doc="The same for single addresses, host:count each.",
    )  # fmt: skip
    max_request_partition_size_limit = Setting(
        "max.request.partition.size.limit", integer, 2000, min=1,
        doc="How many partitions one request for topic descriptions is answered with.",
    )  # fmt: skip
    num_io_threads = Setting(
        "num.io.threads", integer, 8, min=1, importance=HIGH, update=CLUSTER_WIDE,
        doc="How many threads Kafka handles requests with. Ottla handles them on its one thread.",
    )  # fmt: skip
    num_network_threads = Setting(
        "num.network.threads", integer, 3, min=1, importance=HIGH, update=CLUSTER_WIDE,
        doc="How many threads Kafka serves connections with. Ottla serves them on its one thread.",
    )  # fmt: skip
    queued_max_request_bytes = Setting(
        "queued.max.request.bytes", long, -1,
        doc="How many bytes of requests may wait before connections are not read any more; -1 is without limit.",
    )  # fmt: skip
    queued_max_requests = Setting(
        "queued.max.requests", integer, 500, min=1, importance=HIGH,
        doc="How many requests may wait before connections are not read any more.",
    )  # fmt: skip
    request_timeout_ms = Setting(
        "request.timeout.ms", integer, 30_000, importance=HIGH,
        doc="How long a request that this node sends waits for its answer.",
    )  # fmt: skip
    security_inter_broker_protocol = Setting(
        "security.inter.broker.protocol", string, "PLAINTEXT",
        valid=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="The security protocol among brokers, for when `inter.broker.listener.name` is not given.",
    )  # fmt: skip
    socket_connection_setup_timeout_max_ms = Setting(
        "socket.connection.setup.timeout.max.ms", long, 30_000,
        doc="The longest wait for a connection to be set up, after several failures.",
    )  # fmt: skip
    socket_connection_setup_timeout_ms = Setting(
        "socket.connection.setup.timeout.ms", long, 10_000,
        doc="The first wait for a connection to be set up.",
    )  # fmt: skip
    socket_listen_backlog_size = Setting(
        "socket.listen.backlog.size", integer, 50, min=1,
        doc="How many connections may wait to be accepted.",
    )  # fmt: skip
    socket_receive_buffer_bytes = Setting(
        "socket.receive.buffer.bytes", integer, 102_400, importance=HIGH,
        doc="The receive buffer of a client's socket; -1 leaves it to the system.",
    )  # fmt: skip
    socket_request_max_bytes = Setting(
        "socket.request.max.bytes", integer, 104_857_600, min=1, importance=HIGH,
        doc="The largest request; a connection that announces a larger one is closed.",
    )  # fmt: skip
    socket_send_buffer_bytes = Setting(
        "socket.send.buffer.bytes", integer, 102_400, importance=HIGH,
        doc="The send buffer of a client's socket; -1 leaves it to the system.",
    )  # fmt: skip

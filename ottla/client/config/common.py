"""The settings that every client has: how brokers are found and reached, and how long everything may take."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config import ConfigTable, Setting
from ottla.config.table import HIGH, KIB, LOW, integer, long, string, string_list

FIRST_CONTACT: Mapping[str, str] = {"bootstrap.connect.timeout.ms": "5000"}
"""For a client that a person waits for: say after a few seconds that no broker is there. A broker that is just starting
is waited for that long. Not for what runs by itself, such as a task of a query: a cluster may restart under it."""


class CommonConfig(ConfigTable):
    """What producers, consumers and admins have in common."""

    bootstrap_servers: Setting[tuple[str, ...]] = Setting(
        "bootstrap.servers", string_list, (), required=True, may_be_empty=False, importance=HIGH,
        doc="Brokers to begin with, as `host:port`. They tell of all others, so a few are enough.",
    )  # fmt: skip
    bootstrap_connect_timeout_ms = Setting(
        "bootstrap.connect.timeout.ms", long, -1, min=-1,
        doc="How long to try to reach the first broker. When every address of `bootstrap.servers` has failed and no "
        "broker was ever reached in this time, calls fail at once with `BootstrapFailed`. -1 waits for as long as each "
        "call's own time-out. Kafka has no such setting.",
    )  # fmt: skip
    client_id = Setting(
        "client.id", string, "",
        doc="A name that is sent with every request, for the broker's logs, metrics and quotas.",
    )  # fmt: skip
    client_dns_lookup = Setting(
        "client.dns.lookup", string, "use_all_dns_ips",
        valid=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        doc="How names are looked up: every address of a name is tried until one takes the connection.",
    )  # fmt: skip
    connections_max_idle_ms = Setting(
        "connections.max.idle.ms", long, 540_000,
        doc="A connection that was not used for this long is closed.",
    )  # fmt: skip
    metadata_max_age_ms = Setting(
        "metadata.max.age.ms", long, 300_000, min=0, importance=LOW,
        doc="What is known of the cluster is asked for again after this time, even when nothing seems to have changed.",
    )  # fmt: skip
    metadata_recovery_strategy = Setting(
        "metadata.recovery.strategy", string, "rebootstrap",
        valid=("REBOOTSTRAP", "NONE"), ignore_case=True, importance=LOW,
        doc="When none of the known brokers can be reached: begin again with `bootstrap.servers`, or go on trying.",
    )  # fmt: skip
    metadata_recovery_rebootstrap_trigger_ms = Setting(
        "metadata.recovery.rebootstrap.trigger.ms", long, 300_000, min=0, importance=LOW,
        doc="Metadata that could not be had for this long makes the client begin again with `bootstrap.servers`.",
    )  # fmt: skip
    receive_buffer_bytes = Setting(
        "receive.buffer.bytes", integer, 64 * KIB, min=-1,
        doc="The kernel's buffer for what a connection receives; -1 leaves it to the system.",
    )  # fmt: skip
    send_buffer_bytes = Setting(
        "send.buffer.bytes", integer, 128 * KIB, min=-1,
        doc="The kernel's buffer for what a connection sends; -1 leaves it to the system.",
    )  # fmt: skip
    reconnect_backoff_ms = Setting(
        "reconnect.backoff.ms", long, 50, min=0, importance=LOW,
        doc="How long to wait before a broker that refused a connection is tried again; doubled with every failure.",
    )  # fmt: skip
    reconnect_backoff_max_ms = Setting(
        "reconnect.backoff.max.ms", long, 1_000, min=0, importance=LOW,
        doc="The longest wait between two attempts to connect to one broker.",
    )  # fmt: skip
    request_timeout_ms = Setting(
        "request.timeout.ms", integer, 30_000, min=0,
        doc="How long the response to a request may take. After that the connection is given up.",
    )  # fmt: skip
    retry_backoff_ms = Setting(
        "retry.backoff.ms", long, 100, min=0, importance=LOW,
        doc="How long to wait before a request that failed is sent again; doubled with every failure.",
    )  # fmt: skip
    retry_backoff_max_ms = Setting(
        "retry.backoff.max.ms", long, 1_000, min=0, importance=LOW,
        doc="The longest wait between two attempts of one request.",
    )  # fmt: skip
    socket_connection_setup_timeout_ms = Setting(
        "socket.connection.setup.timeout.ms", long, 10_000,
        doc="How long a connection may take to be made; doubled with every failure.",
    )  # fmt: skip
    socket_connection_setup_timeout_max_ms = Setting(
        "socket.connection.setup.timeout.max.ms", long, 30_000,
        doc="The longest time that a connection may take to be made.",
    )  # fmt: skip

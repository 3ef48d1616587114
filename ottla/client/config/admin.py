"""The settings of an admin (kafka-facts/config-admin.json, checked by a test)."""

from __future__ import annotations

import logging

from ottla.client.config.client import ClientConfig
from ottla.config.table import HIGH, INT_MAX, LOW, Setting, boolean, integer, long, string_list
from ottla.errors import InvalidConfig
from ottla.world import next_number

log = logging.getLogger(__name__)


class AdminConfig(ClientConfig):
    """An admin's settings. It talks to brokers or, with `bootstrap.controllers`, to controllers alone."""

    bootstrap_servers: Setting[tuple[str, ...]] = Setting(
        "bootstrap.servers", string_list, (), importance=HIGH,
        doc="Brokers to begin with, as `host:port`. They tell of all others, so a few are enough.",
    )  # fmt: skip
    bootstrap_controllers: Setting[tuple[str, ...]] = Setting(
        "bootstrap.controllers", string_list, (), importance=HIGH,
        doc="Controllers to begin with, as `host:port`, instead of brokers: for work while no broker is up (KIP-919).",
    )  # fmt: skip
    connections_max_idle_ms = Setting(
        "connections.max.idle.ms", long, 300_000,
        doc="A connection that was not used for this long is closed.",
    )  # fmt: skip
    default_api_timeout_ms = Setting(
        "default.api.timeout.ms", integer, 60_000, min=0,
        doc="How long a call may take that was given no time.",
    )  # fmt: skip
    enable_metrics_push = Setting(
        "enable.metrics.push", boolean, False, importance=LOW,
        doc="Whether the client sends its metrics to the cluster when the cluster subscribes to them (KIP-714).",
    )  # fmt: skip
    retries = Setting(
        "retries", integer, INT_MAX, min=0, max=INT_MAX, importance=LOW,
        doc="How often a request that failed is sent again within the call's time.",
    )  # fmt: skip

    def _derive(self) -> None:
        super()._derive()
        if not self.bootstrap_servers and not self.bootstrap_controllers:
            raise InvalidConfig("You must set either bootstrap.servers or bootstrap.controllers")
        if self.bootstrap_servers and self.bootstrap_controllers:
            raise InvalidConfig("You cannot set both bootstrap.servers and bootstrap.controllers")
        if self.default_api_timeout_ms < self.request_timeout_ms:
            if self.was_given("default.api.timeout.ms"):
                raise InvalidConfig(
                    "The specified value of default.api.timeout.ms must be no smaller than the value of "
                    "request.timeout.ms."
                )
            log.warning("default.api.timeout.ms is set to request.timeout.ms, %d", self.request_timeout_ms)
            self._settle("default.api.timeout.ms", self.request_timeout_ms)
        if not self.client_id:
            self._settle("client.id", f"adminclient-{next_number('adminclient')}")

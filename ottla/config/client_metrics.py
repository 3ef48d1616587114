"""The settings of a subscription to clients' metrics (KIP-714).

Called by the controller when a subscription is altered, and by the handlers of client telemetry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.config.group import refuse_nulls
from ottla.config.table import ConfigTable, Setting, integer, string_list
from ottla.errors import InvalidConfig, InvalidRequest

INTERVAL_MIN_MS = 100
INTERVAL_MAX_MS = 3_600_000
MATCHABLE = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class ClientMetricsConfig(ConfigTable):
    """One subscription. `ClientMetricsConfig({"metrics": "*", "interval.ms": "30000"})`."""

    metrics: Setting[tuple[str, ...]] = Setting(
        "metrics", string_list, (),
        doc="What the names of the metrics begin with that clients shall push; `*` is all of them.",
    )  # fmt: skip
    interval_ms = Setting(
        "interval.ms", integer, 300_000,
        doc="How often clients shall push.",
    )  # fmt: skip
    match: Setting[tuple[str, ...]] = Setting(
        "match", string_list, (),
        doc="Which clients: pairs like `client_id=app-.*`, all of which must match; empty is every client.",
    )  # fmt: skip


def validate_client_metrics(subscription: str, overrides: Mapping[str, str | None]) -> None:
    """Refuse what cannot be a subscription, with the error that Kafka answers."""
    refuse_nulls(overrides, "client metrics")
    if not subscription:
        raise InvalidRequest("Subscription name can't be empty")
    for name in overrides:
        if name not in ClientMetricsConfig.settings:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    config = ClientMetricsConfig(overrides)
    if not INTERVAL_MIN_MS <= config.interval_ms <= INTERVAL_MAX_MS:
        raise InvalidRequest(
            f"Invalid value {config.interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    parse_match(config.match)


def parse_match(patterns: tuple[str, ...]) -> dict[str, re.Pattern[str]]:
    """`match` as what to look at and the pattern that the whole of it must match."""
    found = {}
    for entry in patterns:
        name, equals, pattern = entry.partition("=")
        if not equals or not pattern or "=" in pattern or name.strip() not in MATCHABLE:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}")
        try:
            found[name.strip()] = re.compile(pattern.strip())
        except re.error:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}") from None
    return found

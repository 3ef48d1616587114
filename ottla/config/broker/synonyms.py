"""Settings that mean the same: which names stand in for which, and in what order.

Promises: the order is Kafka's order of precedence. Called by `broker.config` and `config.describe`.
"""

from __future__ import annotations

import re

_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_BY_NAME = {name: family for family in _FAMILIES for name in family}
# One way only: the scheduler's interval is the default of the other, and a setting of its own.
_BY_NAME["log.flush.interval.ms"] = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")

LISTENER_SETTING = re.compile(r"listener\.name\.[^.]*\.(.*)")
"""A setting for one listener: `listener.name.<listener>.<setting>`."""

_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
"""Those that have a SASL mechanism's name before them: `listener.name.<listener>.<mechanism>.sasl.jaas.config`."""


def broker_synonyms(name: str, *, match_listener: bool = True) -> tuple[str, ...]:
    """The names that decide about the setting, the strongest first; for most only the name itself."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    if match_listener and (for_listener := LISTENER_SETTING.fullmatch(name)):
        base = for_listener[1]
        return name, next((setting for setting in _MECHANISM_SETTINGS if base.endswith(setting)), base)
    return (name,)

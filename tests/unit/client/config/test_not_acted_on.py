"""Settings that no client acts on are named, and only those."""

from __future__ import annotations

import re
from pathlib import Path

import ottla.client
from ottla.client.config import AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from ottla.client.config.not_acted_on import NOT_ACTED_ON
from ottla.client.config.security import SecurityConfig

CLIENT = Path(ottla.client.__file__).parent
TABLES = (ProducerConfig, ConsumerConfig, ShareConsumerConfig, AdminConfig)
# Read under another name: what is derived from them when the table is made, or in the table's own methods.
DERIVED = {
    "acks",
    "auto.offset.reset",
    "partition.assignment.strategy",
    "internal.throw.on.fetch.stable.offset.unsupported",
}


def words() -> set[str]:
    """Every attribute and every text in the clients' code, outside their settings."""
    found: set[str] = set()
    for path in CLIENT.rglob("*.py"):
        if path.parent.name != "config":
            text = path.read_text(encoding="utf-8")
            found.update(
                re.findall(r"[.\"']([a-z][a-z0-9_]+)\b", text), re.findall(r"[\"']([a-z][a-z0-9.]+)[\"']", text)
            )
    return found


def test_every_setting_is_read_by_a_client_or_named_as_not_acted_on() -> None:
    read = words()
    unread = {
        name
        for table in TABLES
        for name, setting in table.settings.items()
        if name not in SecurityConfig.settings and not {name, setting.attribute} & read
    }
    assert unread - DERIVED == set(NOT_ACTED_ON), "act on it, or name it; a name that is acted on is taken out"


def test_the_reason_is_a_sentence() -> None:
    assert all(reason.endswith(".") for reason in NOT_ACTED_ON.values())

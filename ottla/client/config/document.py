"""The page of all settings, made from the tables: `docs/clients/configuration.md`, which a test holds to it."""

from __future__ import annotations

from typing import Any

from ottla.client.config.admin import AdminConfig
from ottla.client.config.client import ClientConfig
from ottla.client.config.consumer import ConsumerConfig, ShareConsumerConfig
from ottla.client.config.not_acted_on import NOT_ACTED_ON
from ottla.client.config.producer import ProducerConfig
from ottla.client.config.security import SecurityConfig
from ottla.config import Setting, spell
from ottla.config.table import Importance

_HEAD = """\
# Settings of the clients

Names, types, defaults and bounds are those of Kafka 4.3. Give them under Kafka's names in a mapping, or as keywords
with underscores: `Producer({"bootstrap.servers": "localhost:9092"}, linger_ms=20)`. A value may be of the right Python
type or the text that a `.properties` file would have. An unknown name, a value that cannot be, or settings that
contradict each other are refused when the client is made, with one line that says what would be right.

What differs from Kafka: serializers and deserializers are not required (without one, keys and values are bytes), they,
partitioners, assignors and interceptors are Python objects, and `group.protocol` is `auto` unless you say otherwise.
`bootstrap.connect.timeout.ms` is Ottla's own.
This page is written from the tables in `ottla/client/config` (`pytest --rewrite tests/unit/client/config`).
"""

_SECTIONS: tuple[tuple[str, type[ClientConfig]], ...] = (
    ("Producer", ProducerConfig),
    ("Consumer", ConsumerConfig),
    ("Share consumer", ShareConsumerConfig),
    ("Admin", AdminConfig),
)
_ORDER = list(Importance)


def configuration_page() -> str:
    """The whole page. Security settings, which all clients share, come once at its end."""
    parts = [_HEAD]
    for title, table in _SECTIONS:
        settings = [one for name, one in table.settings.items() if name not in SecurityConfig.settings]
        parts.append(_section(title, settings))
    parts.append(_section("TLS and SASL, for every client", list(SecurityConfig.settings.values())))
    return "\n".join(parts)


def _section(title: str, settings: list[Setting[Any]]) -> str:
    rows = [
        f"| `{one.name}` | {one.type.name.lower()} | {_default(one)} | {_valid(one)} | {_doc(one)} |"
        for one in sorted(settings, key=lambda one: (_ORDER.index(one.importance), one.name))
        if not one.internal
    ]
    return "\n".join(
        [f"## {title}", "", "| name | type | default | values | what it does |", "|---|---|---|---|---|", *rows, ""]
    )


def _doc(setting: Setting[Any]) -> str:
    reason = NOT_ACTED_ON.get(setting.name)
    return setting.doc if reason is None else f"{setting.doc} *Not acted on yet: {reason}*"


def _default(setting: Setting[Any]) -> str:
    if setting.required:
        return "required"
    text = spell(setting.default)
    return "none" if text is None else f"`{text}`" if text else "empty"


def _valid(setting: Setting[Any]) -> str:
    if setting.valid is not None:
        lower = setting.ignore_case and setting.name != "security.protocol"
        return ", ".join(f"`{value.lower() if lower else value}`" for value in setting.valid)
    if setting.min is not None:
        return f"{setting.min} to {setting.max}" if setting.max is not None else f"{setting.min} or more"
    return ""

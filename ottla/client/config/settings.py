"""From what a person writes to a table: Kafka's names or keywords, right types or Kafka's text, one clear refusal.

`read_settings(ProducerConfig, {"linger.ms": "5"}, {"acks": "all"})`. Promises: an unknown name, a name given twice and
a value that cannot be used each raise `InvalidConfig` with one line that says what would be right.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from ottla.client.config.client import ClientConfig
from ottla.errors import InvalidConfig

Table = TypeVar("Table", bound=ClientConfig)


def read_settings(table: type[Table], mapping: Mapping[str, object] | None, keywords: Mapping[str, object]) -> Table:
    """The table with these values. `linger.ms` and `linger_ms` are the same name, in the mapping and as keywords.

    None is no value: a setting given as None has its default, so a function can pass on what it may not have.
    """
    names = {setting.attribute: name for name, setting in table.settings.items()}
    values: dict[str, object] = {}
    for given in (mapping or {}, keywords):
        for name, value in given.items():
            if not isinstance(name, str):
                raise InvalidConfig(f"the name of a setting is a text, and {name!r} is none")
            known = name if name in table.settings else names.get(name)
            if known is None:
                raise InvalidConfig(_unknown(table, name))
            if known in values:
                raise InvalidConfig(f"{known} is given twice: {values[known]!r} and {value!r}; one is enough")
            values[known] = value
    return table({name: value for name, value in values.items() if value is not None})


def _unknown(table: type[ClientConfig], name: str) -> str:
    """What to say of a name that the table does not have: whose it is, or which one was perhaps meant."""
    from ottla.client.config import AdminConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig

    owners = {
        ProducerConfig: "a producer",
        ConsumerConfig: "a consumer",
        ShareConsumerConfig: "a share consumer",
        AdminConfig: "an admin",
    }
    who = next((owner for kind, owner in owners.items() if issubclass(table, kind)), "this client")
    dotted = name.replace("_", ".")
    nearest = get_close_matches(dotted, table.settings, n=1, cutoff=0.6)
    if table is ShareConsumerConfig and dotted in ConsumerConfig.settings:
        return f"{dotted} cannot be set when using a share group."
    for kind, owner in owners.items():
        if dotted in kind.settings:
            meant = f"; {who} has {nearest[0]}" if nearest else ""
            return f"{dotted} is a setting of {owner}, not of {who}{meant}"
    meant = f"did you mean {nearest[0]}?" if nearest else "docs/clients/configuration.md lists them all"
    return f"Unknown setting {name} of {who}: {meant}"

"""Every setting acts, or is in the list of those without effect: the list against what the code reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import ottla
from ottla.config import (
    NOT_ACTED_ON,
    BrokerConfig,
    CleanerConfig,
    ClientMetricsConfig,
    ConfigTable,
    GroupConfig,
    LogConfig,
)
from ottla.config.dynamic import BrokerQuotas

PACKAGE = Path(ottla.__file__).parent
OTHER_TABLES = (LogConfig, CleanerConfig, GroupConfig, ClientMetricsConfig, BrokerQuotas)

# Clients and pipelines have settings of the same names, and tables of their own.
ELSEWHERE = ("cli", "client", "pipelines", "sim", "testing")
# To check a value, to describe it or to hand it on is no effect; these two make other values of it.
OF_CONFIG = ("broker/config.py", "log.py")
# What a table of settings is called where it is read; `self` counts in the tables alone.
RECEIVERS = ("broker", "config", "group", "rules", "settings")
COMMON_WORDS = {"metrics"}  # a broker has metrics of its own; a subscription's are told by `interval.ms` beside them


def sources() -> Iterator[Path]:
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "config":
            if any(place == Path("config", name) for name in OF_CONFIG):
                yield path
        elif place.parts[0] not in ELSEWHERE:
            yield path


def receiver(node: ast.expr) -> str:
    """The last name of what an attribute is read from: `config` of `self._broker.config()`."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.rpartition("_")[2]


def reads(paths: Iterable[Path]) -> set[str]:
    """The attributes that are read from a table of settings, and the texts that may name one."""
    found: set[str] = set()
    for path in paths:
        is_table = path.parent.name in ("config", "broker")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if "." in node.value and not is_declaration(path):
                    found.add(node.value)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                name = receiver(node.value)
                if name in RECEIVERS or (is_table and name == "self"):
                    found.add(node.attr)
    return found - COMMON_WORDS


def is_declaration(path: Path) -> bool:
    return path == PACKAGE / "config" / "log.py"


READ = reads(sources())


def is_read(table: type[ConfigTable], name: str) -> bool:
    return table.settings[name].attribute in READ or name in READ


def acts(name: str) -> bool:
    """Whether the code reads a broker's setting: from its own table, or from one that takes it over."""
    if is_read(BrokerConfig, name) or any(name in one.settings and is_read(one, name) for one in OTHER_TABLES[:2]):
        return True
    if not name.startswith("group."):
        return False
    # A group takes over what it does not set itself, and may not set what is out of the broker's bounds.
    own = name.removeprefix("group.")
    kind, _, rest = own.partition(".")
    bounded = f"{kind}.{rest.removeprefix('min.').removeprefix('max.')}"
    return any(one in GroupConfig.settings and is_read(GroupConfig, one) for one in (own, bounded))


def test_the_code_reads_what_everybody_knows_that_it_reads() -> None:
    """The search finds reads, and does not take everything for one."""
    assert {"num_partitions", "broker_rack", "offsets_topic_num_partitions", "min.insync.replicas"} <= READ
    assert {"num_io_threads", "ssl_keystore_location", "queued_max_requests"}.isdisjoint(READ)


def test_every_setting_of_a_broker_acts_or_is_in_the_list_of_those_without_effect() -> None:
    """One that is neither deceives: take it into `not_acted_on`, or act on it."""
    assert sorted(name for name in BrokerConfig.settings if name not in NOT_ACTED_ON and not acts(name)) == []


def test_no_setting_that_acts_is_in_the_list_of_those_without_effect() -> None:
    """Else a node would warn about a setting that it acts on: take it out of `not_acted_on`."""
    assert sorted(name for name in NOT_ACTED_ON if name in BrokerConfig.settings and acts(name)) == []


@pytest.mark.parametrize("table", OTHER_TABLES)
def test_every_setting_of_a_resource_acts_or_is_in_the_list(table: type[ConfigTable]) -> None:
    """What only a topic, a group, a subscription or the metadata log can set."""
    silent = [name for name in table.settings if not is_read(table, name)]
    assert sorted(set(silent) - NOT_ACTED_ON) == []
    assert sorted(NOT_ACTED_ON.intersection(table.settings).difference(silent)) == []


def test_only_settings_can_be_without_effect() -> None:
    every = {name for table in (BrokerConfig, *OTHER_TABLES) for name in table.settings}
    assert sorted(NOT_ACTED_ON - every) == []

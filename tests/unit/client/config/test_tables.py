"""The clients' settings against Kafka's own tables (tests/golden/kafka-facts)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from ottla.config import Setting
from tests.support.golden import GOLDEN

TABLES: dict[str, type[ClientConfig]] = {"producer": ProducerConfig, "consumer": ConsumerConfig, "admin": AdminConfig}
FACTS: dict[str, list[dict[str, Any]]] = {
    name: json.loads((GOLDEN / "kafka-facts" / f"config-{name}.json").read_text()) for name in TABLES
}
EVERY = [(name, fact) for name, facts in FACTS.items() for fact in facts]

# Rules that the facts have as a sentence and the table as a function.
AS_FUNCTIONS = {
    "[1,...,9] or -1",
    "[latest, earliest, none, by_duration:PnDTnHnMn.nS]",
    "[batch_optimized, record_limit]",
}
# Bytes are what a Python client without a serializer has; Java must know the type, and so requires one.
NOT_REQUIRED = {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
OURS = {"bootstrap.connect.timeout.ms"}
# Settings that a share group decides for its members, in Kafka's own list.
NOT_FOR_SHARE = {
    "auto.offset.reset",
    "enable.auto.commit",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "isolation.level",
    "partition.assignment.strategy",
    "session.timeout.ms",
}


@pytest.mark.parametrize("name", TABLES)
def test_every_setting_of_kafka_is_here_and_no_other_but_ours(name: str) -> None:
    assert sorted(TABLES[name].settings) == sorted({fact["name"] for fact in FACTS[name]} | OURS)


def test_a_share_consumer_has_a_consumers_settings_without_what_its_group_decides() -> None:
    assert set(ShareConsumerConfig.settings) == set(ConsumerConfig.settings) - NOT_FOR_SHARE


@pytest.mark.parametrize("table", [*TABLES.values(), ShareConsumerConfig])
def test_a_setting_s_keyword_is_its_name(table: type[ClientConfig]) -> None:
    assert not [one.name for one in table.settings.values() if one.attribute != one.name.replace(".", "_")]


def valid_in_kafkas_words(setting: Setting[Any]) -> str | None:
    """What the facts say in `valid`, made from the declaration."""
    if setting.min is not None:
        high = "" if setting.max is None else f",{setting.max}"
        return f"[{setting.min},...{high}]"
    if setting.valid is not None:
        return f"{'(case insensitive) ' if setting.ignore_case else ''}[{', '.join(setting.valid)}]"
    if setting.type.name == "STRING" and not setting.may_be_empty:
        return "non-empty string"
    return None


@pytest.mark.parametrize(("name", "fact"), EVERY, ids=lambda one: one if isinstance(one, str) else one["name"])
def test_a_declaration_is_kafkas(name: str, fact: dict[str, Any]) -> None:
    setting = TABLES[name].settings[fact["name"]]
    default, valid = fact["default"], fact["valid"]
    if fact["type"] == "list" and default is not None:
        default = tuple(item.removeprefix("class ") for item in default.split(",") if item)
    if setting.name == "group.protocol":
        # Kafka's default is the classic protocol; ours is whichever the broker has.
        default, valid = "auto", valid.replace("CLASSIC", "CLASSIC, AUTO")
    assert setting.type.name.lower() == fact["type"]
    assert setting.required == (fact["required"] and setting.name not in NOT_REQUIRED)
    if not setting.required:
        assert setting.default == default
    assert setting.importance.value == fact["importance"]
    if valid in AS_FUNCTIONS:
        assert setting.check is not None
    else:
        assert valid_in_kafkas_words(setting) == (valid or None)
    assert setting.doc.endswith(".")

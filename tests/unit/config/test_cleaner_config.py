"""The cleaner's settings against Kafka's own table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.config import CleanerConfig, LogConfig
from ottla.errors import InvalidConfig
from tests.support.golden import GOLDEN

FACTS: list[dict[str, Any]] = [
    fact
    for fact in json.loads((GOLDEN / "kafka-facts" / "config-broker.json").read_text())
    if fact["name"].startswith("log.cleaner.")
]
OURS = [fact for fact in FACTS if fact["name"] in CleanerConfig.settings]


def test_every_cleaner_setting_of_kafka_is_the_brokers_or_the_topics() -> None:
    assert {fact["name"] for fact in FACTS} == {
        *CleanerConfig.settings,
        *(name for name in LogConfig.settings if name.startswith("log.cleaner.")),
    }


@pytest.mark.parametrize("fact", OURS, ids=lambda fact: str(fact["name"]))
def test_the_default_and_the_lower_bound_are_kafkas(fact: dict[str, Any]) -> None:
    setting = CleanerConfig.settings[fact["name"]]
    assert setting.default == fact["default"]
    assert setting.min == (0 if fact["valid"] == "[0,...]" else None)
    assert setting.max is None


def test_a_dedupe_buffer_of_a_megabyte_or_less_for_each_thread_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="at least 1MB per cleaner thread"):
        CleanerConfig({"log.cleaner.dedupe.buffer.size": "4194304", "log.cleaner.threads": "4"})
    assert CleanerConfig({"log.cleaner.dedupe.buffer.size": "4194304"}).dedupe_buffer_size == 4 * 1024 * 1024

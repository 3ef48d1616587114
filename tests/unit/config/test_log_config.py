"""The log's settings against Kafka's own table, and what happens to values that are not allowed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.config import CleanupPolicy, LogConfig
from ottla.errors import InvalidConfig
from tests.support.golden import GOLDEN

FACTS: list[dict[str, Any]] = json.loads((GOLDEN / "kafka-facts" / "config-topic.json").read_text())


def test_every_topic_setting_of_kafka_is_here_and_no_other() -> None:
    assert sorted(LogConfig.topic_settings) == sorted(fact["name"] for fact in FACTS)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: str(fact["name"]))
def test_the_default_is_kafkas(fact: dict[str, Any]) -> None:
    setting = LogConfig.topic_settings[fact["name"]]
    expected = fact["default"]
    if fact["type"] == "list":
        expected = tuple(item for item in expected.split(",") if item)
    assert setting.default == expected


BOUNDED = [fact for fact in FACTS if fact["type"] in ("int", "long", "double") and (fact["valid"] or "").endswith("]")]


@pytest.mark.parametrize("fact", BOUNDED, ids=lambda fact: str(fact["name"]))
def test_the_bounds_are_kafkas(fact: dict[str, Any]) -> None:
    setting = LogConfig.topic_settings[fact["name"]]
    low, _, high = fact["valid"].strip("[]").partition(",...")
    assert setting.min == float(low)
    assert setting.max == (float(high.strip(",")) if high.strip(",") else None)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("segment.bytes", "1048575", "must be at least 1048576"),
        ("segment.bytes", "many", "Not a number"),
        ("segment.bytes", "2147483648", "Not a number"),
        ("retention.ms", "-2", "must be at least -1"),
        ("min.cleanable.dirty.ratio", "1.5", "no more than 1"),
        ("cleanup.policy", "shred", "must be one of: compact, delete"),
        ("compression.type", "rar", "must be one of"),
        ("compression.gzip.level", "0", "between 1 and 9"),
        ("preallocate", "perhaps", "true or false"),
        ("no.such.setting", "1", "Unknown topic config name"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_its_name(name: str, value: str, complaint: str) -> None:
    with pytest.raises(InvalidConfig, match=complaint) as caught:
        LogConfig().with_topic({name: value})
    assert name in str(caught.value)


def test_topic_overrides_make_a_new_table_and_leave_the_old_one() -> None:
    defaults = LogConfig({"log.segment.bytes": "2000000", "unrelated": "x"})
    topic = defaults.with_topic({"segment.bytes": 3000000, "cleanup.policy": "compact,delete"})
    assert (defaults.segment_bytes, topic.segment_bytes) == (2000000, 3000000)
    assert topic.cleanup == CleanupPolicy.COMPACT | CleanupPolicy.DELETE
    assert topic.is_compacted
    assert not defaults.is_compacted


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    assert LogConfig().with_topic({"cleanup.policy": ""}).cleanup is CleanupPolicy.NONE


def test_contradicting_compaction_lags_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms"):
        LogConfig().with_topic({"min.compaction.lag.ms": 10, "max.compaction.lag.ms": 5})


def test_compaction_lag_can_ask_for_an_earlier_roll() -> None:
    config = LogConfig().with_topic({"cleanup.policy": "compact", "max.compaction.lag.ms": 1000})
    assert config.max_segment_ms == 1000
    assert config.with_topic({"cleanup.policy": "delete"}).max_segment_ms == config.segment_ms

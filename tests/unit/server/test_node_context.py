"""`ottla/server/node_context.py`: the settings follow the metadata log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.config import BrokerConfig
from ottla.metadata import BROKER, TOPIC, Image, between
from ottla.server import NodeContext
from tests.unit.server.handlers.test_configs import CONFIG
from tests.unit.server.nodes import image_of, make_node_context


def publish(node: NodeContext, image: Image) -> None:
    node.on_metadata(between(node.image, image), image)


def test_the_settings_of_this_and_of_all_brokers_take_effect_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = make_node_context(asyncio.get_running_loop(), config=CONFIG, image=image_of())
        told: list[BrokerConfig] = []
        node.when_configured.append(told.append)
        publish(node, image_of(configs={(TOPIC, "t"): {"retention.ms": "1"}}))
        assert told == []
        publish(node, image_of(configs={(BROKER, ""): {"log.cleaner.threads": "3"}}))
        assert node.config.log_cleaner_threads == 3
        publish(
            node,
            image_of(configs={(BROKER, ""): {"log.cleaner.threads": "3"}, (BROKER, "1"): {"log.cleaner.threads": "4"}}),
        )
        assert node.config.log_cleaner_threads == 4
        publish(node, image_of(configs={(BROKER, "2"): {"log.cleaner.threads": "9"}}))
        assert node.config.log_cleaner_threads == CONFIG.log_cleaner_threads
        assert told[-1] is node.config
        publish(node, image_of(configs={(BROKER, "1"): {"node.id": "7"}}))
        assert node.config.node_id == 1

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert ["node.id" in record.getMessage() for record in caplog.records] == [True]


def test_a_setting_of_the_metadata_log_that_has_no_effect_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        node = make_node_context(asyncio.get_running_loop(), config=CONFIG, image=image_of())
        for settings in (
            {"log.retention.ms": "1"},
            {"log.retention.ms": "1", "num.io.threads": "9"},
            {"log.retention.ms": "2", "num.io.threads": "9"},
            {"leader.replication.throttled.rate": "1", "num.io.threads": "9"},
        ):
            publish(node, image_of(configs={(BROKER, ""): settings}))

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "num.io.threads",
        "leader.replication.throttled.rate, num.io.threads",
    ]

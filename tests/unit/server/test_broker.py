"""`ottla/server/broker.py`: the settings follow the metadata log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.config import BrokerConfig
from ottla.metadata import BROKER, TOPIC, Image, between
from ottla.server import Broker
from tests.unit.server.handlers.test_configs import CONFIG
from tests.unit.server.nodes import image_of, make_broker


def publish(broker: Broker, image: Image) -> None:
    broker.on_metadata(between(broker.image, image), image)


def test_the_settings_of_this_and_of_all_brokers_take_effect_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        broker = make_broker(asyncio.get_running_loop(), config=CONFIG, image=image_of())
        told: list[BrokerConfig] = []
        broker.when_configured.append(told.append)
        publish(broker, image_of(configs={(TOPIC, "t"): {"retention.ms": "1"}}))
        assert told == []
        publish(broker, image_of(configs={(BROKER, ""): {"log.cleaner.threads": "3"}}))
        assert broker.config.log_cleaner_threads == 3
        publish(
            broker,
            image_of(configs={(BROKER, ""): {"log.cleaner.threads": "3"}, (BROKER, "1"): {"log.cleaner.threads": "4"}}),
        )
        assert broker.config.log_cleaner_threads == 4
        publish(broker, image_of(configs={(BROKER, "2"): {"log.cleaner.threads": "9"}}))
        assert broker.config.log_cleaner_threads == CONFIG.log_cleaner_threads
        assert told[-1] is broker.config
        publish(broker, image_of(configs={(BROKER, "1"): {"node.id": "7"}}))
        assert broker.config.node_id == 1

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert ["node.id" in record.getMessage() for record in caplog.records] == [True]


def test_a_setting_of_the_metadata_log_that_has_no_effect_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        broker = make_broker(asyncio.get_running_loop(), config=CONFIG, image=image_of())
        for settings in (
            {"log.retention.ms": "1"},
            {"log.retention.ms": "1", "num.io.threads": "9"},
            {"log.retention.ms": "2", "num.io.threads": "9"},
            {"leader.replication.throttled.rate": "1", "num.io.threads": "9"},
        ):
            publish(broker, image_of(configs={(BROKER, ""): settings}))

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "num.io.threads",
        "leader.replication.throttled.rate, num.io.threads",
    ]

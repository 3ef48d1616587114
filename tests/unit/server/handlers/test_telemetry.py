"""`get_telemetry_subscriptions.py` and `push_telemetry.py`: what a broker without a receiver of metrics answers."""

from __future__ import annotations

import pytest

from ottla.errors import (
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from ottla.server.handlers import get_telemetry_subscriptions, push_telemetry
from ottla.server.telemetry import subscription_id
from ottla.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from ottla.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.wire.messages.push_telemetry import PushTelemetryRequest
from tests.unit.server.nodes import ask, fake_config

CLIENT = Uuid(b"0123456789abcdef")
CONFIG = fake_config(telemetry_max_bytes=1_048_576)


def test_the_subscription_is_the_one_that_a_real_kafka_tells() -> None:
    response = ask(get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest(CLIENT), 0, config=CONFIG)
    assert (response.error_code, response.client_instance_id, response.subscription_id) == (0, CLIENT, -1952556066)
    assert subscription_id(Uuid.parse("uNll4Un9RGGo67ShEtPbzg")) == -1613032143
    assert (response.accepted_compression_types, response.requested_metrics) == ([4, 3, 1, 2], [])
    assert (response.push_interval_ms, response.telemetry_max_bytes) == (300_000, 1_048_576)
    assert response.delta_temporality


def test_a_client_without_an_id_gets_one() -> None:
    response = ask(get_telemetry_subscriptions, GetTelemetrySubscriptionsRequest(ZERO_UUID), 0, config=CONFIG)
    assert response.client_instance_id != ZERO_UUID
    assert response.subscription_id == subscription_id(response.client_instance_id)


@pytest.mark.parametrize(
    ("client", "change", "compression", "size", "error"),
    [
        (CLIENT, 0, 0, 10, None),
        (ZERO_UUID, 0, 0, 0, InvalidRequest),
        (METADATA_TOPIC_ID, 0, 0, 0, InvalidRequest),
        (CLIENT, 1, 0, 0, UnknownSubscriptionId),
        (CLIENT, 0, 9, 0, UnsupportedCompressionType),
        (CLIENT, 0, 4, 1_048_577, TelemetryTooLarge),
    ],
)
def test_a_push_is_checked_and_dropped(
    client: Uuid, change: int, compression: int, size: int, error: type[KafkaError] | None
) -> None:
    request = PushTelemetryRequest(client, subscription_id(client) + change, False, compression, bytes(size))
    if error is None:
        assert ask(push_telemetry, request, 0, config=CONFIG).error_code == 0
    else:
        with pytest.raises(error):
            ask(push_telemetry, request, 0, config=CONFIG)

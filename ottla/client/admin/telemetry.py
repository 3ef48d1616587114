"""The id under which brokers know this client in its metrics (KIP-714)."""

from __future__ import annotations

from ottla.client.admin.driver import Driver, check
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


async def client_instance_id(driver: Driver, *, timeout: float | None) -> Uuid:
    def read(response: GetTelemetrySubscriptionsResponse) -> Uuid:
        check(response.error_code)
        return Uuid(response.client_instance_id)

    # A client that has no id yet says so with zeros, and is given one.
    request = GetTelemetrySubscriptionsRequest(client_instance_id=ZERO_UUID)
    what = "GetTelemetrySubscriptions"
    return await driver.one(what, driver.any_node(), request, read, driver.deadline(timeout))

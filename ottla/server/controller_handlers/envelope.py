"""Envelope (key 58): a client's request that a broker passes on, answered as if the client had come here (KIP-590)."""

from __future__ import annotations

import inspect
from typing import Any

from ottla.errors import NotController
from ottla.server.context import CloseConnection, Connection, ControllerContext
from ottla.server.envelope import open_request, read_address, wrap_answer
from ottla.server.principal import Principal
from ottla.wire.frames import Request
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.world import Address

API_KEY = 58
NO_PORT = 0
"""An envelope does not tell the client's."""


async def handle(context: ControllerContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """The answer to the request inside, with the client's principal and address in its context."""
    principal = Principal.from_bytes(request.request_principal)
    host = read_address(request.client_host_address)
    inside = open_request(request.request_data)
    here = context.connection
    client = Connection(here.dispatcher, here.listener_name, Address(host, NO_PORT), principal)
    here.when_closed(client.close)
    try:
        return await _answer(context, client, inside)
    finally:
        here.forget(client.close)


async def _answer(context: ControllerContext, client: Connection, inside: Request) -> EnvelopeResponse:
    header, body, version = inside
    dispatcher = client.dispatcher
    route = dispatcher.find(header.request_api_key, version)
    route.metrics.requests += 1
    own = ControllerContext(version, header.correlation_id, header.client_id, client, context.node, context.controller)
    answer: Any
    try:
        answer = route.handle(own, body)
        if inspect.isawaitable(answer):
            answer = await answer
    except CloseConnection:
        raise
    except NotController:
        return EnvelopeResponse(error_code=NotController.code)
    except Exception as error:  # noqa: BLE001  # answered, and logged if it is none of Kafka's
        answer = route.error_response(body, error)
    assert answer is not None, f"{route.api.name} has an error response"
    return wrap_answer(answer, header.correlation_id, version=version)

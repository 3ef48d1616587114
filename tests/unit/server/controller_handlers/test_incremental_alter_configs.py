"""`ottla/server/controller_handlers/incremental_alter_configs.py`: a controller's own loggers."""

from __future__ import annotations

import logging

import pytest

from ottla.errors import InvalidRequest
from ottla.metadata import BROKER_LOGGER, TOPIC
from ottla.server.controller_handlers import incremental_alter_configs
from ottla.wire import Message
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.unit.server.nodes import FakeController, ask

NAME = "ottla.test.controller_logger"


def accept(request: Message, version: int) -> Message:
    assert isinstance(request, IncrementalAlterConfigsRequest)
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(0, None, one.resource_type, one.resource_name) for one in request.resources
        ]
    )


@pytest.mark.parametrize(("node_id", "code", "level"), [("1", 0, logging.ERROR), ("2", InvalidRequest.code, 0)])
def test_a_controller_changes_its_own_loggers_and_decides_the_rest(node_id: str, code: int, level: int) -> None:
    logger = logging.getLogger(NAME)
    logger.setLevel(logging.NOTSET)
    controller = FakeController(answer=accept)
    request = IncrementalAlterConfigsRequest(
        [
            AlterConfigsResource(BROKER_LOGGER, node_id, [AlterableConfig(NAME, 0, "ERROR")]),
            AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", 0, "1")]),
        ]
    )
    response = ask(incremental_alter_configs, request, 1, controller=controller, role="controller")
    assert [(one.resource_type, one.resource_name, one.error_code) for one in response.responses] == [
        (TOPIC, "t", 0),
        (BROKER_LOGGER, node_id, code),
    ]
    ((asked, _),) = controller.asked
    assert [one.resource_type for one in asked.resources] == [TOPIC]  # type: ignore[attr-defined]
    assert logger.level == level
    logger.setLevel(logging.NOTSET)

"""InitProducerId: ids from the controller's blocks, each given once."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotController,
    NotCoordinator,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersion,
)
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.replica.node import NODE_ID, TestNode


def node_with_blocks(size: int) -> TestNode:
    node = TestNode()
    starts = iter(range(1000, 10_000, size))
    node.controller.answers[AllocateProducerIdsRequest] = lambda _: AllocateProducerIdsResponse(
        producer_id_start=next(starts), producer_id_len=size
    )
    return node


def init(node: TestNode, version: int = 5, **fields: Any) -> InitProducerIdResponse:
    response = node.send(InitProducerIdRequest(**{"transactional_id": None, **fields}), version)
    assert isinstance(response, InitProducerIdResponse)
    return response


@pytest.mark.parametrize("version", range(7))
def test_every_version_gets_an_id_and_epoch_zero(version: int) -> None:
    response = init(node_with_blocks(10), version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (0, 1000, 0)


def test_ids_are_given_once_over_many_blocks_and_the_next_block_is_asked_for_early() -> None:
    node = node_with_blocks(10)
    ids = [init(node).producer_id for _ in range(25)]
    assert ids == list(range(1000, 1025))
    request = node.controller.sent[0]
    assert isinstance(request, AllocateProducerIdsRequest)
    assert (request.broker_id, request.broker_epoch) == (NODE_ID, 7)
    init(node)
    node.run_ms(1)
    assert len(node.controller.sent) == 3, "a block at a time"


def test_many_who_wait_share_one_question() -> None:
    node = node_with_blocks(10)
    waiting = [node.begin(InitProducerIdRequest(transactional_id=None), 5) for _ in range(5)]
    assert [node.wait(one).producer_id for one in waiting] == list(range(1000, 1005))
    assert len(node.controller.sent) == 1


def test_without_a_controller_a_client_is_told_to_come_again_and_the_next_try_asks_again() -> None:
    """What the controller said would be fatal to it; Kafka says the same."""
    node = node_with_blocks(10)
    working = node.controller.answers[AllocateProducerIdsRequest]
    node.controller.answers[AllocateProducerIdsRequest] = lambda _: NotController()
    with pytest.raises(CoordinatorLoadInProgress):
        init(node)
    node.run_ms(1)
    node.controller.answers[AllocateProducerIdsRequest] = working
    assert init(node).producer_id == 1000


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5}, InvalidRequest),
        ({"producer_epoch": 5}, InvalidRequest),
        ({"transactional_id": ""}, InvalidRequest),
        ({"transactional_id": "tx", "transaction_timeout_ms": 0}, InvalidTransactionTimeout),
        ({"transactional_id": "tx", "transaction_timeout_ms": 10**9}, InvalidTransactionTimeout),
        ({"transactional_id": "tx", "enable2_pc": True}, TransactionalIdAuthorizationFailed),
        ({"transactional_id": "tx", "keep_prepared_txn": True}, UnsupportedVersion),
    ],
)
def test_what_cannot_be_had_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    response = init(node_with_blocks(10), 6, **fields)
    assert (response.error_code, response.producer_id) == (error.code, -1)  # type: ignore[attr-defined]


def test_a_transactional_id_is_not_coordinated_while_its_topic_does_not_exist() -> None:
    with pytest.raises(NotCoordinator):
        init(node_with_blocks(10), 5, transactional_id="tx", transaction_timeout_ms=1000)

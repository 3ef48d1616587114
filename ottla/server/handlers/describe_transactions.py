"""DescribeTransactions (key 65): what the coordinator knows of transactional ids, an answer for each."""

from __future__ import annotations

from ottla.coordinator.transaction import Transaction
from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped, recovered
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.world import Promise

API_KEY = 65


def handle(context: BrokerContext, request: DescribeTransactionsRequest) -> Promise[DescribeTransactionsResponse]:
    tasks = context.node.world.tasks
    answers = [_answer(context, transactional_id) for transactional_id in request.transactional_ids]
    return mapped(
        tasks, gathered(tasks, answers), lambda states: DescribeTransactionsResponse(transaction_states=states)
    )


def failed(request: DescribeTransactionsRequest, error: KafkaError, version: int) -> DescribeTransactionsResponse:
    """The same error for every transactional id."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=error.code, transactional_id=one) for one in request.transactional_ids
        ]
    )


def _answer(context: BrokerContext, transactional_id: str) -> Promise[TransactionState]:
    tasks = context.node.world.tasks
    return recovered(
        tasks,
        lambda: mapped(
            tasks, context.broker.transactions.describe(transactional_id), lambda known: _state(transactional_id, known)
        ),
        lambda error: TransactionState(error_code=error.code, transactional_id=transactional_id),
    )


def _state(transactional_id: str, known: Transaction) -> TransactionState:
    by_topic: dict[str, list[int]] = {}
    for topic, index in known.partitions:
        by_topic.setdefault(topic, []).append(index)
    return TransactionState(
        0,
        transactional_id,
        known.state.state_name,
        known.timeout_ms,
        known.start_ms,
        known.producer_id,
        known.producer_epoch,
        [TopicData(topic, indexes) for topic, indexes in by_topic.items()],
    )

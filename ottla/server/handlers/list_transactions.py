"""ListTransactions (key 66): the transactions that this broker coordinates, by state, producer, age and name."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.transaction import STATE_BY_NAME, Transaction
from ottla.errors import InvalidRegularExpression, KafkaError
from ottla.server.context import BrokerContext
from ottla.server.promises import gathered, mapped
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState
from ottla.world import Promise

API_KEY = 66


def handle(context: BrokerContext, request: ListTransactionsRequest) -> Promise[ListTransactionsResponse]:
    broker = context.broker
    tasks = broker.node.world.tasks
    found = broker.transactions.list(_filter(request, broker.node.world.clock.now_ms()))

    def response(shards: list[list[tuple[str, Transaction]]]) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in STATE_BY_NAME],
            transaction_states=[
                TransactionState(transactional_id, one.producer_id, one.state.state_name)
                for shard in shards
                for transactional_id, one in shard
            ],
        )

    return mapped(tasks, gathered(tasks, found), response)


def failed(request: ListTransactionsRequest, error: KafkaError, version: int) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[str, Transaction], bool]:
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    duration_ms = request.duration_filter
    matches = _matches(request.transactional_id_pattern)

    def is_wanted(transactional_id: str, one: Transaction) -> bool:
        return (
            (not producer_ids or one.producer_id in producer_ids)
            and (not states or one.state.state_name in states)
            and (duration_ms < 0 or now_ms - one.start_ms > duration_ms)
            and (matches is None or matches(transactional_id))
        )

    return is_wanted


def _matches(pattern: str | None) -> Callable[[str], bool] | None:
    """Whether a name matches as a whole, by RE2's rules as in Kafka."""
    if not pattern:
        return None
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise InvalidRegularExpression(
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}."
        ) from None
    return lambda name: compiled.fullmatch(name) is not None

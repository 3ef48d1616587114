"""ListTransactions (key 66): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class ListTransactionsRequest(Message, api_key=66, versions="0-2", flexible="0+"):
    """List the transactions that a broker coordinates."""

    state_filters: list[str] = field()
    producer_id_filters: list[Int64] = field(entity="producerId")
    duration_filter: Int64 = field("1+", default=-1)
    transactional_id_pattern: str | None = field("2+", default=None)


class ListTransactionsResponse(Message, api_key=66, versions="0-2", flexible="0+"):
    """The transactions with their producers and states."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    unknown_state_filters: list[str] = field()
    transaction_states: list[TransactionState] = field()


class TransactionState(Struct):
    transactional_id: str = field(entity="transactionalId")
    producer_id: Int64 = field(entity="producerId")
    transaction_state: str = field()

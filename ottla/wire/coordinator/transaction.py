"""Records of `__transaction_state`."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class TransactionLogKey(Message, api_key=0, versions="0"):
    """Which transactional id it is about."""

    transactional_id: str = field("0")


class TransactionLogValue(Message, api_key=0, versions="0-1", flexible="1+"):
    """The state of a transaction."""

    producer_id: Int64 = field()
    previous_producer_id: Int64 = field(default=-1, tag=0, tagged="1+")
    next_producer_id: Int64 = field(default=-1, tag=1, tagged="1+")
    producer_epoch: Int16 = field()
    next_producer_epoch: Int16 = field(default=-1, tag=3, tagged="1+")
    transaction_timeout_ms: Int32 = field()
    transaction_status: Int8 = field(
        doc="0 empty, 1 ongoing, 2 prepare commit, 3 prepare abort, 4 complete commit, 5 complete abort, 6 "
        "dead, 7 prepare epoch fence."
    )
    transaction_partitions: list[PartitionsSchema] | None = field()
    transaction_last_update_timestamp_ms: Int64 = field()
    transaction_start_timestamp_ms: Int64 = field()
    client_transaction_version: Int16 = field(tag=2, tagged="1+")


class PartitionsSchema(Struct):
    topic: str = field()
    partition_ids: list[Int32] = field()

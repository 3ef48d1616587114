"""EndTxn (key 26): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, field


class EndTxnRequest(Message, api_key=26, versions="0-5", flexible="3+"):
    """Commit or abort a transaction."""

    transactional_id: str = field(entity="transactionalId")
    producer_id: Int64 = field(entity="producerId")
    producer_epoch: Int16 = field()
    committed: Bool = field(doc="True commits, false aborts.")


class EndTxnResponse(Message, api_key=26, versions="0-5", flexible="3+"):
    """Whether the transaction is ending, and the producer's next id and epoch."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    producer_id: Int64 = field("5+", default=-1, ignorable=True, entity="producerId")
    producer_epoch: Int16 = field("5+", default=-1, ignorable=True)

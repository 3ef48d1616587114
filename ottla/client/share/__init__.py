"""The share consumer (KIP-932): many members read the same partitions, each record is given to one of them at a time.

Two faces of one core: `AsyncShareConsumer` on an asyncio loop, `ShareConsumer` for callers that block. Promises of
both: a record that `poll` returns is locked for this member until it is acknowledged or the lock runs out; what is
accepted or rejected comes no more, what is released or forgotten comes again, with a higher `delivery_count`; `poll`
returns within its time-out whatever the brokers do.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.share.acknowledgements import AcknowledgeType
    from ottla.client.share.async_share_consumer import AsyncShareConsumer
    from ottla.client.share.share_consumer import ShareConsumer

__all__ = ["AcknowledgeType", "AsyncShareConsumer", "ShareConsumer"]

_HOME = {
    "AcknowledgeType": "acknowledgements",
    "AsyncShareConsumer": "async_share_consumer",
    "ShareConsumer": "share_consumer",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

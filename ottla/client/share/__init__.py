"""The share consumer (KIP-932): many members read the same partitions, each record is given to one of them at a time.

Two faces of one core: `AsyncShareConsumer` on an asyncio loop, `ShareConsumer` for callers that block. Promises of
both: a record that `poll` returns is locked for this member until it is acknowledged or the lock runs out; what is
accepted or rejected comes no more, what is released or forgotten comes again, with a higher `delivery_count`; `poll`
returns within its time-out whatever the brokers do.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value

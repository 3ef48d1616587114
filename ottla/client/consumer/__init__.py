"""The consumer: it fetches ahead of its user, keeps the positions, and is a member of its group.

Two faces of one core: `AsyncConsumer` on an asyncio loop, `Consumer` for callers that block. Promises of both: records
of a partition come in order and each once for as long as the partition stays assigned; `poll` returns within its
time-out whatever the brokers do; a call that waits ends with `Wakeup` when `wakeup` is called.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.consumer.arrow import read_topic
    from ottla.client.consumer.async_consumer import AsyncConsumer
    from ottla.client.consumer.face import ConsumerInterceptor, OffsetAndTimestamp
    from ottla.client.consumer.listener import RebalanceListener
    from ottla.client.consumer.subscription_state import SubscriptionPattern
    from ottla.client.consumer.sync_consumer import Consumer

__all__ = [
    "AsyncConsumer",
    "Consumer",
    "ConsumerInterceptor",
    "OffsetAndTimestamp",
    "RebalanceListener",
    "SubscriptionPattern",
    "read_topic",
]

_HOME = {
    "AsyncConsumer": "async_consumer",
    "Consumer": "sync_consumer",
    "ConsumerInterceptor": "face",
    "OffsetAndTimestamp": "face",
    "RebalanceListener": "listener",
    "SubscriptionPattern": "subscription_state",
    "read_topic": "arrow",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

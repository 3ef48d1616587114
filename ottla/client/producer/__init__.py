"""Producers: `Producer`, which blocks, and `AsyncProducer`, which does not; one core under both.

What is not used is not loaded: each name is imported when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.producer.async_producer import AsyncProducer
    from ottla.client.producer.bulk import BulkDelivery, WrittenRun
    from ottla.client.producer.core import ProducerRecord
    from ottla.client.producer.delivery import Delivery, RecordMetadata
    from ottla.client.producer.sync_producer import Producer

__all__ = ["AsyncProducer", "BulkDelivery", "Delivery", "Producer", "ProducerRecord", "RecordMetadata", "WrittenRun"]

_HOME = {
    "AsyncProducer": "async_producer",
    "BulkDelivery": "bulk",
    "Delivery": "delivery",
    "Producer": "sync_producer",
    "ProducerRecord": "core",
    "RecordMetadata": "delivery",
    "WrittenRun": "bulk",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

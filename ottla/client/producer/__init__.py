"""Producers: `Producer`, which blocks, and `AsyncProducer`, which does not; one core under both.

What is not used is not loaded: each name is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value

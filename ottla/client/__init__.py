"""Kafka clients for Python: producers, consumers and admins, each in a blocking and an async form.

What is not used is not loaded: every name is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module

# Where each public name lives. Keep it sorted by module; `tests/unit/client/test_public_names.py` checks it.
_HOME: dict[str, str] = {
    "Admin": "ottla.client.admin",
    "AlterConfigOp": "ottla.client.admin",
    "AsyncAdmin": "ottla.client.admin",
    "ConfigResource": "ottla.client.admin",
    "NewPartitions": "ottla.client.admin",
    "NewTopic": "ottla.client.admin",
    "OffsetSpec": "ottla.client.admin",
    "Outcome": "ottla.client.admin",
    "Outcomes": "ottla.client.admin",
    "AsyncConsumer": "ottla.client.consumer",
    "Consumer": "ottla.client.consumer",
    "ConsumerInterceptor": "ottla.client.consumer",
    "OffsetAndTimestamp": "ottla.client.consumer",
    "RebalanceListener": "ottla.client.consumer",
    "SubscriptionPattern": "ottla.client.consumer",
    "read_topic": "ottla.client.consumer",
    "CorruptRecord": "ottla.client.errors",
    "IllegalState": "ottla.client.errors",
    "LogTruncation": "ottla.client.errors",
    "NoOffsetForPartition": "ottla.client.errors",
    "OffsetsOutOfRange": "ottla.client.errors",
    "RecordDeserialization": "ottla.client.errors",
    "RecordError": "ottla.client.errors",
    "KafkaTimeout": "ottla.client.errors",
    "ClientClosed": "ottla.client.errors",
    "CommitFailed": "ottla.client.errors",
    "RetriableCommitFailed": "ottla.client.errors",
    "NoBroker": "ottla.client.errors",
    "Wakeup": "ottla.client.errors",
    "GroupMetadata": "ottla.client.group",
    "OffsetAndMetadata": "ottla.client.group",
    "AcknowledgeType": "ottla.client.share",
    "AsyncShareConsumer": "ottla.client.share",
    "ShareConsumer": "ottla.client.share",
    "ConsumerRecord": "ottla.records",
    "TopicPartition": "ottla.types",
}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

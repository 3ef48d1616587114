"""Kafka clients for Python: producers, consumers and admins, each in a blocking and an async form.

What is not used is not loaded: every name is imported when it is first asked for. A new name is added twice, below for
type checkers and in `_LAZY`; `tests/unit/client/test_public_names.py` holds the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.client.admin import (
        Admin as Admin,
    )
    from ottla.client.admin import (
        AlterConfigOp as AlterConfigOp,
    )
    from ottla.client.admin import (
        AsyncAdmin as AsyncAdmin,
    )
    from ottla.client.admin import (
        AsyncFakeAdmin as AsyncFakeAdmin,
    )
    from ottla.client.admin import (
        ConfigResource as ConfigResource,
    )
    from ottla.client.admin import (
        FakeAdmin as FakeAdmin,
    )
    from ottla.client.admin import (
        FakeCluster as FakeCluster,
    )
    from ottla.client.admin import (
        FakeMember as FakeMember,
    )
    from ottla.client.admin import (
        NewPartitions as NewPartitions,
    )
    from ottla.client.admin import (
        NewTopic as NewTopic,
    )
    from ottla.client.admin import (
        OffsetSpec as OffsetSpec,
    )
    from ottla.client.admin import (
        Outcome as Outcome,
    )
    from ottla.client.admin import (
        Outcomes as Outcomes,
    )
    from ottla.client.consumer import (
        AsyncConsumer as AsyncConsumer,
    )
    from ottla.client.consumer import (
        Consumer as Consumer,
    )
    from ottla.client.consumer import (
        ConsumerInterceptor as ConsumerInterceptor,
    )
    from ottla.client.consumer import (
        OffsetAndTimestamp as OffsetAndTimestamp,
    )
    from ottla.client.consumer import (
        RebalanceListener as RebalanceListener,
    )
    from ottla.client.consumer import (
        SubscriptionPattern as SubscriptionPattern,
    )
    from ottla.client.consumer import (
        read_topic as read_topic,
    )
    from ottla.client.errors import (
        AbortableError as AbortableError,
    )
    from ottla.client.errors import (
        BootstrapFailed as BootstrapFailed,
    )
    from ottla.client.errors import (
        BufferExhausted as BufferExhausted,
    )
    from ottla.client.errors import (
        ClientClosed as ClientClosed,
    )
    from ottla.client.errors import (
        CommitFailed as CommitFailed,
    )
    from ottla.client.errors import (
        CorruptRecord as CorruptRecord,
    )
    from ottla.client.errors import (
        DeliveryTimeout as DeliveryTimeout,
    )
    from ottla.client.errors import (
        FatalProducerError as FatalProducerError,
    )
    from ottla.client.errors import (
        IllegalState as IllegalState,
    )
    from ottla.client.errors import (
        InternalError as InternalError,
    )
    from ottla.client.errors import (
        KafkaTimeout as KafkaTimeout,
    )
    from ottla.client.errors import (
        LogTruncation as LogTruncation,
    )
    from ottla.client.errors import (
        NoBroker as NoBroker,
    )
    from ottla.client.errors import (
        NoOffsetForPartition as NoOffsetForPartition,
    )
    from ottla.client.errors import (
        OffsetsOutOfRange as OffsetsOutOfRange,
    )
    from ottla.client.errors import (
        RecordDeserialization as RecordDeserialization,
    )
    from ottla.client.errors import (
        RecordError as RecordError,
    )
    from ottla.client.errors import (
        RetriableCommitFailed as RetriableCommitFailed,
    )
    from ottla.client.errors import (
        SerializationError as SerializationError,
    )
    from ottla.client.errors import (
        TransactionAborted as TransactionAborted,
    )
    from ottla.client.errors import (
        Wakeup as Wakeup,
    )
    from ottla.client.group import (
        GroupMetadata as GroupMetadata,
    )
    from ottla.client.group import (
        OffsetAndMetadata as OffsetAndMetadata,
    )
    from ottla.client.producer import (
        AsyncProducer as AsyncProducer,
    )
    from ottla.client.producer import (
        BulkDelivery as BulkDelivery,
    )
    from ottla.client.producer import (
        Delivery as Delivery,
    )
    from ottla.client.producer import (
        Producer as Producer,
    )
    from ottla.client.producer import (
        ProducerRecord as ProducerRecord,
    )
    from ottla.client.producer import (
        RecordMetadata as RecordMetadata,
    )
    from ottla.client.producer import (
        WrittenRun as WrittenRun,
    )
    from ottla.client.share import (
        AcknowledgeType as AcknowledgeType,
    )
    from ottla.client.share import (
        AsyncShareConsumer as AsyncShareConsumer,
    )
    from ottla.client.share import (
        ShareConsumer as ShareConsumer,
    )
    from ottla.records import (
        ConsumerRecord as ConsumerRecord,
    )
    from ottla.types import (
        TopicPartition as TopicPartition,
    )

_LAZY: dict[str, tuple[str, ...]] = {
    "ottla.client.admin": (
        "Admin",
        "AlterConfigOp",
        "AsyncAdmin",
        "AsyncFakeAdmin",
        "ConfigResource",
        "FakeAdmin",
        "FakeCluster",
        "FakeMember",
        "NewPartitions",
        "NewTopic",
        "OffsetSpec",
        "Outcome",
        "Outcomes",
    ),
    "ottla.client.consumer": (
        "AsyncConsumer",
        "Consumer",
        "ConsumerInterceptor",
        "OffsetAndTimestamp",
        "RebalanceListener",
        "SubscriptionPattern",
        "read_topic",
    ),
    "ottla.client.errors": (
        "AbortableError",
        "BootstrapFailed",
        "BufferExhausted",
        "ClientClosed",
        "CommitFailed",
        "CorruptRecord",
        "DeliveryTimeout",
        "FatalProducerError",
        "IllegalState",
        "InternalError",
        "KafkaTimeout",
        "LogTruncation",
        "NoBroker",
        "NoOffsetForPartition",
        "OffsetsOutOfRange",
        "RecordDeserialization",
        "RecordError",
        "RetriableCommitFailed",
        "SerializationError",
        "TransactionAborted",
        "Wakeup",
    ),
    "ottla.client.group": (
        "GroupMetadata",
        "OffsetAndMetadata",
    ),
    "ottla.client.share": (
        "AcknowledgeType",
        "AsyncShareConsumer",
        "ShareConsumer",
    ),
    "ottla.client.producer": (
        "AsyncProducer",
        "BulkDelivery",
        "Delivery",
        "Producer",
        "ProducerRecord",
        "RecordMetadata",
        "WrittenRun",
    ),
    "ottla.records": ("ConsumerRecord",),
    "ottla.types": ("TopicPartition",),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = list(_HOME)  # and a type checker has the imports above

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOME)

"""AddOffsetsToTxn (key 25): a transaction will commit offsets of a group, so that group's partition takes part.

Clients of transaction version 2 do not ask: TxnOffsetCommit adds the partition by itself.
"""

from __future__ import annotations

from ottla.coordinator import Producer, coordinator_partition
from ottla.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from ottla.server.broker import BrokerServices
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.topic_creation import GROUP_TOPIC
from ottla.types import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.world import Promise

API_KEY = 25
FENCED_VERSION = 2
"""Clients of older versions know a fenced producer as INVALID_PRODUCER_EPOCH."""


def handle(context: BrokerContext, request: AddOffsetsToTxnRequest) -> Promise[AddOffsetsToTxnResponse]:
    broker = context.broker
    added = broker.transactions.add_partitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [_partition_of(broker, request.group_id)],
        client_version=0,
    )
    return mapped(broker.node.world.tasks, added, lambda _: AddOffsetsToTxnResponse())


def failed(request: AddOffsetsToTxnRequest, error: KafkaError, version: int) -> AddOffsetsToTxnResponse:
    is_old = version < FENCED_VERSION and error.code == ProducerFenced.code
    return AddOffsetsToTxnResponse(error_code=InvalidProducerEpoch.code if is_old else error.code)


def _partition_of(broker: BrokerServices, group_id: str) -> TopicPartition:
    """Where the group's offsets are. While the topic does not exist, where they will be: the client looks for the
    group's coordinator, which makes the topic, only after this was answered."""
    topic = broker.node.image.topics.by_name.get(GROUP_TOPIC)
    count = broker.node.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
    return TopicPartition(GROUP_TOPIC, coordinator_partition(group_id, count))

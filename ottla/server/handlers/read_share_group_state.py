"""ReadShareGroupState (key 84): the stored state of share partitions, for a new leader of each."""

from __future__ import annotations

from ottla.coordinator.share import StoredState
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import each_partition
from ottla.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from ottla.world import Promise

API_KEY = 84


def handle(context: BrokerContext, request: ReadShareGroupStateRequest) -> Promise[ReadShareGroupStateResponse]:
    answered = each_partition(
        context,
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda coordinator, key, one: coordinator.read(key, leader_epoch=one.leader_epoch),
        _result,
        PartitionResult,
    )
    return mapped(
        context.node.world.tasks,
        answered,
        lambda results: ReadShareGroupStateResponse(results=[ReadStateResult(*one) for one in results]),
    )


def _result(partition: int, stored: StoredState) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        state_epoch=stored.state_epoch,
        start_offset=stored.start_offset,
        state_batches=[StateBatch(first, last, state, count) for first, last, count, state in stored.batches],
    )

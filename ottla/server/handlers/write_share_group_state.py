"""WriteShareGroupState (key 85): what has changed in the state of share partitions, as their leaders tell."""

from __future__ import annotations

from ottla.coordinator.share import StateBatch, StateUpdate
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import each_partition
from ottla.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ottla.world import Promise

API_KEY = 85


def handle(context: BrokerContext, request: WriteShareGroupStateRequest) -> Promise[WriteShareGroupStateResponse]:
    answered = each_partition(
        context,
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda coordinator, key, one: coordinator.write(key, _update(one)),
        lambda partition, _: PartitionResult(partition),
        PartitionResult,
    )
    return mapped(
        context.node.world.tasks,
        answered,
        lambda results: WriteShareGroupStateResponse(results=[WriteStateResult(*one) for one in results]),
    )


def _update(one: PartitionData) -> StateUpdate:
    return StateUpdate(
        one.state_epoch,
        one.leader_epoch,
        one.start_offset,
        one.delivery_complete_count,
        tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state)
            for batch in one.state_batches
        ),
    )

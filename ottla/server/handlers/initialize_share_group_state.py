"""InitializeShareGroupState (key 83): begin the stored state of share partitions."""

from __future__ import annotations

from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import each_partition
from ottla.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from ottla.world import Promise

API_KEY = 83


def handle(
    context: BrokerContext, request: InitializeShareGroupStateRequest
) -> Promise[InitializeShareGroupStateResponse]:
    answered = each_partition(
        context,
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda coordinator, key, one: coordinator.initialize(
            key, state_epoch=one.state_epoch, start_offset=one.start_offset
        ),
        lambda partition, _: PartitionResult(partition),
        PartitionResult,
    )
    return mapped(
        context.node.world.tasks,
        answered,
        lambda results: InitializeShareGroupStateResponse(results=[InitializeStateResult(*one) for one in results]),
    )

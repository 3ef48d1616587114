"""DeleteShareGroupState (key 86): forget the stored state of share partitions."""

from __future__ import annotations

from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import each_partition
from ottla.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from ottla.world import Promise

API_KEY = 86


def handle(context: BrokerContext, request: DeleteShareGroupStateRequest) -> Promise[DeleteShareGroupStateResponse]:
    answered = each_partition(
        context,
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda coordinator, key, one: coordinator.delete(key),
        lambda partition, _: PartitionResult(partition),
        PartitionResult,
    )
    return mapped(
        context.node.world.tasks,
        answered,
        lambda results: DeleteShareGroupStateResponse(results=[DeleteStateResult(*one) for one in results]),
    )

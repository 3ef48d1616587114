"""ReadShareGroupStateSummary (key 87): how far share groups have come, without what is in flight."""

from __future__ import annotations

from ottla.coordinator.share import StateSummary
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import each_partition
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ottla.world import Promise

API_KEY = 87


def handle(
    context: BrokerContext, request: ReadShareGroupStateSummaryRequest
) -> Promise[ReadShareGroupStateSummaryResponse]:
    answered = each_partition(
        context,
        request.group_id,
        [(topic.topic_id, topic.partitions) for topic in request.topics],
        lambda coordinator, key, one: coordinator.read_summary(key),
        _result,
        PartitionResult,
    )
    return mapped(
        context.node.world.tasks,
        answered,
        lambda results: ReadShareGroupStateSummaryResponse(results=[ReadStateSummaryResult(*one) for one in results]),
    )


def _result(partition: int, summary: StateSummary) -> PartitionResult:
    return PartitionResult(
        partition=partition,
        state_epoch=summary.state_epoch,
        leader_epoch=summary.leader_epoch,
        start_offset=summary.start_offset,
        delivery_complete_count=summary.delivery_complete_count,
    )

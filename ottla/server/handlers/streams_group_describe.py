"""StreamsGroupDescribe (key 89): the state, the topology and the members of Streams groups (KIP-1071)."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard
from ottla.coordinator.group.streams import check_streams_protocol
from ottla.errors import InvalidGroupId, KafkaError
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.group_requests import for_groups
from ottla.server.operations import GROUP_OPERATIONS
from ottla.server.promises import mapped
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.world import Promise

API_KEY = 89


def handle(context: BrokerContext, request: StreamsGroupDescribeRequest) -> Promise[StreamsGroupDescribeResponse]:
    """Each group as its coordinator has it, or with an error of its own."""
    broker = context.broker
    check_streams_protocol(broker.node.image, broker.node.config)
    nameless = [_failed("", InvalidGroupId()) for group_id in request.group_ids if not group_id]
    named = [group_id for group_id in request.group_ids if group_id]

    def describe(shard: GroupShard, group_ids: list[str]) -> Result[list[DescribedGroup]]:
        return Result([shard.streams.describe(group_id) for group_id in group_ids])

    def answer(described: list[DescribedGroup]) -> StreamsGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return StreamsGroupDescribeResponse(groups=nameless + described)

    described = for_groups(context, "StreamsGroupDescribe", named, describe, _failed)
    return mapped(broker.node.world.tasks, described, answer)


def failed(request: StreamsGroupDescribeRequest, error: KafkaError, version: int) -> StreamsGroupDescribeResponse:
    """The error for each group."""
    return StreamsGroupDescribeResponse(groups=[_failed(group_id, error) for group_id in request.group_ids])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, group_id=group_id)

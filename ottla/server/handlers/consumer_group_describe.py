"""ConsumerGroupDescribe (key 69): the state, epochs and members of consumer groups."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard, check_consumer_protocol
from ottla.errors import InvalidGroupId, KafkaError
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.group_requests import for_groups
from ottla.server.operations import GROUP_OPERATIONS
from ottla.server.promises import mapped
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ottla.world import Promise

API_KEY = 69


def handle(context: BrokerContext, request: ConsumerGroupDescribeRequest) -> Promise[ConsumerGroupDescribeResponse]:
    check_consumer_protocol(context.node.image, context.node.config)

    def answer(described: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=[*nameless, *described])

    nameless = [DescribedGroup(error_code=InvalidGroupId.code, group_id="") for one in request.group_ids if not one]
    described = for_groups(
        context, "ConsumerGroupDescribe", [one for one in request.group_ids if one], _describe, _failed_group
    )
    return mapped(context.node.world.tasks, described, answer)


def failed(request: ConsumerGroupDescribeRequest, error: KafkaError, version: int) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_failed_group(group_id, error) for group_id in request.group_ids])


def _describe(shard: GroupShard, group_ids: list[str]) -> Result[list[DescribedGroup]]:
    return Result([shard.consumer.describe(group_id) for group_id in group_ids])


def _failed_group(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, group_id=group_id)

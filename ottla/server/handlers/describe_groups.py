"""DescribeGroups (key 15): the state and the members of classic groups."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard
from ottla.errors import KafkaError
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.group_requests import for_groups
from ottla.server.operations import GROUP_OPERATIONS
from ottla.server.promises import mapped
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.world import Promise

API_KEY = 15


def handle(context: BrokerContext, request: DescribeGroupsRequest) -> Promise[DescribeGroupsResponse]:
    """Each group by itself: one that is not here, or not classic, is dead."""
    version = context.version

    def describe(shard: GroupShard, group_ids: list[str]) -> Result[list[DescribedGroup]]:
        return Result([shard.classic.describe(group_id, version) for group_id in group_ids])

    def answer(described: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in described:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=described)

    return mapped(
        context.node.world.tasks, for_groups(context, "DescribeGroups", request.groups, describe, _failed), answer
    )


def failed(request: DescribeGroupsRequest, error: KafkaError, version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_failed(group_id, error) for group_id in request.groups])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, group_id=group_id)

"""ShareGroupDescribe (key 77): the state and the members of share groups."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard
from ottla.errors import InvalidGroupId, KafkaError
from ottla.machine import Result
from ottla.server.context import BrokerContext
from ottla.server.group_requests import for_groups
from ottla.server.operations import GROUP_OPERATIONS
from ottla.server.promises import mapped
from ottla.server.share import check_enabled
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.world import Promise

API_KEY = 77


def handle(context: BrokerContext, request: ShareGroupDescribeRequest) -> Promise[ShareGroupDescribeResponse]:
    """Each group by itself."""
    check_enabled(context)

    def describe(shard: GroupShard, group_ids: list[str]) -> Result[list[DescribedGroup]]:
        return Result([shard.share.describe(group_id) for group_id in group_ids])

    def answer(described: list[DescribedGroup]) -> ShareGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in described:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        nameless = [_failed("", InvalidGroupId()) for group_id in request.group_ids if not group_id]
        return ShareGroupDescribeResponse(groups=nameless + described)

    named = [group_id for group_id in request.group_ids if group_id]
    described = for_groups(context, "share-group-describe", named, describe, _failed)
    return mapped(context.node.world.tasks, described, answer)


def failed(request: ShareGroupDescribeRequest, error: KafkaError, version: int) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[_failed(group_id, error) for group_id in request.group_ids])


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(error_code=error.code, group_id=group_id)

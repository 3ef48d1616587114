"""DeleteGroups (key 42): delete groups without members, and their offsets."""

from __future__ import annotations

from ottla.errors import KafkaError
from ottla.server.context import RequestContext
from ottla.server.group_requests import for_groups
from ottla.server.promises import mapped
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.world import Promise

API_KEY = 42


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Promise[DeleteGroupsResponse]:
    """Each group by itself."""
    deleted = for_groups(
        context,
        "DeleteGroups",
        dict.fromkeys(request.groups_names),
        lambda shard, group_ids: shard.delete_groups(group_ids),
        _failed,
    )
    return mapped(context.broker.world.tasks, deleted, lambda results: DeleteGroupsResponse(results=results))


def failed(request: DeleteGroupsRequest, error: KafkaError, version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(group_id, error) for group_id in request.groups_names])


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code)

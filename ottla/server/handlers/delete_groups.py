"""DeleteGroups (key 42): delete groups without members, and their offsets."""

from __future__ import annotations

from ottla.errors import KafkaError
from ottla.server.context import BrokerContext
from ottla.server.group_requests import for_groups
from ottla.server.promises import chained, mapped
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.world import Promise

API_KEY = 42


def handle(context: BrokerContext, request: DeleteGroupsRequest) -> Promise[DeleteGroupsResponse]:
    """Each group by itself. What the share coordinator has of share groups goes first."""
    tasks = context.node.world.tasks

    def delete(kept: dict[str, KafkaError]) -> Promise[DeleteGroupsResponse]:
        deleted = for_groups(
            context,
            "DeleteGroups",
            [group_id for group_id in dict.fromkeys(request.groups_names) if group_id not in kept],
            lambda shard, group_ids: shard.delete_groups(group_ids),
            _failed,
        )
        refused = [_failed(group_id, error) for group_id, error in kept.items()]
        return mapped(tasks, deleted, lambda results: DeleteGroupsResponse(results=results + refused))

    return chained(tasks, context.broker.share.states.delete_states(dict.fromkeys(request.groups_names)), delete)


def failed(request: DeleteGroupsRequest, error: KafkaError, version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_failed(group_id, error) for group_id in request.groups_names])


def _failed(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code)

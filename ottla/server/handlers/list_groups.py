"""ListGroups (key 16): the groups that this broker coordinates, of all protocols."""

from __future__ import annotations

from ottla.coordinator.group import GroupShard, GroupType
from ottla.errors import KafkaError, NotCoordinator
from ottla.server.context import BrokerContext
from ottla.server.group_requests import caught
from ottla.server.promises import gathered, mapped
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.world import Promise

API_KEY = 16

TYPES = {type_.value: type_ for type_ in GroupType}


def handle(context: BrokerContext, request: ListGroupsRequest) -> Promise[ListGroupsResponse]:
    """Those in the states and of the types asked for, in whatever case; a shard that is still loading fails it all."""
    states = frozenset(state.lower().strip() for state in request.states_filter)
    types = [TYPES.get(one.lower().strip()) for one in request.types_filter]

    def look(shard: GroupShard) -> list[ListedGroup]:
        return shard.list_groups(states, [one for one in types if one is not None] if types else None)

    tasks = context.node.world.tasks
    shards = [caught(context, one, _moved) for one in context.broker.groups.runtime.read_all("ListGroups", look)]
    return mapped(
        tasks,
        gathered(tasks, shards),
        lambda lists: ListGroupsResponse(groups=[group for groups in lists for group in groups]),
    )


def _moved(error: KafkaError) -> list[ListedGroup]:
    """A shard that has moved away meanwhile is listed where it is now."""
    if isinstance(error, NotCoordinator):
        return []
    raise error

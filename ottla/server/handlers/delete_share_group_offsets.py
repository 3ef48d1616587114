"""DeleteShareGroupOffsets (key 92): let a share group without members forget topics."""

from __future__ import annotations

from ottla.errors import InvalidGroupId
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import check_enabled
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ottla.world import Promise

API_KEY = 92


def handle(context: BrokerContext, request: DeleteShareGroupOffsetsRequest) -> Promise[DeleteShareGroupOffsetsResponse]:
    check_enabled(context)
    if not request.group_id:
        raise InvalidGroupId
    names = [topic.topic_name for topic in request.topics]
    deleted = context.broker.share.states.delete_offsets(request.group_id, names)
    return mapped(context.node.world.tasks, deleted, lambda topics: DeleteShareGroupOffsetsResponse(responses=topics))

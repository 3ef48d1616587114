"""AlterShareGroupOffsets (key 91): let a share group without members begin elsewhere."""

from __future__ import annotations

from ottla.errors import InvalidGroupId
from ottla.server.context import BrokerContext
from ottla.server.promises import mapped
from ottla.server.share import check_enabled
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from ottla.world import Promise

API_KEY = 91


def handle(context: BrokerContext, request: AlterShareGroupOffsetsRequest) -> Promise[AlterShareGroupOffsetsResponse]:
    check_enabled(context)
    if not request.group_id:
        raise InvalidGroupId
    altered = context.broker.share.states.alter_offsets(request.group_id, request.topics)
    return mapped(context.node.world.tasks, altered, lambda topics: AlterShareGroupOffsetsResponse(responses=topics))

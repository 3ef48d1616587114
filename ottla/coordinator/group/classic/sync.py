"""`Syncs`: SyncGroup. The leader brings everybody's assignment; it is written, and then each member gets its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import (
    COMPLETING_REBALANCE,
    DEAD,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.records import generation_record
from ottla.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    RebalanceInProgress,
)
from ottla.machine import Result
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)


class Syncs:
    """See the module."""

    def __init__(self, shard: GroupShard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, answer: Promise[SyncGroupResponse]) -> Result[None]:
        """Answer with the member's assignment, or when the leader has brought it."""
        self._check(group, request)
        member_id = request.member_id
        member = group.members[member_id]
        self._rebalances.on_synced(group, member_id)
        if group.state is STABLE:
            answer.set_result(_synced(group, member.assignment))
            return Result(None)
        assert group.state is COMPLETING_REBALANCE, f"group {group.group_id} is {group.state_name}"
        member.awaiting_sync = answer
        if member_id != group.leader_id:
            return Result(None)
        log.info("[%s] Assignment received from leader %s for group %s for generation %d. The group has %d members, "
                 "%d of which are static", self._shard.name, member_id, group.group_id, group.generation,
                 len(group.members), len(group.static_members))  # fmt: skip
        told = {one.member_id: bytes(one.assignment) for one in request.assignments}
        missing = [one for one in group.members if one not in told]
        if missing:
            log.warning("[%s] Setting empty assignments for members %s of %s for generation %d", self._shard.name,
                        ", ".join(missing), group.group_id, group.generation)  # fmt: skip
        assignments = {one: told.get(one, b"") for one in group.members}
        stored = partial(self._on_stored, group, group.generation, member_id, assignments)
        # The one who waits for a write is told when it takes too long; here many wait for one.
        self._shard.context.timers.schedule(
            _store_key(group.group_id),
            self._shard.config.offsets_commit_timeout_ms,
            partial(self._on_store_timeout, stored),
        )
        return Result(None, [generation_record(group, assignments)], stored)

    def _on_store_timeout(self, stored: Callable[[BaseException], None]) -> Result[None]:
        stored(CoordinatorNotAvailable("The group's assignment was not committed in time"))
        return Result(None)

    def _check(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        if group.state is DEAD:
            raise CoordinatorNotAvailable
        try:
            group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            self._shard.classic.log_fenced(group, request.member_id, request.group_instance_id, "sync-group", error)
            raise
        if request.generation_id != group.generation:
            raise IllegalGeneration
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
            raise InconsistentGroupProtocol
        if group.state is PREPARING_REBALANCE:
            raise RebalanceInProgress

    def _on_stored(
        self,
        group: ClassicGroup,
        generation: int,
        leader_id: str,
        assignments: dict[str, bytes],
        error: BaseException | None,
    ) -> None:
        """The leader's assignment is committed, or was not in time. Somebody may have joined meanwhile."""
        self._shard.context.timers.cancel(_store_key(group.group_id))
        if group.state is not COMPLETING_REBALANCE or group.generation != generation:
            return
        if error is not None:
            self._rebalances.store_failed(group, leader_id, error)
            return
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if not member.assignment:
                log.warning("[%s] Sending empty assignment to member %s of %s for generation %d with no errors",
                            self._shard.name, member.member_id, group.group_id, generation)  # fmt: skip
            if group.answer_sync(member, _synced(group, member.assignment)):
                # Its session did not run while it waited for us.
                self._rebalances.renew_session(group, member)
        group.enter(STABLE, self._shard.context.world.clock.now_ms())
        self._shard.metrics.completed_rebalances += 1


def _synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type or None, protocol_name=group.protocol_name, assignment=assignment
    )


def _store_key(group_id: str) -> str:
    return f"store-{group_id}"


def _differs(told: str | None, ours: str | None) -> bool:
    """Whether a client that tells its protocol (from version 5 on) means another one than the group's."""
    return bool(told is not None and ours and told != ours)

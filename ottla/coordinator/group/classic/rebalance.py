"""`Rebalances`: how a classic group gets from one generation to the next, and the time-outs that push it on.

    Stable, CompletingRebalance, Empty --prepare--> PreparingRebalance --complete_join--> CompletingRebalance (or Empty)
    CompletingRebalance --the leader's SyncGroup, in `sync`--> Stable

Promises: a group in PreparingRebalance has a time-out that ends it; a group in CompletingRebalance has one for members
that never sync; a member that neither waits for us nor is heard of for its session's time is removed. Called by the
decisions in `join`, `sync`, `leave` and by time-outs; what it returns is part of their results.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroup,
)
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.records import generation_record
from ottla.errors import KafkaError, RebalanceInProgress, UnknownMemberId, UnknownServerError
from ottla.machine import Result
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.shard import GroupShard

log = logging.getLogger(__name__)

NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait in a rebalance: it has no id to send heartbeats with, so it must ask again."""


class Rebalances:
    """See the module."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
        self._timers = shard.context.timers

    @property
    def _now_ms(self) -> int:
        return self._shard.context.world.clock.now_ms()

    def _find(self, group_id: str) -> ClassicGroup | None:
        """The group that a time-out is about, unless it is gone, or of another protocol by now."""
        group = self._shard.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Preparing

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Result[None]:
        """Something has changed: begin a rebalance, or go on with the one that is under way if it can."""
        return self.prepare(group, reason) if group.can_rebalance else self.complete_if_all_joined(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Result[None]:
        """Begin a rebalance: all members are to join again."""
        if group.state is COMPLETING_REBALANCE:
            self.refuse_syncs(group, RebalanceInProgress.code)
        group.pending_syncs.clear()
        self._timers.cancel(_sync_key(group.group_id))
        is_initial = group.state is EMPTY
        if is_initial:
            # Others are likely to follow: with each of them in a generation of its own, nothing would get done.
            delay_ms = self._shard.config.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group.group_id, delay_ms, remaining_ms)
        group.enter(PREPARING_REBALANCE, self._now_ms)
        log.info("[%s] Preparing to rebalance group %s in state %s with old generation %d (reason: %s)",
                 self._shard.name, group.group_id, group.state_name, group.generation, reason)  # fmt: skip
        if is_initial:
            return Result(None)
        if group.has_all_joined:
            return self.complete_join(group)
        self._schedule_join(group)
        return Result(None)

    def _schedule_join(self, group: ClassicGroup) -> None:
        self._timers.schedule(
            _join_key(group.group_id), group.rebalance_timeout_ms, partial(self._on_join_timeout, group.group_id)
        )

    def _on_join_timeout(self, group_id: str) -> Result[None]:
        group = self._find(group_id)
        return Result(None) if group is None else self.complete_join(group)

    def _schedule_initial(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        self._timers.schedule(
            _join_key(group_id), delay_ms, partial(self._on_initial_delay, group_id, delay_ms, remaining_ms)
        )

    def _on_initial_delay(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result[None]:
        """The initial delay is over: wait as long again if somebody has joined meanwhile, or begin."""
        group = self._find(group_id)
        if group is None:
            return Result(None)
        if group.has_new_member and remaining_ms:
            group.has_new_member = False
            next_ms = min(self._shard.config.group_initial_rebalance_delay_ms, remaining_ms)
            self._schedule_initial(group_id, next_ms, max(remaining_ms - delay_ms, 0))
            return Result(None)
        return self.complete_join(group)

    # Completing

    def complete_if_all_joined(self, group: ClassicGroup) -> Result[None]:
        # The initial rebalance always takes its time.
        if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.has_all_joined:
            return self.complete_join(group)
        return Result(None)

    def complete_join(self, group: ClassicGroup) -> Result[None]:
        """Begin the next generation with those who have joined; static members are given until their session ends."""
        group_id = group.group_id
        self._timers.cancel(_join_key(group_id))
        silent = [one for one in group.members.values() if one.awaiting_join is None and not one.is_static]
        for member in silent:
            group.remove(member.member_id)
            self.end_session(member)
        if silent:
            log.info("[%s] Group %s removed dynamic members who haven't joined: %s", self._shard.name, group_id,
                     ", ".join(member.member_id for member in silent))  # fmt: skip
        leader_id = group.leader_id
        if not group.elect_leader_among_joined() and group.members:
            log.warning("[%s] Group %s could not complete rebalance because no members rejoined",
                      self._shard.name, group_id)  # fmt: skip
            self._schedule_join(group)
            return Result(None)
        if group.leader_id != leader_id:
            log.info("[%s] Group leader %s of group %s failed to join before the rebalance timeout; member %s was "
                     "elected as the new leader", self._shard.name, leader_id, group_id, group.leader_id)  # fmt: skip
        group.begin_generation(self._now_ms)
        if group.state is EMPTY:
            log.info("[%s] Group %s with generation %d is now empty", self._shard.name, group_id, group.generation)
            return Result(None, [generation_record(group, {})], partial(self._on_emptied, group))
        log.info("[%s] Stabilized group %s generation %d with %d members", self._shard.name, group_id,
                 group.generation, len(group.members))  # fmt: skip
        for member in group.members.values():
            response = group.joined(member.member_id, with_members=member.member_id == group.leader_id)
            group.answer_join(member, response)
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        self._timers.schedule(
            _sync_key(group_id),
            group.rebalance_timeout_ms,
            partial(self._on_sync_timeout, group_id, group.generation),
        )
        return Result(None)

    def _on_emptied(self, group: ClassicGroup, error: BaseException | None) -> None:
        # Without it the generation before becomes this one at the next start, and its members time out.
        if error is not None:
            log.warning("[%s] Failed to write empty metadata for group %s: %s", self._shard.name, group.group_id, error)

    def refuse_syncs(self, group: ClassicGroup, code: int) -> None:
        """Those who wait for an assignment are told that it will not come; what they had counts no more."""
        assert group.state is COMPLETING_REBALANCE, f"group {group.group_id} is {group.state_name}"
        for member in group.members.values():
            member.assignment = b""
            if group.answer_sync(member, SyncGroupResponse(error_code=code)):
                self.renew_session(group, member)

    def on_synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has asked for its assignment; with the last one the time-out for it ends."""
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group.group_id))

    def _on_sync_timeout(self, group_id: str, generation: int) -> Result[None]:
        group = self._find(group_id)
        if group is None or generation != group.generation or group.state not in (COMPLETING_REBALANCE, STABLE):
            return Result(None)
        missing = list(group.pending_syncs)
        if not missing:
            return Result(None)
        for member_id in missing:
            self.end_session(group.members[member_id])
            group.remove(member_id)
        return self.prepare(group, f"Removing {', '.join(missing)} on pending sync request expiration")

    # Sessions

    def renew_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """The member was heard of, or its wait for us has ended."""
        self.schedule_session(group, member, member.session_timeout_ms)

    def schedule_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int) -> None:
        if member.on_session_end is None:
            member.session_key = _session_key(group.group_id, member.member_id)
            member.on_session_end = partial(self._on_session_end, group.group_id, member.member_id)
        self._timers.schedule(member.session_key, timeout_ms, member.on_session_end)

    def await_member(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Somebody was given a member id and is to join with it in time."""
        group.pending_joins[member_id] = None
        self._timers.schedule(
            _session_key(group.group_id, member_id),
            timeout_ms,
            partial(self._on_session_end, group.group_id, member_id),
        )

    def end_session(self, member: ClassicMember) -> None:
        self._timers.cancel(member.session_key)

    def end_awaiting(self, group: ClassicGroup, member_id: str) -> None:
        """Somebody who was given a member id does not want it."""
        group.remove(member_id)
        self._timers.cancel(_session_key(group.group_id, member_id))

    def _on_session_end(self, group_id: str, member_id: str) -> Result[None]:
        group = self._find(group_id)
        if group is None:
            return Result(None)
        if member_id in group.pending_joins:
            log.info("[%s] Pending member %s in group %s has been removed after session timeout expiration",
                     self._shard.name, member_id, group_id)  # fmt: skip
            group.remove(member_id)
            if group.state is PREPARING_REBALANCE and group.has_all_joined:
                return self.complete_join(group)
            return Result(None)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return Result(None)
        log.info("[%s] Member %s in group %s has failed, removing it from the group", self._shard.name, member_id,
                 group_id)  # fmt: skip
        self.remove(group, member)
        if group.state in (STABLE, COMPLETING_REBALANCE):
            return self.prepare_or_complete(group, f"removing member {member_id} on heartbeat expiration")
        if group.state is PREPARING_REBALANCE and group.has_all_joined:
            return self.complete_join(group)
        return Result(None)

    def remove(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Take a member out; if it waits to join it is told that it is unknown, so that it joins anew."""
        group.answer_join(member, JoinGroupResponse(error_code=UnknownMemberId.code))
        group.remove(member.member_id)

    def store_failed(self, group: ClassicGroup, member_id: str, error: BaseException) -> None:
        """The leader's assignment could not be written: nobody gets one, and all join again."""
        if isinstance(error, KafkaError):
            code = error.code
        else:
            code = UnknownServerError.code
            log.error("[%s] The assignment of group %s could not be stored", self._shard.name, group.group_id,
                      exc_info=error)  # fmt: skip
        self.refuse_syncs(group, code)
        self.prepare_or_complete(
            group, f"Error {error} when storing group assignment during SyncGroup (member: {member_id})"
        )


def _join_key(group_id: str) -> str:
    return f"join-{group_id}"


def _sync_key(group_id: str) -> str:
    return f"sync-{group_id}"


def _session_key(group_id: str, member_id: str) -> str:
    return f"heartbeat-{group_id}-{member_id}"

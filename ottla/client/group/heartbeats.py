"""Heartbeats of the new protocols, of consumer groups (KIP-848) and share groups (KIP-932): when, and what comes back.

Promises: one heartbeat at a time; the next is due after the coordinator's own interval, or at once when the member has
something to tell; one that fails is sent again after a backoff, to another coordinator where there is one. What an
answer means is the member's to say, what follows from it the membership's. Called by both memberships.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ottla.client.errors import as_kafka_error
from ottla.client.group.context import Coordination
from ottla.client.metrics import HeartbeatMetrics
from ottla.client.network import Build
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    InvalidRegularExpression,
    KafkaError,
    NotCoordinator,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnsupportedVersion,
    error_class,
)
from ottla.world import Promise, Task

log = logging.getLogger(__name__)

FIRST_INTERVAL_MS = 5_000
"""Until the coordinator tells its own."""
HURRY_MS, HURRIES_MAX = 100, 5
"""A member that has joined and got nothing asks again soon, a few times: coordinators share out a moment after they
have answered the join, and a consumer would otherwise begin only an interval later."""


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    """There is a target that is not carried out yet."""
    ACKNOWLEDGING = "acknowledging"
    """What was carried out is told with the next heartbeat, which is due at once."""
    STABLE = "stable"
    FENCED = "fenced"
    """Out of the group; joins again when everything is let go of."""
    STALE = "stale"
    """Left because the user does not poll; joins again with the next poll."""
    FATAL = "fatal"
    """Refused for good: the user must act."""


class Beat(Enum):
    """How to go on after a heartbeat."""

    GO_ON = "go on"
    FIND = "find"
    """Another coordinator is to be looked for."""
    RETRY = "retry"
    LET_GO = "let go"
    """The member is out: everything it owned is lost; then `rejoin`."""
    TELL = "tell"
    """The user must hear of it; heartbeats go on."""
    FAIL = "fail"
    """The user must hear of it, and the member is out for good."""


@dataclass(frozen=True, slots=True)
class BeatVerdict:
    next: Beat
    error: KafkaError | None = None


GO_ON = BeatVerdict(Beat.GO_ON)


class BeatingMember(Protocol):
    """A member, as far as its heartbeats go."""

    @property
    def joins(self) -> int: ...

    @property
    def is_in_group(self) -> bool: ...

    @property
    def must_heartbeat_now(self) -> bool: ...

    @property
    def has_nothing(self) -> bool:
        """Whether nothing is assigned to it."""
        ...

    def heartbeat_request(self) -> Build: ...

    def on_heartbeat(self, response: Any, joins: int, /) -> BeatVerdict: ...

    def on_lost(self) -> None: ...

    def on_refused(self, error: KafkaError, /) -> BeatVerdict: ...


class Heartbeats:
    """The heartbeats of one member, while it is in the group."""

    def __init__(
        self,
        coordination: Coordination,
        member: BeatingMember,
        metrics: HeartbeatMetrics,
        carry_out: Callable[[BeatVerdict], None],
    ) -> None:
        self._coordination = coordination
        self._world = coordination.world
        self._member = member
        self._metrics = metrics
        self._carry_out = carry_out
        self._interval_ms: float = FIRST_INTERVAL_MS
        self._task: Task[None] | None = None
        self._number = 0
        self._hurries = 0
        self._alarm: Promise[None] | None = None

    def beat(self) -> None:
        """Begin, or send the next one now."""
        if self._task is None:
            self._number += 1
            self._hurries = 0
            name = f"[{self._coordination.name}] heartbeats"
            self._task = self._world.tasks.spawn(self._beating(self._number), name)
        else:
            self.wake()

    def wake(self) -> None:
        """There may be something to tell."""
        if self._alarm is not None and not self._alarm.done() and self._member.must_heartbeat_now:
            self._alarm.set_result(None)

    def stop(self) -> None:
        """Send no more until `beat`."""
        self._number += 1
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _beating(self, number: int) -> None:
        failures = 0
        while self._is_needed(number):
            verdict = await self._one()
            if verdict.next in (Beat.RETRY, Beat.FIND):
                log.info("[%s] A heartbeat failed: %s Trying again", self._coordination.name, verdict.error)
                await self._world.tasks.sleep_ms(self._coordination.network.retry_backoff.delay_ms(failures))
                failures += 1
                continue
            failures = 0
            if not self._is_needed(number):
                self._task = None  # a member that joins again begins anew
                self._carry_out(verdict)
                return
            self._carry_out(verdict)
            if self._is_needed(number) and not self._member.must_heartbeat_now:
                await self._rest()
        if number == self._number:
            self._task = None

    def _is_needed(self, number: int) -> bool:
        return number == self._number and self._member.is_in_group

    async def _one(self) -> BeatVerdict:
        """One heartbeat and what its answer means."""
        member = self._member
        joins = member.joins
        begun_ms = self._world.clock.monotonic_ms()
        self._metrics.heartbeat_sent()
        try:
            response = await self._coordination.ask(member.heartbeat_request(), None)
            self._metrics.heartbeat_answered(self._world.clock.monotonic_ms() - begun_ms)
            self._interval_ms = response.heartbeat_interval_ms or self._interval_ms
            self._coordination.note(response.error_code)
            return member.on_heartbeat(response, joins)
        except Exception as raised:  # noqa: BLE001  it is told to the user
            error = as_kafka_error(raised, "A heartbeat could not be sent, or its response not be read")
            member.on_lost()
            return BeatVerdict(Beat.RETRY, error) if error.retriable else member.on_refused(error)

    async def _rest(self) -> None:
        """Until the next heartbeat is due."""
        alarm = self._alarm = self._world.tasks.promise()
        wait_ms = self._interval_ms
        if self._member.has_nothing and self._hurries < HURRIES_MAX:
            wait_ms = min(wait_ms, HURRY_MS * 2.0**self._hurries)
            self._hurries += 1
        timer = self._world.tasks.later(wait_ms, lambda: None if alarm.done() else alarm.set_result(None))
        try:
            await alarm
        finally:
            timer.cancel()


def refused(error_code: int, message: str | None, group_id: str) -> BeatVerdict:
    """What a coordinator's error means for a member of either protocol."""
    kind = error_class(error_code)
    error = kind(message) if message else kind()
    match error:
        case NotCoordinator() | CoordinatorNotAvailable():
            return BeatVerdict(Beat.FIND, error)
        case CoordinatorLoadInProgress():
            return BeatVerdict(Beat.RETRY, error)
        case FencedMemberEpoch() | UnknownMemberId():
            return BeatVerdict(Beat.LET_GO, error)
        case TopicAuthorizationFailed():
            return BeatVerdict(Beat.TELL, error)
        case GroupAuthorizationFailed():
            return BeatVerdict(Beat.FAIL, GroupAuthorizationFailed(f"Not authorized to access group: {group_id}"))
        case InvalidRegularExpression():
            reason = f"The pattern of the subscription is not valid RE2: {error}"
            return BeatVerdict(Beat.FAIL, InvalidRegularExpression(reason))
        case GroupIdNotFound():
            return BeatVerdict(Beat.FAIL, GroupIdNotFound(f"Group {group_id} is a group of another protocol: {error}"))
        case UnsupportedVersion():
            reason = f"The cluster does not support the protocol of group {group_id}: {error}"
            return BeatVerdict(Beat.FAIL, UnsupportedVersion(reason))
        case _:
            return BeatVerdict(Beat.RETRY if error.retriable else Beat.FAIL, error)

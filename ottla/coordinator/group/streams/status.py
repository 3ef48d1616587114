"""What a heartbeat's answer says of the group besides the member's tasks: why there are none yet, and what to do."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """The codes of StreamsGroupHeartbeat's statuses."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopicProblem(Exception):
    """The topics that a topology needs are not there, or not as it needs them. Its members are told and wait."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

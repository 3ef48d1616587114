"""A member of a share group, as transcripts: tests/transcripts/client_share.

subscribe t,u | join | beat | beaten ERROR epoch=1 assign=A:0,1;B:0 | lost | refused | stale | leave
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.share.share_member import ShareMember
from ottla.errors import UnsupportedVersion
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.transcript import check, transcripts
from tests.unit.client.group.member_players import code_of, options_of, told, topic_id


class Player:
    def __init__(self) -> None:
        self.member = ShareMember("g", "m", rack="r1")
        self._joins = 0

    def execute(self, command: str) -> list[str]:
        verb, *words = command.split()
        plain, options = options_of(words)
        lines: list[str] = getattr(self, f"_{verb}")(plain, options)
        return lines

    def _state(self) -> str:
        member = self.member
        target = [
            f"{bytes(key).strip(bytes(1)).decode()}:{','.join(map(str, found))}" for key, found in member.target.items()
        ]
        due = ", heartbeat due" if member.must_heartbeat_now else ""
        return f"{member.state.value} epoch {member.epoch} has {';'.join(target) or 'nothing'}{due}"

    def _subscribe(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.subscribe(tuple(plain[0].split(",")))
        return [self._state()]

    def _join(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.join()
        return [self._state()]

    def _beat(self, plain: list[str], options: dict[str, str]) -> list[str]:
        request = self.member.heartbeat_request().make(1)
        assert isinstance(request, ShareGroupHeartbeatRequest)
        self._joins = self.member.joins
        return [_heartbeat(request)]

    def _beaten(self, plain: list[str], options: dict[str, str]) -> list[str]:
        assignment = None
        if "assign" in options:
            pairs = [one.partition(":")[::2] for one in options["assign"].split(";") if one]
            assignment = Assignment(
                [TopicPartitions(topic_id(name), [int(one) for one in found.split(",")]) for name, found in pairs]
            )
        response = ShareGroupHeartbeatResponse(
            error_code=code_of(plain[0]), member_epoch=int(options.get("epoch", 0)), assignment=assignment
        )
        return [told(self.member.on_heartbeat(response, self._joins)), self._state()]

    def _lost(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.on_lost()
        return [self._state()]

    def _refused(self, plain: list[str], options: dict[str, str]) -> list[str]:
        verdict = self.member.on_refused(UnsupportedVersion())
        return [told(verdict), str(verdict.error), self._state()]

    def _stale(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.begin_stale()
        return [self._state()]

    def _leave(self, plain: list[str], options: dict[str, str]) -> list[str]:
        request = self.member.leave_request()
        return ["nothing to say" if request is None else _heartbeat(request), self._state()]


def _heartbeat(request: ShareGroupHeartbeatRequest) -> str:
    topics = "" if request.subscribed_topic_names is None else f" topics [{','.join(request.subscribed_topic_names)}]"
    rack = "" if request.rack_id is None else f" rack {request.rack_id}"
    return f"ShareGroupHeartbeat epoch {request.member_epoch} as {request.member_id}{rack}{topics}"


@pytest.mark.parametrize("path", transcripts("client_share"), ids=lambda path: path.stem)
def test_a_member_of_a_share_group_does_as_written(path: Path, rewrite: bool) -> None:
    check(path, Player().execute, rewrite=rewrite)

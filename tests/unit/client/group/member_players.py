"""Plays transcripts of members: tests/transcripts/client_classic and client_consumer.

A member is asked for requests, which are printed, and is brought answers, after which its state is printed. What an
answer was sent as is what the last request of that kind said, so that late answers can be told apart.

Classic:   join | joined ERROR gen=1 member=m leader=m protocol=range | sync [m:x,..] | synced ERROR | beat
           beaten ERROR | commit | committed ERROR | leave why | rejoin why
Consumer:  subscribe t,u [regex=..] | join | beat | beaten ERROR epoch=1 assign=A:0,1;B:0 | reconciled [A:0] | lost
           refused | commit | committed ERROR | stale | leave [keep]
"""

from __future__ import annotations

from ottla.client.group.classic_member import ClassicMember, Verdict
from ottla.client.group.commits import Identity
from ottla.client.group.consumer_member import ConsumerMember, Local
from ottla.client.group.heartbeats import BeatVerdict
from ottla.client.group.interface import Subscription
from ottla.errors import KafkaError, UnsupportedVersion
from ottla.errors import error_class as class_of
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


def code_of(name: str) -> int:
    """The code of an error by its name; OK is 0."""
    if name == "OK":
        return 0
    found = [code for code in range(-1, 140) if code and class_of(code).name == name]
    assert found, f"there is no error {name}"
    return found[0]


def options_of(words: list[str]) -> tuple[list[str], dict[str, str]]:
    options = {name: value for name, sign, value in (word.partition("=") for word in words) if sign}
    return [word for word in words if "=" not in word], options


def told(verdict: Verdict | BeatVerdict) -> str:
    name = "" if verdict.error is None else f": {verdict.error.name}"
    return f"{verdict.next.value}{name}"


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"\0"))


class ClassicPlayer:
    def __init__(self, instance_id: str | None) -> None:
        self.member = ClassicMember(
            "g", instance_id=instance_id, session_timeout_ms=45_000, rebalance_timeout_ms=300_000
        )
        self._sent = {"sync": Identity(), "beat": Identity(), "commit": Identity()}

    def execute(self, command: str) -> list[str]:
        verb, *words = command.split()
        plain, options = options_of(words)
        lines: list[str] = getattr(self, f"_{verb}")(plain, options)
        return lines

    def _state(self) -> str:
        member = self.member
        place = f"{member.state.value} generation {member.generation_id} as {member.member_id or '-'}"
        return place + ("" if member.rejoin_reason is None else f", rejoins: {member.rejoin_reason or '-'}")

    def _join(self, plain: list[str], options: dict[str, str]) -> list[str]:
        request = self.member.join_request([("range", b"")])
        return [
            f"JoinGroup as {request.member_id or '-'} instance {request.group_instance_id or '-'}: {request.reason}"
        ]

    def _joined(self, plain: list[str], options: dict[str, str]) -> list[str]:
        response = JoinGroupResponse(
            error_code=code_of(plain[0]),
            generation_id=int(options.get("gen", -1)),
            protocol_type=options.get("type", "consumer"),
            protocol_name=options.get("protocol", "range"),
            leader=options.get("leader", ""),
            member_id=options.get("member", ""),
        )
        leads = ["leads"] if not response.error_code and response.leader == response.member_id else []
        return [told(self.member.on_join(response)), self._state(), *leads]

    def _sync(self, plain: list[str], options: dict[str, str]) -> list[str]:
        pairs = [one.partition(":")[::2] for one in (plain[0].split(",") if plain else [])]
        request = self.member.sync_request([(member, data.encode()) for member, data in pairs])
        self._sent["sync"] = self.member.identity
        return [f"SyncGroup generation {request.generation_id} as {request.member_id}, {len(pairs)} assignments"]

    def _synced(self, plain: list[str], options: dict[str, str]) -> list[str]:
        response = SyncGroupResponse(error_code=code_of(plain[0]), protocol_name=options.get("protocol"))
        return [told(self.member.on_sync(response, self._sent["sync"])), self._state()]

    def _beat(self, plain: list[str], options: dict[str, str]) -> list[str]:
        request = self.member.heartbeat_request()
        self._sent["beat"] = self.member.identity
        return [f"Heartbeat generation {request.generation_id} as {request.member_id}"]

    def _beaten(self, plain: list[str], options: dict[str, str]) -> list[str]:
        return [told(self.member.on_heartbeat(code_of(plain[0]), self._sent["beat"])), self._state()]

    def _commit(self, plain: list[str], options: dict[str, str]) -> list[str]:
        try:
            sent = self._sent["commit"] = self.member.commit_as()
        except KafkaError as error:
            return [f"refused: {type(error).__name__}"]
        return [f"OffsetCommit generation {sent.generation_id} as {sent.member_id}"]

    def _committed(self, plain: list[str], options: dict[str, str]) -> list[str]:
        error = self.member.commit_refused(class_of(code_of(plain[0]))(), self._sent["commit"])
        return [f"the user hears {type(error).__name__}", self._state()]

    def _rejoin(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.request_rejoin(" ".join(plain))
        return [self._state()]

    def _leave(self, plain: list[str], options: dict[str, str]) -> list[str]:
        make = self.member.leave_request(" ".join(plain))
        if make is None:
            return ["nothing to say", self._state()]
        old, new = make(2), make(5)
        identity = new.members[0]
        return [
            f"LeaveGroup as {identity.member_id} instance {identity.group_instance_id or '-'}: {identity.reason}",
            f"or, before version 3, as {old.member_id}",
            self._state(),
        ]


class ConsumerPlayer:
    def __init__(self, instance_id: str | None) -> None:
        self.member = ConsumerMember(
            "g", "m", instance_id=instance_id, rack="r1", rebalance_timeout_ms=300_000, assignor="uniform"
        )
        self._joins = 0
        self._sent = Identity()

    def execute(self, command: str) -> list[str]:
        verb, *words = command.split()
        plain, options = options_of(words)
        lines: list[str] = getattr(self, f"_{verb}")(plain, options)
        return lines

    def _state(self) -> str:
        member = self.member
        now = ", heartbeat due" if member.must_heartbeat_now else ""
        return f"{member.state.value} epoch {member.epoch} owns {_partitions(member.current.partitions)}{now}"

    def _subscribe(self, plain: list[str], options: dict[str, str]) -> list[str]:
        topics = tuple(plain[0].split(",")) if plain else ()
        self.member.subscribe(Subscription(topics, options.get("regex")))
        return [self._state()]

    def _join(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.join()
        return [self._state()]

    def _beat(self, plain: list[str], options: dict[str, str]) -> list[str]:
        build = self.member.heartbeat_request()
        self._joins = self.member.joins
        request = build.make(1)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return [_heartbeat(request) + (f" (version {build.version_min} or later)" if build.version_min else "")]

    def _beaten(self, plain: list[str], options: dict[str, str]) -> list[str]:
        assignment = None
        if "assign" in options:
            pairs = [one.partition(":")[::2] for one in options["assign"].split(";") if one]
            assignment = Assignment(
                [TopicPartitions(topic_id(name), [int(one) for one in found.split(",")]) for name, found in pairs]
            )
        response = ConsumerGroupHeartbeatResponse(
            error_code=code_of(plain[0]), member_epoch=int(options.get("epoch", 0)), assignment=assignment
        )
        return [told(self.member.on_heartbeat(response, self._joins)), self._state()]

    def _reconciled(self, plain: list[str], options: dict[str, str]) -> list[str]:
        target = self.member.target
        if plain:
            name, _, found = plain[0].partition(":")
            target = Local(target.number, {topic_id(name): tuple(int(one) for one in found.split(","))})
        self.member.reconciled(target)
        return [self._state()]

    def _lost(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.on_lost()
        return [self._state()]

    def _refused(self, plain: list[str], options: dict[str, str]) -> list[str]:
        verdict = self.member.on_refused(UnsupportedVersion())
        return [told(verdict), str(verdict.error)]

    def _stale(self, plain: list[str], options: dict[str, str]) -> list[str]:
        self.member.begin_stale()
        return [self._state()]

    def _commit(self, plain: list[str], options: dict[str, str]) -> list[str]:
        try:
            self._sent = self.member.commit_as()
        except KafkaError as error:
            return [f"refused: {type(error).__name__}"]
        return [f"OffsetCommit epoch {self._sent.generation_id} as {self._sent.member_id or '-'}"]

    def _committed(self, plain: list[str], options: dict[str, str]) -> list[str]:
        error = self.member.commit_refused(class_of(code_of(plain[0]))(), self._sent)
        return [f"the commit ends with {type(error).__name__}", self._state()]

    def _leave(self, plain: list[str], options: dict[str, str]) -> list[str]:
        request = self.member.leave_request(keep_place=bool(plain))
        return ["nothing to say" if request is None else _heartbeat(request), self._state()]


def _heartbeat(request: ConsumerGroupHeartbeatRequest) -> str:
    parts = [f"ConsumerGroupHeartbeat epoch {request.member_epoch} as {request.member_id}"]
    if request.instance_id is not None:
        parts.append(f"instance {request.instance_id}")
    if request.rack_id is not None:
        parts.append(f"rack {request.rack_id}")
    if request.rebalance_timeout_ms >= 0:
        parts.append(f"rebalance {request.rebalance_timeout_ms}")
    if request.server_assignor is not None:
        parts.append(f"assignor {request.server_assignor}")
    if request.subscribed_topic_names is not None:
        parts.append(f"topics [{','.join(request.subscribed_topic_names)}]")
    if request.subscribed_topic_regex is not None:
        parts.append(f"regex '{request.subscribed_topic_regex}'")
    if request.topic_partitions is not None:
        owned = {Uuid(one.topic_id): tuple(one.partitions) for one in request.topic_partitions}
        parts.append(f"owns {_partitions(owned)}")
    return " ".join(parts)


def _partitions(found: object) -> str:
    assert hasattr(found, "items")
    names = [f"{bytes(key).strip(bytes(1)).decode()}:{','.join(map(str, value))}" for key, value in found.items()]
    return ";".join(names) or "nothing"

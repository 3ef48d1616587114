"""Plays transcripts of classic groups: tests/transcripts/classic_group.

Members have short names, and what is printed has the names in the place of their ids. Options are `name=value`; `v` is
the API's version. A request that waits prints nothing; its answer is printed below the command that brought it about.

    join a instance=i protocols=range:t+u,sticky:t session=1000 rebalance=2000 reason=... v=9
    enter a b            join, and again with the member id that was given, one after the other
    sync a assign=a:x,b:y gen=1       heartbeat a gen=1       leave a,b@i,@i       wait 500
    commit a t-0=5/metadata gen=1     ('-' for somebody outside of the group)
    fetch t-0 t-1 | fetch all [stable]        describe | list [states=] [types=] | delete | delete-offsets t-0
"""

from __future__ import annotations

from typing import Any

from ottla.errors import KafkaError, MemberIdRequired, error_class
from ottla.types import ZERO_UUID
from ottla.wire import Message, encode
from ottla.wire.data.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor

TOOL = "-"
"""The name of somebody outside of the group."""


class LateAnswer(AssertionError):
    """An answer that a transcript goes on from is not there yet."""


class Player:
    """One transcript's group, over a door."""

    def __init__(self, door: VirtualDoor | SocketDoor, group: str) -> None:
        self._door = door
        self._group = group
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._generation = -1
        self._protocol: str | None = None
        self._owed = 0
        """How many answers a real broker is waited for."""

    def execute_expecting(self, command: str, lines: list[str]) -> list[str]:
        """The same for a broker on real time, which may be slow: what the transcript has is waited for."""
        verb, *words = command.split()
        if verb in ("join", "sync", "heartbeat", "wait", "enter"):
            self._owed = len(lines)  # a line an answer
        elif verb == "leave":
            self._owed = max(1, 1 + len(lines) - len(words[0].split(",")))
        else:
            self._owed = 1
        return self.execute(command)

    def execute(self, command: str) -> list[str]:
        """Carry a command out; returns what is answered until things have settled."""
        verb, *words = command.split()
        options = {name: value for name, _, value in (word.partition("=") for word in words) if value}
        plain = [word for word in words if "=" not in word]
        if verb == "wait":
            self._door.run_ms(float(plain[0]))
            return self._settled()
        if verb == "enter":
            return [line for who in plain for line in self._enter(who, options)]
        version = int(options.pop("v", "-1"))
        getattr(self, f"_{verb.replace('-', '_')}")(plain, options, version)
        return self._settled()

    def _settled(self) -> list[str]:
        self._door.run_ms(self._door.settle_ms)
        if isinstance(self._door, SocketDoor):
            self._door.await_answers(self._owed)
        answers = sorted(self._door.answers(), key=lambda one: one[0])
        for who, response in answers:
            if isinstance(response, JoinGroupResponse):
                self._note_id(who, response)
        return [line for who, response in answers for line in self._told(who, response)]

    def _enter(self, who: str, options: dict[str, str]) -> list[str]:
        """Both joins of a new member; the first one's answer goes without saying."""
        self._ids.pop(who, None)
        owed, self._owed = self._owed, 1
        self._join([who], dict(options), -1)
        told = self._settled()
        self._owed = owed
        given = f"{who}: MEMBER_ID_REQUIRED {who}"
        if given not in told:
            raise LateAnswer(f"{who} was to be given a member id: {told}")
        self._join([who], dict(options), -1)
        return [line for line in told if line != given] + self._settled()

    def _group_id(self, options: dict[str, str]) -> str:
        """The transcript's group, unless the command names another one: `group=none` has no name."""
        return options.get("group", self._group).replace("none", "")

    def _begin(self, who: str, request: Message, version: int, default: int) -> None:
        self._door.begin(who, request, default if version < 0 else version)

    # Membership

    def _id(self, who: str, options: dict[str, str]) -> str:
        """The member's id, unless the command gives another one: `id=none` has none."""
        told = options.get("id")
        if told is None:
            return self._ids.get(who, "")
        return "" if told == "none" else self._ids.get(told, told)

    def _join(self, plain: list[str], options: dict[str, str], version: int) -> None:
        (who,) = plain
        protocols = [
            JoinGroupRequestProtocol(name, _subscription(topics.split("+")))
            for name, _, topics in (one.partition(":") for one in options.get("protocols", "range:t").split(","))
            if name != "none"
        ]
        request = JoinGroupRequest(
            self._group_id(options),
            int(options.get("session", 10_000)),
            int(options.get("rebalance", 10_000)),
            self._id(who, options),
            options.get("instance"),
            options.get("type", "consumer").replace("none", ""),
            protocols,
            options.get("reason"),
        )
        self._begin(who, request, version, 9)

    def _sync(self, plain: list[str], options: dict[str, str], version: int) -> None:
        (who,) = plain
        assignments = [
            SyncGroupRequestAssignment(self._ids.get(name, name), data.encode())
            for name, _, data in (one.partition(":") for one in options.get("assign", "").split(",") if one)
        ]
        request = SyncGroupRequest(
            self._group_id(options),
            int(options.get("gen", self._generation)),
            self._id(who, options),
            options.get("instance"),
            None if options.get("type") == "none" else options.get("type", "consumer"),
            None if options.get("protocol") == "none" else options.get("protocol", self._protocol),
            assignments,
        )
        self._begin(who, request, version, 5)

    def _heartbeat(self, plain: list[str], options: dict[str, str], version: int) -> None:
        (who,) = plain
        generation = int(options.get("gen", self._generation))
        group = self._group_id(options)
        request = HeartbeatRequest(group, generation, self._id(who, options), options.get("instance"))
        self._begin(who, request, version, 4)

    def _leave(self, plain: list[str], options: dict[str, str], version: int) -> None:
        members = []
        for one in plain[0].split(","):
            name, _, instance = one.partition("@")
            members.append(MemberIdentity(self._ids.get(name, name), instance or None, options.get("reason")))
        if 0 <= version < 3:
            request = LeaveGroupRequest(self._group_id(options), member_id=members[0].member_id)
        else:
            request = LeaveGroupRequest(self._group_id(options), members=members)
        self._begin(TOOL, request, version, 5)

    # Offsets

    def _commit(self, plain: list[str], options: dict[str, str], version: int) -> None:
        (who,) = plain
        is_outside = who == TOOL
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for name, value in options.items():
            topic, dash, index = name.rpartition("-")
            if dash:
                offset, _, metadata = value.partition("/")
                one = OffsetCommitRequestPartition(int(index), int(offset), 3, _text(metadata))
                topics.setdefault(topic, OffsetCommitRequestTopic(topic, ZERO_UUID, [])).partitions.append(one)
        request = OffsetCommitRequest(
            self._group_id(options),
            int(options.get("gen", -1 if is_outside else self._generation)),
            self._id(who, options),
            options.get("instance"),
            int(options.get("retention", -1)),
            list(topics.values()),
        )
        self._begin(who, request, version, 9)

    def _fetch(self, plain: list[str], options: dict[str, str], version: int) -> None:
        topics: list[OffsetFetchRequestTopics] | None = None
        if plain[0] != "all":
            topics = [
                OffsetFetchRequestTopics(name.rpartition("-")[0], ZERO_UUID, [int(name.rpartition("-")[2])])
                for name in plain
                if name != "stable"
            ]
        group = OffsetFetchRequestGroup(self._group_id(options), None, -1, topics)
        request = OffsetFetchRequest(groups=[group], require_stable="stable" in plain)
        self._begin(TOOL, request, version, 9)

    def _delete_offsets(self, plain: list[str], options: dict[str, str], version: int) -> None:
        topics = [
            OffsetDeleteRequestTopic(
                name.rpartition("-")[0], [OffsetDeleteRequestPartition(int(name.rpartition("-")[2]))]
            )
            for name in plain
        ]
        self._begin(TOOL, OffsetDeleteRequest(self._group_id(options), topics), version, 0)

    # Administration

    def _describe(self, plain: list[str], options: dict[str, str], version: int) -> None:
        self._begin(TOOL, DescribeGroupsRequest([self._group_id(options)], False), version, 6)

    def _list(self, plain: list[str], options: dict[str, str], version: int) -> None:
        states, types = (options.get(name, "").split(",") if name in options else [] for name in ("states", "types"))
        self._begin(TOOL, ListGroupsRequest(states, types), version, 5)

    def _delete(self, plain: list[str], options: dict[str, str], version: int) -> None:
        self._begin(TOOL, DeleteGroupsRequest([self._group_id(options)]), version, 2)

    # What is printed

    def _told(self, who: str, response: Message) -> list[str]:
        match response:
            case JoinGroupResponse():
                return [f"{who}: {self._joined(who, response)}"]
            case SyncGroupResponse():
                assigned = f"assigned {bytes(response.assignment).decode()!r}"
                suffix = "".join(f" {one}" for one in (response.protocol_type, response.protocol_name) if one)
                return [f"{who}: {_name(response.error_code) or assigned}{suffix}"]
            case HeartbeatResponse():
                return [f"{who}: {_name(response.error_code) or 'alive'}"]
            case LeaveGroupResponse():
                return self._left(response)
            case DescribeGroupsResponse():
                return [line for group in response.groups for line in self._described(group)]
            case ListGroupsResponse():
                listed = [
                    f"{group.group_type} {group.group_state} {group.protocol_type or '-'}"
                    for group in response.groups
                    if group.group_id == self._group
                ]
                return [_name(response.error_code) or f"listed: {', '.join(listed) or 'nothing'}"]
            case DeleteGroupsResponse():
                return [_name(one.error_code) or "deleted" for one in response.results]
            case OffsetCommitResponse():
                return [
                    f"{topic.name}-{one.partition_index}: {_name(one.error_code) or 'committed'}"
                    for topic in response.topics
                    for one in topic.partitions
                ]
            case OffsetDeleteResponse():
                if response.error_code:
                    return [_name(response.error_code)]
                return [
                    f"{topic.name}-{one.partition_index}: {_name(one.error_code) or 'forgotten'}"
                    for topic in response.topics
                    for one in topic.partitions
                ]
            case OffsetFetchResponse():
                return _fetched(response)
        raise AssertionError(response)

    def _note_id(self, who: str, response: JoinGroupResponse) -> None:
        if response.error_code in (0, MemberIdRequired.code):
            self._ids[who] = response.member_id
            self._names[response.member_id] = who

    def _joined(self, who: str, response: JoinGroupResponse) -> str:
        if response.error_code:
            told = _name(response.error_code)
            if response.member_id:
                told += f" {self._named(response.member_id)}"
            return told + "".join(f" {one}" for one in (response.protocol_type, response.protocol_name) if one)
        self._generation = response.generation_id
        self._protocol = response.protocol_name
        told = (
            f"generation {response.generation_id} {response.protocol_type or '-'} {response.protocol_name} "
            f"as {self._named(response.member_id)}, led by {self._named(response.leader)}"
        )
        if response.members:
            told += ", with " + " ".join(sorted(self._member(one) for one in response.members))
        return told + (", assignment stays" if response.skip_assignment else "")

    def _member(self, member: Any) -> str:
        instance = "" if member.group_instance_id is None else f"@{member.group_instance_id}"
        return self._named(member.member_id) + instance

    def _named(self, member_id: str) -> str:
        return self._names.get(member_id, member_id)

    def _left(self, response: LeaveGroupResponse) -> list[str]:
        if response.error_code or not response.members:
            return [_name(response.error_code) or "left"]
        return [f"{self._member(one)}: {_name(one.error_code) or 'left'}" for one in response.members]

    def _described(self, group: Any) -> list[str]:
        words = [group.group_state, group.protocol_type, group.protocol_data, _name(group.error_code)]
        lines = [" ".join(word for word in words if word)]
        for member in sorted(group.members, key=lambda one: self._named(one.member_id)):
            metadata = f" metadata {len(member.member_metadata)} bytes" if member.member_metadata else ""
            lines.append(
                f"  {self._member(member)} of {member.client_id} at {member.client_host}{metadata}, "
                f"assigned {bytes(member.member_assignment).decode()!r}"
            )
        return lines


def _subscription(topics: list[str]) -> bytes:
    return b"\0\0" + bytes(encode(ConsumerProtocolSubscription(topics=topics), 0))


def _text(metadata: str) -> str | None:
    """`*100` stands for a hundred letters."""
    return "x" * int(metadata[1:]) if metadata.startswith("*") else metadata or None


def _name(code: int) -> str:
    """An error's name; empty for none."""
    if not code:
        return ""
    cls: type[KafkaError] = error_class(code)
    return cls.name


def _fetched(response: OffsetFetchResponse) -> list[str]:
    lines = []
    for group in response.groups:
        if group.error_code:
            lines.append(_name(group.error_code))
        found = sorted((topic.name, one.partition_index, one) for topic in group.topics for one in topic.partitions)
        for name, index, one in found:
            told = f"{one.committed_offset} epoch {one.committed_leader_epoch} {one.metadata!r}"
            lines.append(f"{name}-{index}: {_name(one.error_code) or told}")
    return lines or ["nothing"]

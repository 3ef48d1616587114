"""Plays the transcripts of Streams groups: heartbeats of a line, the answer, and the records that were written.

A task is written `subtopology-partition`. The topologies are `TOPOLOGIES` below, of an application named `app`. What
differs from run to run is left out (times, topic ids) or numbered (`$1` is the first hash of topics that was seen).
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from ottla.errors import error_class
from ottla.wire import Message
from ottla.wire.coordinator import GROUP
from ottla.wire.json_form import to_json
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.unit.coordinator.group.streams.doors import LOG, Door

COMMIT_VERSION = 9
_TIMES = re.compile(r"(, )?(assignmentTimestamp|commitTimestamp|topicId)=[^,}]*")
_HASH = re.compile(r"metadataHash=(-?[1-9][0-9]*)")


def _infos(*topics: tuple[str, int]) -> list[TopicInfo]:
    configs = [KeyValue("cleanup.policy", "compact")]
    return [TopicInfo(name, partitions, 0, configs) for name, partitions in topics]


TOPOLOGIES: dict[str, list[Subtopology]] = {
    "stateless": [Subtopology("0", ["words"], [], [], [], [], [])],
    "stateful": [Subtopology("0", ["words"], [], _infos(("app-store-changelog", 0)), [], [], [])],
    "counts": [
        Subtopology("0", ["words"], [], [], ["app-counts-repartition"], [], []),
        Subtopology("1", [], [], _infos(("app-counts-changelog", 0)), [], _infos(("app-counts-repartition", 0)), []),
    ],
    "join": [
        Subtopology("0", ["words", "more"], [], [], [], [], [CopartitionGroup([0, 1], [], [])]),
    ],
    "fixed": [
        Subtopology("0", ["more"], [], [], ["app-fixed-repartition"], [], []),
        Subtopology("1", ["words"], [], [], [], _infos(("app-fixed-repartition", 5)), [CopartitionGroup([0], [], [0])]),
    ],
    "loop": [
        Subtopology("0", [], [], [], ["app-b-repartition"], _infos(("app-a-repartition", 0)), []),
        Subtopology("1", [], [], [], ["app-a-repartition"], _infos(("app-b-repartition", 0)), []),
    ],
    "orphan": [Subtopology("0", ["words"], [], [], [], _infos(("app-x-repartition", 0)), [])],
    "internal": [Subtopology("0", [LOG], [], [], [], [], [])],
    "misnamed": [Subtopology("0", ["no/topic"], [], [], [], [], [])],
    "sized": [Subtopology("0", ["words"], [], _infos(("app-store-changelog", 3)), [], [], [])],
    "misconfigured": [
        Subtopology(
            "0",
            ["words"],
            [],
            [TopicInfo("app-store-changelog", 0, 0, [KeyValue("cleanup.policy", "bogus")])],
            [],
            [],
            [],
        )
    ],
    "regex": [Subtopology("0", [], ["w.*"], [], [], [], [])],
}


class Player:
    """Plays commands through a door."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.epochs: dict[str, int] = {}
        self.endpoint_epochs: dict[str, int] = {}
        self.hashes: dict[str, str] = {}

    def execute(self, line: str) -> list[str]:
        command, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        printed: list[str] = getattr(self, f"do_{command}")(*names, **options)
        return printed + [self._masked(_record(key, value)) for key, value in self.door.written()]

    def leave(self) -> None:
        """Let everybody leave, whoever they are by now."""
        for member in list(self.epochs):
            self.do_leave(member)

    # The broker

    def do_topic(self, name: str, partitions: str = "1") -> list[str]:
        self.door.create_topic(name, int(partitions))
        return []

    def do_delete(self, name: str) -> list[str]:
        self.door.delete_topic(name)
        return []

    def do_look(self, name: str) -> list[str]:
        """How many partitions a topic has."""
        count = self.door.partition_count(name)
        return [f"{name} has {count} partitions" if count else f"there is no {name}"]

    def do_set(self, **settings: str) -> list[str]:
        """Settings of the group; an empty value takes one back."""
        self.door.set_configs({name: value or None for name, value in settings.items()})
        return []

    def do_wait(self, duration_ms: str) -> list[str]:
        """Let time pass."""
        self.door.run_ms(int(duration_ms))
        return []

    def do_reload(self) -> list[str]:
        """Lose the partition and lead it again: what is not in the log is forgotten, and nothing else."""
        before = self.do_state()
        self.door.reload()
        assert self.do_state() == before, "the log says something else than the coordinator did"
        return []

    # Members

    def do_join(self, member: str, topology: str = "stateless", epoch: str = "0", **options: str) -> list[str]:
        """The first heartbeat of a member, or one after it was fenced."""
        request = StreamsGroupHeartbeatRequest(
            rebalance_timeout_ms=int(options.get("timeout", "60000")),
            topology=Topology(int(epoch), TOPOLOGIES[topology]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id=options.get("process", f"process-of-{member}"),
        )
        if "endpoint" in options:
            host, port = options["endpoint"].split(":")
            request.user_endpoint = Endpoint(host, int(port))
        if "tags" in options:
            request.client_tags = [KeyValue(*one.split(":")) for one in options["tags"].split(",")]
        self.epochs[member] = 0
        self.endpoint_epochs[member] = -1
        return self._send(member, request, **options)

    def do_heartbeat(self, member: str, **options: str) -> list[str]:
        """`owns=0-0,0-1` and `stands_by=` tell tasks; without them nothing has changed."""
        request = StreamsGroupHeartbeatRequest()
        if "owns" in options or "stands_by" in options:
            request.active_tasks = _tasks(options.get("owns", ""))
            request.standby_tasks = _tasks(options.get("stands_by", ""))
            request.warmup_tasks = []
        if "epoch" in options:
            self.epochs[member] = int(options["epoch"])
        if "endpoints" in options:
            self.endpoint_epochs[member] = int(options["endpoints"])
        return self._send(member, request, **options)

    def do_leave(self, member: str, **options: str) -> list[str]:
        self.epochs[member] = -1
        return self._send(member, StreamsGroupHeartbeatRequest(), **options)

    def do_bad(self, topology: str = "", **fields: str) -> list[str]:
        """A request that is refused for what it is: a topology, and fields that are other than those of a join."""
        request = StreamsGroupHeartbeatRequest(
            group_id="app",
            member_id="m1",
            rebalance_timeout_ms=60_000,
            topology=Topology(0, TOPOLOGIES[topology]) if topology else None,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process",
        )
        for name, value in fields.items():
            setattr(request, name, _field(name, value))
        return self._print(self.door.send(request, 0, "client"), "")

    def _send(self, member: str, request: StreamsGroupHeartbeatRequest, **options: str) -> list[str]:
        request.group_id = "app"
        request.member_id = member
        request.member_epoch = self.epochs.setdefault(member, 0)
        request.endpoint_information_epoch = self.endpoint_epochs.get(member, -1)
        request.shutdown_application = "shutdown" in options
        if "rack" in options:
            request.rack_id = options["rack"]
        return self._print(self.door.send(request, 0, options.get("client", "client")), member)

    def _print(self, response: Any, member: str) -> list[str]:
        if response.error_code:
            return [f"{error_class(response.error_code).name}: {response.error_message}"]
        self.epochs[member] = response.member_epoch
        self.endpoint_epochs[member] = response.endpoint_information_epoch
        printed = [f"epoch {response.member_epoch}, again in {response.heartbeat_interval_ms} ms"]
        if response.active_tasks is not None:
            printed.append(f"  runs {_text(response.active_tasks)}, stands by for {_text(response.standby_tasks)}")
        printed += [f"  status {status.status_code}: {status.status_detail}" for status in response.status]
        if response.partitions_by_user_endpoint is not None:
            printed.append(f"  endpoints of epoch {response.endpoint_information_epoch}:")
            printed += sorted(_endpoint(one) for one in response.partitions_by_user_endpoint)
        return printed

    # Looking

    def do_state(self) -> list[str]:
        """What the group is in, and what its members have and should have."""
        response: Any = self.door.send(StreamsGroupDescribeRequest(group_ids=["app"]), 0, "admin")
        (group,) = response.groups
        if group.error_code:
            return [f"{error_class(group.error_code).name}: {group.error_message}"]
        printed = [f"{group.group_state} in epoch {group.group_epoch}, target of epoch {group.assignment_epoch}"]
        for member in sorted(group.members, key=lambda member: member.member_id):
            has, should = member.assignment, member.target_assignment
            line = f"  {member.member_id} in epoch {member.member_epoch} {_has(has)}"
            printed.append(line if _has(has) == _has(should) else f"{line}; at its target it {_has(should)}")
        return printed

    def do_describe(self, group: str = "app") -> list[str]:
        """Everything that StreamsGroupDescribe tells."""
        response = self.door.send(StreamsGroupDescribeRequest(group_ids=[group]), 0, "admin")
        described: Any = to_json(response, 0)
        printed = []
        for one in described["groups"]:
            members, topology = one.pop("members"), one.pop("topology")
            members.sort(key=lambda member: str(member["memberId"]))
            printed += [_compact(one), *(f"  {_compact(member)}" for member in members)]
            if topology is not None:
                printed.append(f"  topology of epoch {topology['epoch']}")
                printed += [f"    {_compact(subtopology)}" for subtopology in topology["subtopologies"]]
        return printed

    def do_commit(self, member: str, topic: str, partition: str, epoch: str) -> list[str]:
        """Commit an offset as a member in that epoch."""
        partitions = [OffsetCommitRequestPartition(partition_index=int(partition), committed_offset=7)]
        request = OffsetCommitRequest(
            group_id="app",
            generation_id_or_member_epoch=int(epoch),
            member_id=member,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
        )
        response: Any = self.door.send(request, COMMIT_VERSION, "client")
        code = response.topics[0].partitions[0].error_code
        return [error_class(code).name if code else "committed"]

    def _masked(self, line: str) -> str:
        line = _TIMES.sub("", line)
        found = _HASH.search(line)
        if found is None:
            return line
        name = self.hashes.setdefault(found[1], f"${len(self.hashes) + 1}")
        return line.replace(found[0], f"metadataHash={name}")


def _record(key: Any, value: Any) -> str:
    read_key = GROUP.read_key(key)
    name = type(read_key).__name__.removesuffix("Key").removeprefix("StreamsGroup")
    who = getattr(read_key, "member_id", "")
    if value is None:
        return f"- {name} {who}".rstrip()
    message, version = GROUP.read_value(read_key, value)
    assert isinstance(message, Message)
    # Whoever wrote it, these are the bytes that we write.
    assert (GROUP.write_key(read_key), GROUP.write_value(message, version)) == (bytes(key), bytes(value))
    return f"+ {name} {who}{' ' if who else ''}{_compact(to_json(message, version))}"


def _compact(node: Any) -> str:
    """JSON without its quotes and its empty parts, for people."""
    if isinstance(node, dict):
        parts = [f"{key}={_compact(value)}" for key, value in node.items() if value not in ([], None, {})]
        return "{" + ", ".join(parts) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(_compact(one) for one in node) + "]"
    return str(node)


def _tasks(text: str) -> list[TaskIds]:
    found: dict[str, list[int]] = {}
    for one in text.split(",") if text else ():
        subtopology, partition = one.split("-")
        found.setdefault(subtopology, []).append(int(partition))
    return [TaskIds(id, partitions) for id, partitions in found.items()]


def _field(name: str, value: str) -> object:
    if value == "none":
        return None
    if name.endswith("offsets"):
        return [TaskOffset("0", int(value), 7)]
    if name.endswith("tasks"):
        return _tasks(value)
    return int(value) if value.lstrip("-").isdigit() else value


def _has(assignment: Any) -> str:
    return f"runs {_text(assignment.active_tasks)}, stands by for {_text(assignment.standby_tasks)}"


def _endpoint(one: Any) -> str:
    active, standby = (
        " ".join(f"{part.topic}:{sorted(part.partitions)}" for part in sorted(parts, key=lambda part: str(part.topic)))
        for parts in (one.active_partitions, one.standby_partitions)
    )
    return f"    {one.user_endpoint.host}:{one.user_endpoint.port} has [{active}], stands by for [{standby}]"


def _text(tasks: list[TaskIds]) -> str:
    return (
        " ".join(sorted(f"{one.subtopology_id}-{partition}" for one in tasks for partition in one.partitions))
        or "nothing"
    )

"""Plays the transcripts of Streams groups: heartbeats of a line, the answer, and the records that were written.

A task is written `subtopology-partition`. The topologies are `TOPOLOGIES` below, of an application named `app`.
"""

from __future__ import annotations

import shlex
from typing import Any

from ottla.errors import KafkaError, error_class
from ottla.records import batches
from ottla.replica import PartitionLog
from ottla.wire import Message
from ottla.wire.coordinator import GROUP
from ottla.wire.json_form import to_json
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
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
    TopicInfo,
    Topology,
)
from ottla.wire.metadata import FeatureLevelRecord
from tests.unit.replica.node import TestNode, topic_id

GROUP_CONFIG = 32
LOG = "__consumer_offsets"


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
    "regex": [Subtopology("0", [], ["w.*"], [], [], [], [])],
}


class Player:
    """One node with one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self.node: TestNode
        self.read_to = 0
        self.epochs: dict[str, int] = {}
        self.endpoint_epochs: dict[str, int] = {}

    def execute(self, line: str) -> list[str]:
        command, *words = shlex.split(line)
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        printed: list[str] = getattr(self, f"do_{command}")(*names, **options)
        return printed + self._written()

    def close(self) -> None:
        self.node.stop()

    # The node and its topics

    def do_node(self, **settings: str) -> list[str]:
        """A new node, with the broker's settings given."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.node = TestNode({"group.streams.assignment.interval.ms": "0", **given})
        self.node.publish(FeatureLevelRecord(name="streams.version", feature_level=1))
        self.node.create_topic(LOG)
        self.node.controller.answers[CreateTopicsRequest] = self._create
        self.refused: dict[str, tuple[int, str]] = {}
        self.is_creating = True
        self.asked: list[str] = []
        self.node.run_ms(1)
        return []

    def do_topic(self, name: str, partitions: str = "1") -> list[str]:
        self.node.create_topic(name, int(partitions))
        return []

    def do_delete(self, name: str) -> list[str]:
        self.node.delete_topic(name)
        return []

    def do_set(self, **settings: str) -> list[str]:
        """Settings of the group; an empty value takes one back."""
        for name, value in settings.items():
            self.node.set_config("app", name, value or None, kind=GROUP_CONFIG)
        return []

    def do_refuse(self, topic: str, reason: str) -> list[str]:
        """The controller will refuse to make that topic."""
        self.refused[topic] = 37, reason
        return []

    def do_wait(self, duration_ms: str) -> list[str]:
        """Let time pass."""
        self.node.run_ms(int(duration_ms))
        return self._asked()

    def do_reload(self) -> list[str]:
        """Lose the partition and lead it again: what is not in the log is forgotten."""
        before = self.do_state()
        self.node.groups.on_resigned(0)
        self.node.groups.on_elected(0, 1 + self.node.groups.runtime.image.offset)
        self.node.run_ms(10)
        assert self.do_state() == before, "the log says something else than the coordinator did"
        return []

    def _create(self, request: Any) -> CreateTopicsResponse:
        results = []
        for topic in request.topics:
            code, reason = self.refused.get(topic.name, (0, None))
            self.asked.append(
                f"the controller is asked for {topic.name} with {topic.num_partitions} partitions, replication "
                f"{topic.replication_factor}, {', '.join(f'{one.name}={one.value}' for one in topic.configs)}"
            )
            if not code:
                self.node.create_topic(topic.name, topic.num_partitions)
            results.append(CreatableTopicResult(name=topic.name, error_code=code, error_message=reason))
        return CreateTopicsResponse(topics=results)

    def _asked(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked

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
        if "tag" in options:
            request.client_tags = [KeyValue(*one.split(":")) for one in options["tag"].split(",")]
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
        return self._send(member, request, **options)

    def do_leave(self, member: str, **options: str) -> list[str]:
        self.epochs[member] = -1
        return self._send(member, StreamsGroupHeartbeatRequest(), **options)

    def do_bad(self, **fields: str) -> list[str]:
        """A request that is refused for what it is: fields of the request."""
        request = StreamsGroupHeartbeatRequest(group_id="app", member_id="m1", member_epoch=1)
        for name, value in fields.items():
            setattr(request, name, int(value) if value.lstrip("-").isdigit() else value)
        return self._answer(request, "")

    def _send(self, member: str, request: StreamsGroupHeartbeatRequest, **options: str) -> list[str]:
        request.group_id = "app"
        request.member_id = member
        request.member_epoch = self.epochs.setdefault(member, 0)
        request.endpoint_information_epoch = self.endpoint_epochs.get(member, -1)
        request.shutdown_application = "shutdown" in options
        if "rack" in options:
            request.rack_id = options["rack"]
        if "instance" in options:
            request.instance_id = options["instance"]
        return self._answer(request, member, options.get("client", "client")) + self._asked()

    def _answer(self, request: StreamsGroupHeartbeatRequest, member: str, client_id: str = "client") -> list[str]:
        try:
            response = self.node.send(request, 0, client_id=client_id)
        except KafkaError as error:  # what a session answers with the handler's `failed`
            return [f"{error.name}: {error.message}"]
        if response.error_code:
            return [f"{error_class(response.error_code).name}: {response.error_message}"]
        self.epochs[member] = response.member_epoch
        self.endpoint_epochs[member] = response.endpoint_information_epoch
        printed = [f"epoch {response.member_epoch}, again in {response.heartbeat_interval_ms} ms"]
        if response.active_tasks is not None:
            printed.append(f"  runs {_text(response.active_tasks)}, stands by for {_text(response.standby_tasks)}")
        printed += [f"  status {status.status_code}: {status.status_detail}" for status in response.status]
        for one in response.partitions_by_user_endpoint or ():
            active = " ".join(f"{part.topic}:{part.partitions}" for part in one.active_partitions)
            standby = " ".join(f"{part.topic}:{part.partitions}" for part in one.standby_partitions)
            printed.append(
                f"  endpoints {response.endpoint_information_epoch}: {one.user_endpoint.host}:{one.user_endpoint.port} "
                f"has [{active}] and stands by for [{standby}]"
            )
        return printed

    # Looking

    def do_state(self) -> list[str]:
        """What the group is in, and its members."""
        group = self.node.groups.read("app", "Look", lambda shard: shard.groups.get("app")).result()
        if group is None:
            return ["no group"]
        printed = [f"{group.state_name}, {group.type.value}"]
        for id, member in getattr(group, "members", {}).items():
            printed.append(
                f"  {id}: {member.state.name} in epoch {member.epoch}, {member.assigned}, gives up "
                f"{member.pending_revocation}"
            )
        return printed

    def do_describe(self, group: str = "app") -> list[str]:
        response = self.node.send(StreamsGroupDescribeRequest(group_ids=[group]), 0)
        described = to_json(response, 0)
        assert isinstance(described, dict)
        printed = []
        for one in described["groups"]:
            members, topology = one.pop("members"), one.pop("topology")
            printed += [str(one), *(f"  {member}" for member in members)]
            if topology is not None:
                printed.append(f"  topology epoch {topology['epoch']}")
                printed += [f"    {subtopology}" for subtopology in topology["subtopologies"]]
        return printed

    def do_commit(self, member: str, topic: str, partition: str, epoch: str) -> list[str]:
        """Commit an offset as a member in that epoch."""
        request = OffsetCommitRequest(
            group_id="app",
            generation_id_or_member_epoch=int(epoch),
            member_id=member,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id(topic),
                    partitions=[OffsetCommitRequestPartition(partition_index=int(partition), committed_offset=7)],
                )
            ],
        )
        try:
            response = self.node.send(request, 9)
        except KafkaError as error:
            return [f"{error.name}: {error.message}"]
        code = response.topics[0].partitions[0].error_code
        return [error_class(code).name if code else "committed"]

    def _written(self) -> list[str]:
        """The records that the log has beyond those already shown."""
        if self.node.groups.runtime.led_indexes != [0]:
            return []
        try:
            log = PartitionLog.of(self.node.replicas, LOG, 0)
            if log.log_end_offset <= self.read_to:
                return []
            data = log.read(self.read_to, bytes_max=1 << 20)
        except KafkaError as error:
            return [error.name]
        printed = []
        for batch in batches(data):
            for offset, _, key, value, _ in batch.rows():
                if offset >= self.read_to:
                    assert key is not None, "a record without a key"
                    printed.append(_record(key, value))
        self.read_to = log.log_end_offset
        return printed


def _record(key: Any, value: Any) -> str:
    read_key = GROUP.read_key(key)
    name = type(read_key).__name__.removesuffix("Key").removeprefix("StreamsGroup")
    who = getattr(read_key, "member_id", "")
    if value is None:
        return f"- {name} {who}".rstrip()
    message, version = GROUP.read_value(read_key, value)
    assert isinstance(message, Message)
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


def _text(tasks: list[TaskIds]) -> str:
    return " ".join(f"{one.subtopology_id}-{partition}" for one in tasks for partition in one.partitions) or "nothing"

"""Plays transcripts of consumer groups: tests/transcripts/consumer_group. Classic members are `classic_player`'s.

    beat a join topics=t+u regex=x.* instance=i rack=r assignor=range timeout=2000     a joins, with its name as its id
    beat a                   a minimal heartbeat in the epoch it was told; `epoch=`, `id=` say another
    beat a owns=t-0+t-1      it tells what it owns; `owns=none` is nothing, `owns=told` what it was told last
    beat a full              it tells everything again: what it joined with, and what it owns, or owned last
    beat a leave             for good; `away` for a while
    show                     ConsumerGroupDescribe
    records                  what was written since this was last asked
    create x 3      grow x 5      delete x      config consumer.session.timeout.ms=45000

Partitions are printed as `t-0`, and in records member ids, topic ids, hashes and times as what they stand for.
"""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from ottla.errors import error_class
from ottla.wire import Message, decode_prefix, encode
from ottla.wire.data.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ottla.wire.json_form import to_json
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.unit.coordinator.group.classic_player import TOOL, Player
from tests.unit.coordinator.group.clusters import Cluster
from tests.unit.coordinator.group.doors import SocketDoor, VirtualDoor

JOIN, LEAVE, AWAY = 0, -1, -2


class ConsumerPlayer(Player):
    """One transcript's group."""

    hides_hashes = True
    """Hashes of topics differ with their ids, which a broker chooses."""

    def __init__(self, door: VirtualDoor | SocketDoor, cluster: Cluster, group: str) -> None:
        super().__init__(door, group)
        self._cluster = cluster
        self._epochs: dict[str, int] = {}
        self._joined_with: dict[str, dict[str, str]] = {}
        self._owned: dict[str, str] = {}
        self._has: dict[str, str] = {}
        """What each member was told last: `owns=told`."""
        self._created: list[str] = []
        _, self._read_to = cluster.records(0)

    def take_over(self, other: ConsumerPlayer) -> None:
        """Go on with the members that another player has, perhaps with another broker."""
        self._ids, self._names, self._epochs = other._ids, other._names, other._epochs
        self._joined_with, self._owned, self._has = other._joined_with, other._owned, other._has
        self._generation, self._protocol = other._generation, other._protocol

    def close(self) -> None:
        for name in self._created:
            self._cluster.delete(name)

    # Members

    def _beat(self, plain: list[str], options: dict[str, str], version: int) -> None:
        who, *verbs = plain
        if "join" in verbs:
            self._joined_with[who] = dict(options)
            self._owned[who] = "none"
        elif "full" in verbs:
            options = {**self._joined_with[who], "owns": self._owned[who], **options}
        elif "instance" in self._joined_with.get(who, {}):
            options.setdefault("instance", self._joined_with[who]["instance"])
        told = {"join": JOIN, "leave": LEAVE, "away": AWAY}
        epoch = next((told[verb] for verb in verbs if verb in told), self._epochs.get(who, JOIN))
        is_full = "join" in verbs or "full" in verbs
        if options.get("owns") == "told":
            options["owns"] = self._has.get(who, "none")
        if "owns" in options:
            self._owned[who] = options["owns"]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id(options),
            member_id=options.get("id", self._ids.get(who, who)).replace("none", ""),
            member_epoch=int(options.get("epoch", epoch)),
            instance_id=options.get("instance"),
            rack_id=options.get("rack"),
            rebalance_timeout_ms=int(options.get("timeout", 10_000 if is_full else -1)),
            subscribed_topic_names=_listed(options.get("topics")),
            subscribed_topic_regex=options["regex"].replace("none", "") if "regex" in options else None,
            server_assignor=options.get("assignor"),
            topic_partitions=self._topic_partitions(options.get("owns", "none" if is_full else None)),
        )
        if version == 0:
            request.subscribed_topic_regex = None
        self._begin(who, request, version, 1)

    def _topic_partitions(self, text: str | None) -> list[TopicPartitions] | None:
        if text is None:
            return None
        ids = {name: uuid for uuid, name in self._cluster.topic_names().items()}
        return [TopicPartitions(ids[topic], partitions) for topic, partitions in _by_topic(text).items()]

    def _join(self, plain: list[str], options: dict[str, str], version: int) -> None:
        """A classic member joins: `owns=` and `rack=` are part of what it tells the others."""
        (who,) = plain
        if options.get("owns") == "told":
            options["owns"] = self._has.get(who, "none")
        owned = [ConsumerProtocolSubscriptionTopicPartition(*one) for one in _by_topic(options.get("owns")).items()]
        protocols = []
        for one in options.get("protocols", "range:t").split(","):
            name, _, topics = one.partition(":")
            subscription = ConsumerProtocolSubscription(
                topics.split("+"), owned_partitions=owned, rack_id=options.get("rack")
            )
            protocols.append(JoinGroupRequestProtocol(name, b"\0\3" + encode(subscription, 3)))
        request = JoinGroupRequest(
            self._group_id(options),
            int(options.get("session", 10_000)),
            int(options.get("rebalance", 10_000)),
            self._id(who, options),
            options.get("instance"),
            options.get("type", "consumer"),
            protocols,
            options.get("reason"),
        )
        self._begin(who, request, version, 9)

    def _sync(self, plain: list[str], options: dict[str, str], version: int) -> None:
        """A classic member syncs; its leader assigns partitions: `assign=a:t-0+t-1,b:t-2`."""
        (who,) = plain
        assignments = []
        for one in options.get("assign", "").split(","):
            name, colon, partitions = one.partition(":")
            if colon:
                assigned = [ConsumerProtocolAssignmentTopicPartition(*two) for two in _by_topic(partitions).items()]
                data = b"\0\3" + encode(ConsumerProtocolAssignment(assigned), 3)
                assignments.append(SyncGroupRequestAssignment(self._ids.get(name, name), data))
        request = SyncGroupRequest(
            self._group_id(options),
            int(options.get("gen", self._generation)),
            self._id(who, options),
            options.get("instance"),
            options.get("type", "consumer"),
            options.get("protocol", self._protocol),
            assignments,
        )
        self._begin(who, request, version, 5)

    # The cluster

    def _create(self, plain: list[str], options: dict[str, str], version: int) -> None:
        self._cluster.create(plain[0], int(plain[1]))
        self._created.append(plain[0])

    def _grow(self, plain: list[str], options: dict[str, str], version: int) -> None:
        self._cluster.grow(plain[0], int(plain[1]))

    def _delete(self, plain: list[str], options: dict[str, str], version: int) -> None:
        """A topic; the group itself where none is named."""
        if not plain:
            super()._delete(plain, options, version)
            return
        self._cluster.delete(plain[0])
        self._created.remove(plain[0])

    def _config(self, plain: list[str], options: dict[str, str], version: int) -> None:
        for name, value in options.items():
            self._cluster.configure(self._group, name, value)

    def _show(self, plain: list[str], options: dict[str, str], version: int) -> None:
        self._begin(TOOL, ConsumerGroupDescribeRequest([self._group_id(options)], False), version, 1)

    def execute(self, command: str) -> list[str]:
        if command == "records":
            found, self._read_to = self._cluster.records(self._read_to)
            lines = [self._record(key, value) for key, value in found if self._is_own(key)]
            # Members of one kind of record come in the order of their ids' hashes, which mostly are random.
            kinds = itertools.groupby(lines, key=lambda line: line.split(" ")[:2])
            return [line for _, some in kinds for line in sorted(some)]
        return super().execute(command)

    # What is printed

    def _told(self, who: str, response: Message) -> list[str]:
        match response:
            case ConsumerGroupHeartbeatResponse():
                return [f"{who}: {self._beaten(who, response)}"]
            case ConsumerGroupDescribeResponse():
                return [line for group in response.groups for line in self._shown(group)]
            case SyncGroupResponse() if not response.error_code:
                self._has[who] = _owning(_assigned(bytes(response.assignment)))
                return [f"{who}: assigned {_assigned(bytes(response.assignment))} {response.protocol_name}"]
        return super()._told(who, response)

    def _beaten(self, who: str, response: ConsumerGroupHeartbeatResponse) -> str:
        if response.error_code:
            return error_name(response.error_code)
        self._epochs[who] = response.member_epoch
        assert response.member_id is not None, "a member is told its id"
        self._ids[who] = response.member_id
        self._names[response.member_id] = who
        told = f"epoch {response.member_epoch}"
        if response.assignment is not None:
            self._has[who] = _owning(self._partitions(response.assignment.topic_partitions))
            told += f", has {self._partitions(response.assignment.topic_partitions)}"
        return told

    def _shown(self, group: Any) -> list[str]:
        if group.error_code:
            return [error_name(group.error_code)]
        lines = [
            f"{group.group_state}, epoch {group.group_epoch}, assignment of {group.assignment_epoch} by "
            f"{group.assignor_name}"
        ]
        for one in sorted(group.members, key=lambda one: self._named(one.member_id)):
            subscription = "+".join(sorted(one.subscribed_topic_names)) or "-"
            regex = f" /{one.subscribed_topic_regex}/" if one.subscribed_topic_regex else ""
            rack = f" in {one.rack_id}" if one.rack_id else ""
            kind = {0: "classic", 1: "consumer"}.get(one.member_type, str(one.member_type))
            lines.append(
                f"  {self._member_of(one)} of {one.client_id} at {one.client_host}{rack}, {kind}, epoch "
                f"{one.member_epoch}, subscribed to {subscription}{regex}: has "
                f"{self._partitions(one.assignment.topic_partitions)}, should have "
                f"{self._partitions(one.target_assignment.topic_partitions)}"
            )
        return lines

    def _described(self, group: Any) -> list[str]:
        words = [group.group_state, group.protocol_type, group.protocol_data]
        lines = [" ".join(word for word in words if word)]
        for one in sorted(group.members, key=lambda one: self._named(one.member_id)):
            assigned = _assigned(bytes(one.member_assignment)) if one.member_assignment else "nothing"
            lines.append(f"  {self._member(one)} of {one.client_id} at {one.client_host}, assigned {assigned}")
        return lines

    def _member_of(self, one: Any) -> str:
        return self._named(one.member_id) + (f"@{one.instance_id}" if one.instance_id else "")

    def _partitions(self, topics: list[Any]) -> str:
        names = self._cluster.topic_names()
        return _listing(f"{names.get(one.topic_id, '?')}-{index}" for one in topics for index in one.partitions)

    def _is_own(self, key: Any) -> bool:
        group_id: str = key.group_id if hasattr(key, "group_id") else key.group
        return group_id == self._group

    def _record(self, key: Message, value: Message | None) -> str:
        keyed: Any = to_json(key, 0)
        words = [self._named(text) for name, text in keyed.items() if name not in ("groupId", "group")]
        head = " ".join(["+" if value is not None else "-", key.schema.name.removesuffix("Key"), *words])
        if value is None:
            return head
        names = {str(uuid): name for uuid, name in self._cluster.topic_names().items()}
        version = 3 if key.schema.name == "GroupMetadataKey" else 0
        text = _plain(_sorted(to_json(value, version), names) if self.hides_hashes else to_json(value, version))
        if self.hides_hashes:
            text = re.sub(r"(metadataHash)=-?[1-9]\d*", r"\1=HASH", text)
        return f"{head} {_masked(text, {**names, **self._names})}"


def error_name(code: int) -> str:
    name: str = error_class(code).name
    return name


def _sorted(form: Any, names: dict[str, str]) -> Any:
    """With lists of topics in the order of the names: that of their ids' hashes is random."""
    for value in form.values():
        if isinstance(value, list) and value and isinstance(value[0], dict) and "topicId" in value[0]:
            value.sort(key=lambda one: names.get(one["topicId"], ""))
    return form


def _plain(form: Any) -> str:
    return re.sub(r'"([A-Za-z]\w*)": ', r"\1=", json.dumps(form))


def _masked(text: str, names: dict[str, str]) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"(imestamp)=[1-9]\d{9,}", r"\1=NOW", text)
    text = re.sub(r"(version)=\d+", r"\1=OFFSET", text)
    for known, name in names.items():
        text = text.replace(f'"{known}"', f'"{name}"')
    return text


def _listed(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [] if text == "none" else text.split("+")


def _by_topic(text: str | None) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for one in _listed(text) or []:
        topic, _, index = one.rpartition("-")
        topics.setdefault(topic, []).append(int(index))
    return topics


def _assigned(data: bytes) -> str:
    assignment, _ = decode_prefix(ConsumerProtocolAssignment, 0, data, 2)
    return _listing(f"{one.topic}-{index}" for one in assignment.assigned_partitions for index in one.partitions)


def _owning(listing: str) -> str:
    """What is printed, as it is given in a command."""
    return "none" if listing == "-" else listing.replace(" ", "+")


def _listing(partitions: Any) -> str:
    return " ".join(sorted(partitions, key=lambda name: (name.rpartition("-")[0], int(name.rpartition("-")[2])))) or "-"

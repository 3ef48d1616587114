"""Clients of groups, transactions and shares that make no sense, or are far too many."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from ottla.errors import GroupIdNotFound, InvalidRegularExpression, MemberIdRequired, UnknownServerError
from ottla.server.roles import ROLES
from ottla.types import Uuid
from ottla.wire import APIS, Message, request_class
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.schema import Struct
from tests.hostile.probe import watched
from tests.hostile.wild import Pools, wild_message
from tests.support.clients import eventually
from tests.support.raw import RawClient
from tests.support.ready import is_ready
from tests.support.server import Server, Settings, run_ottla

SEED = 20261116
MB = 1_000_000
ROUNDS = 400 if os.environ.get("OTTLA_SOAK") else 40
CONNECTION_COUNT = 12
WAIT_S = 0.02
BATCH = 20
NAMES = sorted(
    name
    for name in ROLES["broker"].packages
    if any(word in name for word in ("Group", "Offset", "Txn", "Transactions", "Share", "Heartbeat", "ProducerId"))
    and name not in ("ListOffsets", "OffsetForLeaderEpoch")
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("hostile")
    settings = Settings(directory / "data")
    settings["share.coordinator.state.topic.num.partitions"] = "3"
    properties = settings.write(directory / "server.properties")
    made = run_ottla("storage", "format", "-t", "9i0_JSaRSF6dr5bWoMQO8g", "-c", properties)
    assert made.returncode == 0, made.stderr
    with Server.ottla(properties) as running:
        with RawClient(running.port) as client:
            client.create_topic("t", partitions=2)
            topic_id = topic_id_of(client, "t")
            for key_type, key in ((0, "group"), (1, "transactional-id"), (2, f"group:{topic_id}:0")):
                eventually(partial(has_coordinator, client, key_type, key), f"a coordinator of kind {key_type}")
        yield running
        running.stop()
    assert running.errors() == []


class Wild:
    """One connection that asks and does not wait long: what is parked at the broker stays there."""

    def __init__(self, port: int, pools: Pools) -> None:
        self._port = port
        self._pools = pools
        self._socket: socket.socket | None = None
        self.answered = 0

    def ask(self, name: str, version: int, request: Message) -> None:
        key = next(api.key for api in APIS.values() if api.name == name)
        frame = write_request(RequestHeader(key, version, 7, "wild"), request)
        self.close()
        self._socket = socket.create_connection(("127.0.0.1", self._port), 10)
        self._socket.sendall(frame)
        if not is_ready(self._socket, wait_s=WAIT_S):
            return  # a join that waits for others, or one that the broker thinks about: it may
        with self._socket.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            data = stream.read(size) if size else b""
        assert data, f"closed: {name} {version} {request}"
        answer = read_response(data, key, version, strict=True).body
        self.answered += 1
        for part in structs(answer):
            self._pools.learn(part)
            code = getattr(part, "error_code", 0)
            assert code != UnknownServerError.code, f"{name} {version} {request}\n{answer}"

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def structs(value: Any) -> Iterator[Struct]:
    """The message and everything that is declared inside it."""
    if isinstance(value, list):
        for element in value:
            yield from structs(element)
    elif isinstance(value, Struct):
        yield value
        for field in value.schema.fields:
            yield from structs(getattr(value, field.name))


def topic_id_of(client: RawClient, topic: str) -> Uuid:
    response = client.send(MetadataRequest([MetadataRequestTopic(name=topic)]), 12, MetadataResponse)
    return response.topics[0].topic_id


def has_coordinator(client: RawClient, key_type: int, key: str) -> bool:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return not client.send(request, 6, FindCoordinatorResponse).coordinators[0].error_code


def test_requests_that_are_well_formed_and_make_no_sense(server: Server) -> None:
    """Each is answered with an error that has a name, whatever came before it."""
    chance = random.Random(SEED)
    with RawClient(server.port) as client:
        pools = Pools(chance, topic_id_of(client, "t"))
    by_name = {api.name: api for api in APIS.values()}
    with watched(server, growth_max=64 * MB), ExitStack() as stack:
        wild = [Wild(server.port, pools) for _ in range(CONNECTION_COUNT)]
        for one in wild:
            stack.callback(one.close)
        for number in range(ROUNDS * len(NAMES)):
            name = chance.choice(NAMES)
            version = chance.randint(*by_name[name].advertised)
            request = wild_message(request_class(by_name[name].key), version, pools)
            wild[number % CONNECTION_COUNT].ask(name, version, request)
        assert sum(one.answered for one in wild) > ROUNDS * len(NAMES) // 2


def test_ten_thousand_members_of_one_client(server: Server) -> None:
    """They are members while their sessions last: the broker knows them all, and serves others meanwhile."""
    group, count = "crowd", 10_000
    with watched(server, growth_max=64 * MB), RawClient(server.port) as client:
        for place in range(0, count, BATCH):
            for number in range(place, place + BATCH):
                request = ConsumerGroupHeartbeatRequest(
                    group, f"member-{number}", 0, rebalance_timeout_ms=300_000, subscribed_topic_names=["t"],
                    topic_partitions=[],
                )  # fmt: skip
                key = client.post(request, 1)
            for _ in range(BATCH):
                joined = client.receive(key, 1, ConsumerGroupHeartbeatResponse)
                assert joined.error_code == 0, joined
        (described,) = client.send(ConsumerGroupDescribeRequest([group]), 1, ConsumerGroupDescribeResponse).groups
        assert len(described.members) == count
        assert sum(len(member.assignment.topic_partitions) for member in described.members) <= 2


def test_ten_thousand_that_ask_for_a_member_id_and_do_not_come_back(server: Server) -> None:
    """Each is given an id and remembered for its session, no longer."""
    request = JoinGroupRequest("lobby", 6000, 6000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    with RawClient(server.port) as client:
        with watched(server, growth_max=32 * MB):
            for _ in range(10_000):
                assert client.send(request, 9, JoinGroupResponse).error_code == MemberIdRequired.code

        def has_forgotten() -> bool:
            deleted = client.send(DeleteGroupsRequest(["lobby"]), 2, DeleteGroupsResponse)
            return deleted.results[0].error_code in (0, GroupIdNotFound.code)

        eventually(has_forgotten, "the group is empty again")


def test_requests_with_arrays_that_are_far_too_long(server: Server) -> None:
    """Two thousand groups, topics, partitions, protocols or members in one request."""
    names = [f"name-{number}" for number in range(2_000)]
    commits = [OffsetCommitRequestPartition(number % 2, 1, -1, "") for number in range(len(names))]
    unknown = [OffsetCommitRequestTopic(name, partitions=commits[:1]) for name in names]
    protocols = [JoinGroupRequestProtocol(name, b"") for name in names]
    heartbeat = ConsumerGroupHeartbeatRequest(
        "wide", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_names=names, topic_partitions=[]
    )
    asked: list[tuple[Message, int, type[Message]]] = [
        (OffsetCommitRequest("wide", -1, topics=[OffsetCommitRequestTopic("t", partitions=commits)]), 9,
         OffsetCommitResponse),
        (OffsetCommitRequest("wide", -1, topics=unknown), 9, OffsetCommitResponse),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=names), 5, FindCoordinatorResponse),
        (DescribeGroupsRequest(names), 5, DescribeGroupsResponse),
        (DeleteGroupsRequest(names), 2, DeleteGroupsResponse),
        (LeaveGroupRequest(group_id="crowd", members=[MemberIdentity(name) for name in names]), 5, LeaveGroupResponse),
        (JoinGroupRequest("many", 6000, 6000, "", None, "consumer", protocols), 3, JoinGroupResponse),
        (heartbeat, 1, ConsumerGroupHeartbeatResponse),
        (DescribeTransactionsRequest(names), 0, DescribeTransactionsResponse),
        (AddPartitionsToTxnRequest([], "x9", 1, 0, [AddPartitionsToTxnTopic("t", list(range(len(names))))]), 3,
         AddPartitionsToTxnResponse),
    ]  # fmt: skip
    with RawClient(server.port) as client, watched(server, growth_max=64 * MB):
        for request, version, answer in asked:
            client.send(request, version, answer)
            time.sleep(0.1)  # the others must notice each alone, not all of them together


def test_a_regex_that_would_take_for_ever_is_evaluated_at_once(server: Server) -> None:
    """Kafka's RE2 knows no backtracking, and neither may we."""
    with RawClient(server.port) as client, watched(server, growth_max=16 * MB):
        for number, regex in enumerate(["(a+)+$", "(t|t)*" * 20 + "b", "(" * 500 + "t" + ")" * 500]):
            request = ConsumerGroupHeartbeatRequest(
                f"regex-{number}", "m", 0, rebalance_timeout_ms=1000, subscribed_topic_regex=regex, topic_partitions=[]
            )
            answer = client.send(request, 1, ConsumerGroupHeartbeatResponse)
            assert answer.error_code in (0, InvalidRegularExpression.code), answer

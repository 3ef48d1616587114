"""Questions to a node, one request a connection: what the helpers of a cluster need, and no client to wait for.

`ask` raises `OSError` when there is no answer; a Kafka error in the answer is for the caller to see.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, KafkaError, NotCoordinator, error_class
from ottla.types import Uuid
from ottla.wire import Message, response_class
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader

Answer = TypeVar("Answer", bound=Message)

CLIENT_ID = "ottla-testing"
TIMEOUT_S = 30.0
NOT_READY = (CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code)


class GroupSeen(NamedTuple):
    """A group as it is at a moment. One that does not exist is `Dead` and has no members."""

    state: str
    member_count: int


class PartitionSeen(NamedTuple):
    """A partition as a node sees it; `leader` and the others are node ids."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def new_cluster_id() -> str:
    """A random one. Its text never begins with `-`, which a command line would take for an option."""
    while (made := str(Uuid(uuid.uuid4().bytes))).startswith("-"):
        pass
    return made


def ask(address: str, request: Message, version: int, answer: type[Answer], timeout_s: float = TIMEOUT_S) -> Answer:
    """The response to one request."""
    host, _, port = address.rpartition(":")
    key = _key(request)
    with (
        socket.create_connection((host, int(port)), timeout=timeout_s) as link,
        link.makefile("rb") as stream,
    ):
        link.sendall(write_request(RequestHeader(key, version, 1, CLIENT_ID), request))
        size = int.from_bytes(stream.read(4), "big")
        data = stream.read(size)
    if not size or len(data) < size:
        raise ConnectionError(f"{address} closed the connection without an answer")
    body = read_response(data, key, version).body
    assert isinstance(body, answer), body
    return body


def create_topic(address: str, name: str, partitions: int, configs: dict[str, str]) -> None:
    """Make a topic; the broker's error is raised."""
    from ottla.wire.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )

    settings = [CreatableTopicConfig(key, value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1, configs=settings)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(TIMEOUT_S * 1000))
    (made,) = ask(address, request, 7, CreateTopicsResponse).topics
    if made.error_code:
        raise error_class(made.error_code)(made.error_message or f"cannot create topic {name}")


def describe_topic(address: str, name: str) -> list[PartitionSeen]:
    """The partitions of a topic as that node sees them; none while it does not know the topic."""
    from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    (topic,) = ask(address, request, 12, MetadataResponse).topics
    return [
        PartitionSeen(
            one.partition_index, one.leader_id, one.leader_epoch, tuple(one.replica_nodes), tuple(one.isr_nodes)
        )
        for one in topic.partitions
    ]


def describe_group(addresses: Sequence[str], group: str) -> GroupSeen:
    """A group of any kind, wherever it is coordinated."""
    from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    for address in addresses:
        listed = ask(address, ListGroupsRequest(), 5, ListGroupsResponse)
        _check(listed.error_code)
        for found in listed.groups:
            if found.group_id == group:
                answer = ask(address, *_describing(found.group_type, group))
                (seen,) = answer.groups  # type: ignore[attr-defined]  # every one of them answers with groups
                _check(seen.error_code)
                return GroupSeen(seen.group_state, len(seen.members))
    return GroupSeen("Dead", 0)


def _describing(group_type: str, group: str) -> tuple[Message, int, type[Message]]:
    """The request that describes groups of a type, its version, and what answers it."""
    request: Message
    match group_type.lower():
        case "consumer":
            from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest

            request, version = ConsumerGroupDescribeRequest([group]), 1
        case "share":
            from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest

            request, version = ShareGroupDescribeRequest([group]), 1
        case "streams":
            from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

            request, version = StreamsGroupDescribeRequest([group]), 0
        case _:
            from ottla.wire.messages.describe_groups import DescribeGroupsRequest

            request, version = DescribeGroupsRequest([group]), 5
    return request, version, response_class(_key(request))


def _key(request: Message) -> int:
    assert request.schema.api_key is not None, "a request is part of an API"
    return request.schema.api_key


def _check(error_code: int) -> None:
    if error_code in NOT_READY:
        raise NotReady
    if error_code:
        raise error_class(error_code)()


class NotReady(KafkaError):
    """The coordinator is still on its way: ask again."""

"""Two doors to the coordinator of the group `app`: a node on virtual time, and a broker behind a socket.

A transcript is played through either, so that a real Kafka can be asked whether it is true.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ottla.errors import GroupIdNotFound, KafkaError
from ottla.records import batches
from ottla.replica import PartitionLog
from ottla.types import Uuid
from ottla.wire import Message, response_class
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ottla.wire.metadata import FeatureLevelRecord
from tests.support.raw import RawClient
from tests.unit.replica.node import TestNode

LOG = "__consumer_offsets"
GROUP_CONFIG = 32
FETCH_VERSION, LATEST = 12, -1
READY_S, PAUSE_S = 30.0, 0.3
BOGUS = "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete"
"""What a controller says of the one setting that the transcripts have wrong."""

SETTINGS: Mapping[str, str] = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.max.size": "3",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
"""The broker's settings behind either door."""


class Door(Protocol):
    """A broker, its topics, and its log of groups."""

    def send(self, request: Message, version: int, client_id: str) -> Message: ...

    def written(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys and values that the log of groups has beyond those already given."""
        ...

    def create_topic(self, name: str, partitions: int) -> None: ...

    def delete_topic(self, name: str) -> None: ...

    def partition_count(self, name: str) -> int: ...

    def set_configs(self, settings: Mapping[str, str | None]) -> None:
        """Of the group, all at once."""
        ...

    def run_ms(self, duration_ms: int) -> None: ...

    def reload(self) -> None: ...

    def close(self) -> None: ...


class VirtualDoor:
    """A node's real handlers and logs on virtual time; the controller is played."""

    def __init__(self) -> None:
        self.node = TestNode(SETTINGS)
        self.node.publish(FeatureLevelRecord(name="streams.version", feature_level=1))
        self.node.create_topic(LOG)
        self.node.controller.answers[CreateTopicsRequest] = self._create
        self.answered: Message
        """The last response."""
        self._read_to = 0
        self._numbers = itertools.count(1)
        self.node.run_ms(1)

    def send(self, request: Message, version: int, client_id: str) -> Message:
        try:
            self.answered = self.node.send(request, version, client_id=client_id)
        except KafkaError as error:  # of a promise; a session answers it in the same way
            self.answered = _failed(request, error, version)
        return self.answered

    def written(self) -> Iterator[tuple[bytes, bytes | None]]:
        log = PartitionLog.of(self.node.replicas, LOG, 0)
        begin, self._read_to = self._read_to, log.log_end_offset
        if begin < self._read_to:
            yield from _rows(log.read(begin, bytes_max=1 << 20), begin)

    def create_topic(self, name: str, partitions: int) -> None:
        # Another id each time, as a controller does it: the hash of the topics is of their ids.
        self.node.create_topic(name, partitions, uuid=Uuid(next(self._numbers).to_bytes(16, "big")))

    def delete_topic(self, name: str) -> None:
        self.node.delete_topic(name, uuid=self.node.image.topics.by_name[name].id)

    def partition_count(self, name: str) -> int:
        topic = self.node.image.topics.by_name.get(name)
        return 0 if topic is None else len(topic.partitions)

    def set_configs(self, settings: Mapping[str, str | None]) -> None:
        for name, value in settings.items():
            self.node.set_config("app", name, value, kind=GROUP_CONFIG)

    def run_ms(self, duration_ms: int) -> None:
        self.node.run_ms(duration_ms)

    def reload(self) -> None:
        self.node.groups.on_resigned(0)
        self.node.groups.on_elected(0, next(self._numbers))
        self.node.run_ms(10)

    def close(self) -> None:
        self.node.run_ms(10)  # what was begun ends
        self.node.stop()

    def _create(self, request: Any) -> CreateTopicsResponse:
        results = []
        for topic in request.topics:
            is_bogus = any(config.value == "bogus" for config in topic.configs)
            if not is_bogus:
                self.create_topic(topic.name, topic.num_partitions)
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=40 if is_bogus else 0, error_message=BOGUS if is_bogus else None
                )
            )
        return CreateTopicsResponse(topics=results)


class SocketDoor:
    """A running broker, Ottla's or Kafka's, with `SETTINGS`. What a transcript has made there goes with `clean`.

    Kafka's coordinator learns of topics and settings a while after the controller has answered: hence the pauses.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: dict[str, RawClient] = {}
        self._configs: dict[str, None] = {}
        deadline = time.monotonic() + READY_S
        while self._describe() not in (0, GroupIdNotFound.code):
            assert time.monotonic() < deadline, "the coordinator is not ready"
            time.sleep(0.1)
        self._read_to = self._end()

    def _describe(self) -> int:
        """The error that the group is described with, if any."""
        self._admin(FindCoordinatorRequest(key="app"), 3, FindCoordinatorResponse)  # makes the topic
        described = self._admin(StreamsGroupDescribeRequest(group_ids=["app"]), 0, StreamsGroupDescribeResponse)
        return int(described.groups[0].error_code)

    def send(self, request: Message, version: int, client_id: str) -> Message:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = RawClient(self._port, client_id=client_id)
        key = request.schema.api_key
        assert key is not None, f"{request} is no request"
        return client.send(request, version, response_class(key))

    def _admin(self, request: Message, version: int, answer: type[Message]) -> Any:
        response = self.send(request, version, "admin")
        assert isinstance(response, answer), response
        return response

    def written(self) -> Iterator[tuple[bytes, bytes | None]]:
        begin, end = self._read_to, self._end()
        while begin < end:
            request = FetchRequest(
                replica_id=-1,
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[
                    FetchTopic(LOG, partitions=[FetchPartition(0, fetch_offset=begin, partition_max_bytes=1 << 20)])
                ],
            )
            (partition,) = self._admin(request, FETCH_VERSION, FetchResponse).responses[0].partitions
            assert partition.error_code == 0, partition
            for batch in batches(partition.records):
                for offset, _, key, value, _ in batch.rows():
                    if offset >= begin and key is not None:
                        yield key, value
                begin = max(begin, batch.last_offset + 1)
        self._read_to = begin

    def _end(self) -> int:
        topics = [ListOffsetsTopic(LOG, [ListOffsetsPartition(0, timestamp=LATEST)])]
        response = self._admin(ListOffsetsRequest(replica_id=-1, topics=topics), 6, ListOffsetsResponse)
        return int(response.topics[0].partitions[0].offset)

    def create_topic(self, name: str, partitions: int) -> None:
        self._clients["admin"].create_topic(name, partitions=partitions)
        time.sleep(PAUSE_S)

    def delete_topic(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        (deleted,) = self._admin(request, 6, DeleteTopicsResponse).responses
        assert deleted.error_code == 0, deleted
        time.sleep(PAUSE_S)

    def partition_count(self, name: str) -> int:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = self._admin(request, 12, MetadataResponse).topics
        return len(topic.partitions)

    def set_configs(self, settings: Mapping[str, str | None]) -> None:
        self._configs.update(dict.fromkeys(settings))
        changes = [
            AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
            for name, value in settings.items()
        ]
        resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name="app", configs=changes)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (altered,) = self._admin(request, 1, IncrementalAlterConfigsResponse).responses
        assert altered.error_code == 0, altered
        time.sleep(PAUSE_S)

    def run_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def reload(self) -> None:
        """Not without a restart, which is another test's."""

    def clean(self) -> None:
        """Take away the group, whose members have left, the topics and the settings."""
        self._admin(DeleteGroupsRequest(groups_names=["app"]), 2, DeleteGroupsResponse)
        for topic in self._admin(MetadataRequest(topics=None), 12, MetadataResponse).topics:
            if not topic.is_internal:
                self.delete_topic(topic.name)
        if self._configs:
            self.set_configs(dict.fromkeys(self._configs))

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _failed(request: Message, error: KafkaError, version: int) -> Message:
    module = importlib.import_module(type(request).__module__.replace("ottla.wire.messages.", "ottla.server.handlers."))
    answer: Message = module.failed(request, error, version)
    return answer


def _rows(data: Any, begin: int) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in batches(data):
        for offset, _, key, value, _ in batch.rows():
            if offset >= begin and key is not None:
                yield key, value

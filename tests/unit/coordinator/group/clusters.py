"""What transcripts do to the cluster besides asking its group coordinator, through either kind of door."""

from __future__ import annotations

import time
from typing import Any, Protocol

from ottla.records import batches
from ottla.replica import PartitionLog
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.coordinator import GROUP
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.metadata import FeatureLevelRecord, PartitionRecord
from tests.support.raw import RawClient
from tests.unit.replica.node import NODE_ID, TestNode, directory_id, topic_id

GROUP_CONFIG = 32
LOG = "__consumer_offsets"
Record = tuple[Message, Message | None]


class Cluster(Protocol):
    """One partition of `__consumer_offsets`, and topics that come and go."""

    def topic_names(self) -> dict[Uuid, str]: ...

    def create(self, name: str, partitions: int) -> None: ...

    def grow(self, name: str, partitions: int) -> None: ...

    def delete(self, name: str) -> None: ...

    def configure(self, group_id: str, name: str, value: str) -> None: ...

    def records(self, offset: int) -> tuple[list[Record], int]:
        """The records from that offset on, and where they end."""
        ...


class VirtualCluster:
    """A node on virtual time."""

    def __init__(self, node: TestNode) -> None:
        self._node = node
        node.publish(FeatureLevelRecord(name="group.version", feature_level=1))

    def topic_names(self) -> dict[Uuid, str]:
        return {topic.id: topic.name for topic in self._node.image.topics.by_id.values()}

    def create(self, name: str, partitions: int) -> None:
        self._node.create_topic(name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        before = len(self._node.image.topics.by_name[name].partitions)
        self._node.publish(
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id(name),
                    replicas=[NODE_ID],
                    isr=[NODE_ID],
                    leader=NODE_ID,
                    directories=[directory_id("/logs")],
                )
                for index in range(before, partitions)
            )
        )

    def delete(self, name: str) -> None:
        self._node.delete_topic(name)

    def configure(self, group_id: str, name: str, value: str) -> None:
        self._node.set_config(group_id, name, value, kind=GROUP_CONFIG)

    def records(self, offset: int) -> tuple[list[Record], int]:
        log = PartitionLog.of(self._node.replicas, LOG, 0)
        return _records(log.read(offset, bytes_max=10_000_000), offset), log.log_end_offset


class SocketCluster:
    """A broker in a process of its own."""

    def __init__(self, port: int) -> None:
        self._client = RawClient(port)
        self._log_id = next(uuid for uuid, name in self.topic_names().items() if name == LOG)

    def topic_names(self) -> dict[Uuid, str]:
        response = self._client.send(MetadataRequest(topics=None), 12, MetadataResponse)
        return {topic.topic_id: topic.name for topic in response.topics if topic.name is not None}

    def create(self, name: str, partitions: int) -> None:
        self._client.create_topic(name, partitions=partitions)
        while name not in self.topic_names().values():
            time.sleep(0.01)

    def grow(self, name: str, partitions: int) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 10_000, False)
        (made,) = self._client.send(request, 3, CreatePartitionsResponse).results
        assert made.error_code == 0, made

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        (gone,) = self._client.send(request, 6, DeleteTopicsResponse).responses
        assert gone.error_code == 0, gone
        while name in self.topic_names().values():
            time.sleep(0.01)

    def configure(self, group_id: str, name: str, value: str) -> None:
        resource = AlterConfigsResource(GROUP_CONFIG, group_id, [AlterableConfig(name, 0, value)])
        request = IncrementalAlterConfigsRequest([resource], False)
        (done,) = self._client.send(request, 1, IncrementalAlterConfigsResponse).responses
        assert done.error_code == 0, done

    def records(self, offset: int) -> tuple[list[Record], int]:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=10_000_000,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=self._log_id, partitions=[partition])],
        )
        response = self._client.send(request, 16, FetchResponse)
        (found,) = response.responses[0].partitions
        return _records(found.records or b"", offset), found.high_watermark

    def close(self) -> None:
        self._client.close()


def _records(data: Any, offset: int) -> list[Record]:
    found: list[Record] = []
    for batch in batches(data):
        for at, _, key, value, _ in batch.rows():
            if at >= offset and not batch.is_control:
                assert key is not None, "every record has a key"
                read = GROUP.read_key(key)
                found.append((read, None if value is None else GROUP.read_value(read, value)[0]))
    return found

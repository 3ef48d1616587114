"""Produce requests that begin like one before them: what their first bytes say is known, and is not decoded again.

A producer sends the same request over and over; nothing but its correlation id and its records are new. Everything
between these two is a key of a table here, which tells the partition and the answer. That follows from those bytes and
from nothing else, so it cannot become wrong: whether the partition is there and led here is looked up every time.

Promises: `serve` appends and answers what `handlers.produce` would, byte for byte, or it declines and has changed
nothing. It declines what is not everyday: several partitions, a transaction, replicas to wait for, a batch that breaks
a rule. The table is bounded. It spares a request of one record half its time. Who may write is not asked here: a rule
about that has to come before, as has whatever else is told by the connection. Called by `session`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.metadata import INTERNAL_TOPICS
from ottla.records import HEADER_SIZE, NO_TIMESTAMP
from ottla.replica import ReplicaManager
from ottla.types import Uuid
from ottla.wire import encode
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

FIRST_VERSION = 9
"""The first with lengths of one byte and with tags: in older ones the bytes lie elsewhere."""
TOPIC_ID_VERSION = 13
KNOWN_MAX = 1024
HEAD_SIZE_MAX = 512
"""A client id and a topic's name that take more are not remembered."""

_HEAD_START = 8
"""Behind API key, version and correlation id."""
_NAME_SIZE_AT = 8
"""The size of a topic's name, plus 1: in the body, behind no transactional id, acks, time-out and a count of topics."""
_BEHIND_NAME = 13
"""What else of a body comes before the size of the records: with the above, a count of partitions and an index."""
_HEAD_WITH_ID = 29
"""The same all in one where the topic has an id."""
_NO_RECORDS = 4
"""Records that are null, and the ends of partition, topic and request, which have no tags."""
_ENDS = bytes(3)

_CORRELATION_ID = struct.Struct(">i")
_OFFSETS = struct.Struct(">qqq")
"""Of an answer: base offset, append time, log start."""
_MARK = _OFFSETS.pack(-2, -3, -4)


class _Known(NamedTuple):
    """What a head says."""

    topic: str | Uuid
    partition: int
    answer: bytes
    """With its size and header; the correlation id and `_OFFSETS` are to be filled in."""
    offsets_at: int


class KnownProduce:
    """The heads of one version. See the module."""

    __slots__ = ("_has_id", "_known", "_replicas", "_response_head", "_version", "has_met_another")

    def __init__(self, replicas: ReplicaManager, version: int, response_head: bytes) -> None:
        assert version >= FIRST_VERSION, f"version {version} has another form"
        self._replicas = replicas
        self._version = version
        self._has_id = version >= TOPIC_ID_VERSION
        self._response_head = response_head
        self._known: dict[bytes, _Known] = {}
        self.has_met_another = False
        """Whether there was a request since `learn` that began otherwise."""

    def serve(self, frame: memoryview, position: int, correlation_id: int, out: bytearray) -> int:
        """Append what the request brings and put the answer behind `out`; returns its size, or 0 when it declines.

        `position` is where the request's body begins, if its header has no tags.
        """
        size = len(frame)
        if self._has_id:
            end = position + _HEAD_WITH_ID
        elif position + _NAME_SIZE_AT < size:
            end = position + _BEHIND_NAME + frame[position + _NAME_SIZE_AT]
        else:
            return 0
        if end + HEADER_SIZE > size:
            return 0
        known = self._known.get(bytes(frame[_HEAD_START:end]))
        if known is None:
            self.has_met_another = True
            return 0
        topic, index, answer, offsets_at = known
        replicas = self._replicas
        table = replicas.by_id.get(topic) if self._has_id else replicas.by_name.get(topic)  # type: ignore[arg-type]
        partition = None if table is None else table.get(index)
        if partition is None or not partition.is_alone:
            return 0
        # The size of the records, plus 1: seven bits a byte. From 2 MiB on, decoding costs nothing beside the rest.
        count = frame[end]
        start = end + 1
        if count > 127:
            count += (frame[start] << 7) - 128
            if frame[start] > 127:
                start += 1
                count += (frame[start] << 14) - 16384
                if frame[start] > 127:
                    return 0
            start += 1
        stop = start + count - 1
        if stop + 3 != size or frame[stop:] != _ENDS:
            return 0
        try:
            first_offset = partition.append_plain(frame[start:stop])
        except KafkaError:
            return 0  # the long way comes to the same, and tells it
        log = partition.log
        if first_offset is None or log is None:
            return 0
        stats = partition.stats
        stats.produce_requests += 1
        stats.messages_in += log.log_end_offset - first_offset
        stats.bytes_in += stop - start
        at = len(out)
        out += answer
        _CORRELATION_ID.pack_into(out, at + 4, correlation_id)
        _OFFSETS.pack_into(out, at + offsets_at, first_offset, NO_TIMESTAMP, log.log_start_offset)
        return len(answer)

    def learn(self, frame: memoryview, position: int, request: ProduceRequest, response: ProduceResponse) -> None:
        """Remember the head of a request that was answered the long way, if it is one that `serve` could answer."""
        self.has_met_another = False
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1 or request.acks == 0 or position > HEAD_SIZE_MAX:
            return
        topic, answered = topics[0], response.responses[0]
        index = topic.partition_data[0].index
        if answered.partition_responses[0].error_code or self._is_internal(topic):
            return
        head = encode(
            ProduceRequest(
                None,
                request.acks,
                request.timeout_ms,
                [TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(index, None)])],
            ),
            self._version,
        )[:-_NO_RECORDS]
        end = position + len(head)
        # Byte for byte, because a length may be written in more bytes than it needs, and then all else lies elsewhere.
        if frame[position:end] != head or frame[position - 1] or end - _HEAD_START > HEAD_SIZE_MAX:
            return
        marked = PartitionProduceResponse(index, 0, *_OFFSETS.unpack(_MARK))
        body = encode(
            ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [marked])]),
            self._version,
        )
        answer = self._response_head + body
        answer = struct.pack(">i", len(answer) - 4) + answer[4:]
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[bytes(frame[_HEAD_START:end])] = _Known(
            topic.topic_id if self._has_id else topic.name, index, answer, answer.rindex(_MARK)
        )

    def _is_internal(self, topic: TopicProduceData) -> bool:
        """To these only some may write, which is the handler's to judge."""
        table = self._replicas.by_id.get(topic.topic_id) if self._has_id else self._replicas.by_name.get(topic.name)
        return any(one.topic in INTERNAL_TOPICS for one in (table or {}).values())

"""Produce requests that begin like one before them: what their first bytes say is known, and is not decoded again.

Producers send the same request over and over; nothing but its correlation id and its records are new. What comes
before the records, from the end of the header on, is a key of a table here, which tells the partition and the answer.
That follows from those bytes and from nothing else, so it cannot become wrong: whether the partition is there and led
here is looked up every time.

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
KNOWN_MAX = 8192
"""Heads that are remembered of one version: a few hundred bytes each. There is about one a partition."""
NAME_SIZE_MAX = 126
"""Of a topic: the size of a longer name takes two bytes, and all else lies elsewhere."""

_CLIENT_ID_START = 10
"""Behind API key, version, correlation id and the client id's own size."""
_NAME_SIZE_AT = 9
"""The size of a topic's name, plus 1: behind the header's end, no transactional id, acks, time-out and a count of
topics."""
_BEHIND_NAME = 14
"""What else comes before the size of the records: with the above, a count of partitions and an index."""
_HEAD_WITH_ID = 30
"""The same all in one where the topic has an id."""
_NO_RECORDS = 4
"""Records that are null, and the ends of partition, topic and request, which have no tags."""
_ENDS = bytes(3)

_SIZE = struct.Struct(">i")
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

    def serve(self, frame: memoryview, id_size: int, correlation_id: int, out: bytearray) -> int:
        """Append what the request brings and put the answer behind `out`; returns its size, or 0 when it declines.

        `id_size` is the size of the client id, as the header tells it.
        """
        size = len(frame)
        # The last byte of the header, which says that it has no tags; it is part of the key.
        position = _CLIENT_ID_START + id_size if id_size > 0 else _CLIENT_ID_START
        if self._has_id:
            end = position + _HEAD_WITH_ID
        elif position + _NAME_SIZE_AT < size:
            end = position + _BEHIND_NAME + frame[position + _NAME_SIZE_AT]
        else:
            return 0
        if end + HEADER_SIZE > size:
            return 0
        known = self._known.get(bytes(frame[position:end]))
        if known is None:
            self.has_met_another = True
            return 0
        if id_size > 0:
            if not bytes(frame[_CLIENT_ID_START:position]).isascii():
                return 0  # it may not be text at all
        elif id_size < -1:
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
        _CORRELATION_ID.pack_into(out, at + _SIZE.size, correlation_id)
        _OFFSETS.pack_into(out, at + offsets_at, first_offset, NO_TIMESTAMP, log.log_start_offset)
        return len(answer)

    def learn(self, frame: memoryview, position: int, request: ProduceRequest, response: ProduceResponse) -> None:
        """Remember the head of a request that was answered the long way, if it is one that `serve` could answer.

        `position` is where its body begins.
        """
        self.has_met_another = False
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1 or request.acks == 0:
            return
        topic = topics[0]
        index = topic.partition_data[0].index
        if (
            response.responses[0].partition_responses[0].error_code
            or len(topic.name) > NAME_SIZE_MAX
            or self._is_internal(topic, index)
        ):
            return
        body = encode(
            ProduceRequest(
                None,
                request.acks,
                request.timeout_ms,
                [TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(index, None)])],
            ),
            self._version,
        )
        head = b"\0" + body[:-_NO_RECORDS]
        # Byte for byte, because a length may be written in more bytes than it needs, and then all else lies elsewhere.
        if frame[position - 1 : position - 1 + len(head)] != head:
            return
        marked = PartitionProduceResponse(index, 0, *_OFFSETS.unpack(_MARK))
        answer = self._response_head + encode(
            ProduceResponse([TopicProduceResponse(topic.name, topic.topic_id, [marked])]), self._version
        )
        answer = _SIZE.pack(len(answer) - _SIZE.size) + answer[_SIZE.size :]
        if len(self._known) >= KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[head] = _Known(topic.topic_id if self._has_id else topic.name, index, answer, answer.rindex(_MARK))

    def _is_internal(self, topic: TopicProduceData, index: int) -> bool:
        """To these only some may write, which is the handler's to judge."""
        table = self._replicas.by_id.get(topic.topic_id) if self._has_id else self._replicas.by_name.get(topic.name)
        partition = None if table is None else table.get(index)
        return partition is None or partition.topic in INTERNAL_TOPICS
